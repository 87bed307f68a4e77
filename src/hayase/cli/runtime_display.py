"""What `hayase runtime` prints of topologies: their states as they change, and those that a runtime remembers."""

from __future__ import annotations

import typer

from hayase.app.membership import Member, Membership
from hayase.app.named_topology import NamedTopology
from hayase.app.runtime_requests import TopologyStatus
from hayase.app.streams_runtime import StreamsRuntime
from hayase.core.config import StreamsConfig
from hayase.storage.open import open_blobs


class ShownStates:
    """Prints the topologies of a running runtime whose state has changed, and those that are gone."""

    def __init__(self, runtime: StreamsRuntime) -> None:
        self._runtime = runtime
        self._lines: dict[str, str] = {}
        self._apps: dict[str, NamedTopology] = {}

    def update(self) -> None:
        """Print what has changed since the last call."""
        topologies = self._runtime.topologies
        for name in sorted(self._lines.keys() - topologies.keys()):
            gone = self._apps.pop(name)
            del self._lines[name]
            refused = f"refused, so the runtime does not keep it: {gone.error}" if gone.error is not None else "removed"
            typer.echo(f"{name}\t{gone.config.application_id}\t{refused}")
        for name, app in sorted(topologies.items()):
            self._apps[name] = app
            failed = f": {app.error}" if app.error is not None else ""
            line = f"{name}\t{app.config.application_id}\t{app.state.value}{failed}"
            if line != self._lines.get(name):
                self._lines[name] = line
                typer.echo(line)


def status_line(name: str, topology: TopologyStatus) -> str:
    """A topology as its runtime publishes it."""
    run = topology.run
    state = f"{run.state}{', paused' if topology.paused else ''}"
    lag = "" if run.lag_records is None else f", {run.lag_records:,} behind"
    error = f": {run.error}" if run.error else ""
    return f"{name}\t{topology.application_id}\t{state}\t{run.consumed:,} read, {run.produced:,} written{lag}{error}"


def remembered(config: StreamsConfig) -> dict[str, Member]:
    """The topologies that a runtime's checkpoint remembers.

    Args:
        config: of the runtime, as `own_config` gives it.
    """
    return Membership(open_blobs(config.checkpoint_dir, fsync=False)).members


def remembered_line(name: str, member: Member) -> str:
    """A topology that does not run now."""
    return f"{name}\t{member.application_id}\tremembered{', paused' if member.paused else ''}"
