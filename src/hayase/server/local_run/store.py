"""The stores of a local run, for pull queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hayase.server.local_run.run import LocalRun
from hayase.state.stores.protocol import ByteStore


class LocalStore:
    """A store of a local run, which is read between two epochs (`PinnedStore`).

    Args:
        run: whose store.
        name: of the store.

    Raises:
        UnknownStoreError: the topology has no such store.
    """

    is_live = True

    def __init__(self, run: LocalRun, name: str) -> None:
        self.spec = run.spec(name)
        self._run = run
        self._name = name

    @property
    def epoch(self) -> int | None:
        """See `PinnedStore.epoch`."""
        return None

    @contextmanager
    def reading(self) -> Iterator[Sequence[ByteStore]]:
        """See `PinnedStore.reading`."""
        with self._run.lock:
            yield self._run.store_partitions(self._name)

    def close(self) -> None:
        """See `PinnedStore.close`."""
