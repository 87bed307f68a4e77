"""Where the workers of an application keep the states of bundles on a machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hayase.state.stores.spec import StoreSpec


@dataclass(frozen=True, slots=True)
class StateFolders:
    """Folders of environments, one a bundle.

    Of its stores with a changelog, and of those without, on disk and in memory.

    Attributes:
        disk: `<state.dir>/<application.id>`.
        memory: a folder of the application in `state.memory.dir`; empty when it starts, gone when it has stopped.
    """

    disk: Path
    memory: Path

    def logged(self, bundle: str, *, in_memory: bool) -> Path:
        """Of the stores that have a changelog."""
        return (self.memory if in_memory else self.disk) / "state" / bundle

    def unlogged(self, bundle: str, *, in_memory: bool) -> Path:
        """Of the stores that have none."""
        return (self.memory if in_memory else self.disk) / "unlogged" / bundle

    def spill(self, bundle: str) -> Path:
        """For what an epoch of the bundle holds beyond its share of memory: always on disk."""
        return self.disk / "state" / bundle


def logged_in_memory(stores: Iterable[StoreSpec]) -> bool:
    """Whether those of a sub-topology's stores that have a changelog lie in memory.

    They share an environment, for an epoch of a bundle is one transaction, and a snapshot a copy of one: so all do, or
    none.
    """
    logged = [spec for spec in stores if spec.logging]
    return bool(logged) and all(spec.in_memory for spec in logged)
