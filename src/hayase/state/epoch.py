"""The stores of a bundle during one epoch."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from hayase.state.base import BaseStore
from hayase.state.changes import StateChanges, StoreKey
from hayase.state.overlay import OverlayStore


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
