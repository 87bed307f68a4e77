"""The stores of a bundle during one epoch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from types import TracebackType
from typing import Self

from hayase.state.delta.changes import StateChanges, StoreChanges, StoreKey
from hayase.state.environment.base import BaseStore
from hayase.state.environment.overlay import OverlayStore
from hayase.state.environment.spill import SpillMaps


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
        base_of: a store as it was then.
    """

    def __init__(
        self,
        epoch: int,
        digest: str,
        base_of: Callable[[StoreKey], BaseStore],
        on_close: Callable[[], None],
        unlogged: Collection[str] = (),
        left_over: Callable[[StoreKey], bool] = lambda _: False,
    ) -> None:
        """Begin.

        Args:
            epoch: see above.
            digest: see above.
            base_of: see above.
            on_close: called once when it is closed.
            unlogged: names of stores whose changes are in no delta.
            left_over: whether the state holds entries of such a store from a time when it had a changelog.
        """
        self.epoch = epoch
        self.digest = digest
        self.base_of = base_of
        self._unlogged = unlogged
        self._left_over_of = left_over
        self._left_over: list[StoreKey] = []
        self._on_close: Callable[[], None] | None = on_close
        self._stores: dict[StoreKey, OverlayStore] = {}

    def task(self, task_id: str) -> EpochTask:
        """The stores of a task."""
        return EpochTask(self, task_id)

    def changes(self) -> StateChanges:
        """What a delta tells: all changes so far; stores sorted by task and name, those without changes left out."""
        all_changes = self._all_left_over()
        changed = ((key, store.changes()) for key, store in self._logged())
        all_changes.stores |= {key: changes for key, changes in changed if changes}
        return all_changes

    def deleted_ranges(self) -> StateChanges:
        """The ranges deleted so far, without what was written: together with `pieces` the same as `changes`."""
        all_changes = self._all_left_over()
        ranges = ((key, store.hidden) for key, store in self._logged())
        all_changes.stores |= {key: StoreChanges(hidden) for key, hidden in ranges if hidden}
        return all_changes

    def pieces(self, max_bytes: int) -> Iterator[StateChanges]:
        """What was written so far, in pieces of about so many bytes; no key of a store comes twice."""
        for key, store in self._logged():
            for piece in store.pieces(max_bytes):
                yield StateChanges({key: piece})

    def unlogged_pieces(self, names: Collection[str], max_bytes: int) -> Iterator[StateChanges]:
        """What was done so far to those stores without changelog, to be made in this order. Also after `close`."""
        for key, store in sorted(self._stores.items()):
            if key[1] in names:
                if store.hidden:
                    yield StateChanges({key: StoreChanges(store.hidden)})
                for piece in store.pieces(max_bytes):
                    yield StateChanges({key: piece})

    @property
    def spilled(self) -> bool:
        """Whether any writes that a delta tells are on disk."""
        return any(store.spilled for _, store in self._logged())

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
        """Let go of the snapshot; stores cannot be read any more. Calling it again does nothing."""
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
            store = self._stores[key] = OverlayStore(self.base_of(key))
            if key[1] in self._unlogged and self._left_over_of(key):
                self._left_over.append(key)
        return store

    def _logged(self) -> Iterator[tuple[StoreKey, OverlayStore]]:
        return ((key, store) for key, store in sorted(self._stores.items()) if key[1] not in self._unlogged)

    def _all_left_over(self) -> StateChanges:
        return StateChanges({key: StoreChanges([(b"", None)]) for key in sorted(self._left_over)})
