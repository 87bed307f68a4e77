"""Stores of queries that run on Spark, as pull queries read them: from the states of the workers, on the disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from hayase.state.stores.protocol import ByteStore

if TYPE_CHECKING:  # what reads stores is slow to import; the server answers meanwhile
    from hayase.query.stores import StoreHandle

_SCAN_MAX_S = 60.0
_SAME_EPOCH_S = 10.0
"""How long a scan waits for all partitions to be at one epoch: as long as an epoch may take."""


class SparkStore:
    """A store, all partitions of which are after one epoch (`PinnedStore`).

    Args:
        handle: of the store.

    Raises:
        StateError: it cannot be read.
    """

    is_live = False

    def __init__(self, handle: StoreHandle) -> None:
        self.spec = handle.spec
        self._pinned = ExitStack()
        self._epoch, self._partitions = self._pinned.enter_context(handle.pinned(_SCAN_MAX_S, _SAME_EPOCH_S))

    @property
    def epoch(self) -> int | None:
        """See `PinnedStore.epoch`."""
        return self._epoch

    @contextmanager
    def reading(self) -> Iterator[Sequence[ByteStore]]:
        """See `PinnedStore.reading`."""
        yield self._partitions

    def close(self) -> None:
        """See `PinnedStore.close`."""
        self._pinned.close()


class SparkStoreForKey:
    """A store whose partitions are taken one by one, to read a key (`PinnedStore`).

    Args:
        handle: of the store.
    """

    is_live = False

    def __init__(self, handle: StoreHandle) -> None:
        self.spec = handle.spec
        self._partitions = handle.lazy_partitions()

    @property
    def epoch(self) -> int | None:
        """See `PinnedStore.epoch`."""
        return self._partitions.epoch

    @contextmanager
    def reading(self) -> Iterator[Sequence[ByteStore]]:
        """See `PinnedStore.reading`."""
        yield self._partitions

    def close(self) -> None:
        """See `PinnedStore.close`."""
        self._partitions.close()
