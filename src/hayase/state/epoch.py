"""The stores of a bundle during one epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

from hayase.state.base import BaseStore
from hayase.state.changes import StateChanges, StoreChanges, StoreKey
from hayase.state.overlay import OverlayStore
from hayase.state.spill import SpillMaps


class EpochTask:
    """`TaskState`: the stores of one task during one epoch."""

    __slots__ = ("_epoch", "_task_id")

    def __init__(self, epoch: EpochState, task_id: str) -> None:
        self._epoch = epoch
        self._task_id = task_id

    def store(self, name: str) -> OverlayStore:
        """The store of that name; made empty when first used; the same object every time."""
        return self._epoch._store((self._task_id, name))


class EpochState:
    """Reads the state as it was after `epoch`, and collects what is written over it. Not thread-safe.

    Close it before the changes are applied: an open snapshot keeps old pages from being reused.

    Attributes:
        epoch: the last epoch applied when this began; -1 if none was.
        digest: that epoch's delta.
    """

    def __init__(
        self,
        epoch: int,
        digest: str,
        base_of: Callable[[StoreKey], BaseStore],
        on_close: Callable[[], None],
    ) -> None:
        self.epoch = epoch
        self.digest = digest
        self._base_of = base_of
        self._on_close: Callable[[], None] | None = on_close
        self._stores: dict[StoreKey, OverlayStore] = {}

    def task(self, task_id: str) -> EpochTask:
        """The stores of a task."""
        return EpochTask(self, task_id)

    def changes(self) -> StateChanges:
        """Everything written so far; stores sorted by task and name, those without changes left out."""
        changed = ((key, store.changes()) for key, store in sorted(self._stores.items()))
        return StateChanges({key: changes for key, changes in changed if changes})

    def deleted_ranges(self) -> StateChanges:
        """The ranges deleted so far, without what was written: together with `pieces` the same as `changes`."""
        ranges = ((key, store.hidden) for key, store in sorted(self._stores.items()))
        return StateChanges({key: StoreChanges(hidden) for key, hidden in ranges if hidden})

    def pieces(self, max_bytes: int) -> Iterator[StateChanges]:
        """What was written so far, in pieces of about so many bytes; no key of a store comes twice."""
        for key, store in sorted(self._stores.items()):
            for piece in store.pieces(max_bytes):
                yield StateChanges({key: piece})

    @property
    def spilled(self) -> bool:
        """Whether any writes are on disk."""
        return any(store.spilled for store in self._stores.values())

    def spill(self, maps: SpillMaps, above_bytes: int = 0) -> None:
        """Move writes to disk if they take more than so many bytes of memory; they are read as before.

        Raises:
            StateError: `DISK_FULL`.
        """
        stores = self._stores.values()
        if sum(store.size_bytes() for store in stores) > above_bytes:
            for store in stores:
                store.spill(maps)

    def close(self) -> None:
        """Let go of the snapshot; stores can not be read any more. Calling it again does nothing."""
        if self._on_close is not None:
            on_close, self._on_close = self._on_close, None
            on_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _store(self, key: StoreKey) -> OverlayStore:
        store = self._stores.get(key)
        if store is None:
            store = self._stores[key] = OverlayStore(self._base_of(key))
        return store
