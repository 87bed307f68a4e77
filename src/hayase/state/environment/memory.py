"""The state of a bundle without a disk: what the test driver runs on."""

from __future__ import annotations

from collections import defaultdict

from hayase.core.errors import StateError
from hayase.state.delta.changes import StateChanges, StoreKey
from hayase.state.delta.delta import Delta
from hayase.state.environment.base import BaseStore, MemoryBase
from hayase.state.environment.environment import NOTHING_APPLIED, StatePosition
from hayase.state.environment.epoch import EpochState


class MemoryState:
    """Like `BundleState`, in memory of one process: nothing is durable, nothing is shared. Begins at epoch -1."""

    def __init__(self) -> None:
        self._stores: defaultdict[StoreKey, MemoryBase] = defaultdict(MemoryBase)
        self._position = StatePosition(NOTHING_APPLIED, "")

    def position(self) -> StatePosition:
        """The last epoch applied and its digest."""
        return self._position

    @property
    def epoch(self) -> int:
        """The last epoch applied; -1 if none was."""
        return self._position.epoch

    @property
    def digest(self) -> str:
        """The digest of the last delta applied; empty if none was."""
        return self._position.digest

    def begin(self) -> EpochState:
        """The state after the last epoch applied, to write over. One at a time: it is not a copy."""

        def base_of(key: StoreKey) -> BaseStore:
            return self._stores[key]

        return EpochState(*self._position, base_of, lambda: None)

    def apply(self, delta: Delta) -> bool:
        """Apply the delta that follows the last one applied; `False` if it has been applied already.

        Raises:
            StateError: `DELTA_DOES_NOT_FIT`.
        """
        if (delta.epoch, delta.digest) == self._position:
            return False
        if (delta.prev_epoch, delta.prev_digest) != self._position:
            raise StateError(
                "DELTA_DOES_NOT_FIT",
                f"The delta of epoch {delta.epoch} follows epoch {delta.prev_epoch}; the state is at {self.epoch}.",
                bundle=delta.bundle,
                epoch=delta.epoch,
            )
        for changes in delta.pieces():
            self.apply_changes(delta.epoch, changes, delta.digest)
        return True

    def apply_changes(self, epoch: int, changes: StateChanges, digest: str = "") -> None:
        """Make an epoch's changes, without the cost of a delta."""
        for key, store_changes in changes.stores.items():
            self._stores[key].apply(store_changes)
        self._position = StatePosition(epoch, digest)

    def close(self, clean: bool = True) -> None:
        """Nothing to let go of."""
