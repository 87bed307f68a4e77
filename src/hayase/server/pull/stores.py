"""Stores of running queries, as pull queries read them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from hayase.state.stores.protocol import ByteStore
from hayase.state.stores.spec import StoreSpec


@dataclass(frozen=True, slots=True)
class AsOf:
    """The state of before that is asked for: after an epoch, or after the last one begun at or before a time."""

    epoch: int | None = None
    time_ms: int | None = None


class PinnedStore(Protocol):
    """A store that does not change while it is read.

    Attributes:
        spec: what it is.
        is_live: it is the running query's own state, which waits while `reading` is held: what is wanted has to be
            copied, soon.
    """

    spec: StoreSpec
    is_live: bool

    @property
    def epoch(self) -> int | None:
        """The last epoch that what was read takes into account; `None` where epochs are not counted."""
        ...

    def reading(self) -> AbstractContextManager[Sequence[ByteStore]]:
        """The partitions, in order; they may be read until the end of the block, and not be written."""
        ...

    def close(self) -> None:
        """Let go of it; calling it again does nothing."""
        ...


class QueryStores(Protocol):
    """Opens the stores of persistent queries, wherever these run."""

    def open_store(self, query_id: str, store: str, as_of: AsOf | None = None) -> PinnedStore:
        """A store of a query as it is now, or was, all partitions as of one epoch; that may have to be waited for.

        Raises:
            StatementError: `NOT_READY`: the query has not started yet, or has failed; `AS_OF`: states of before are
                not kept.
            StateError: it cannot be read.
        """
        ...

    def open_for_key(self, query_id: str, store: str) -> PinnedStore:
        """A store as it is now, to read one key: partitions are taken one by one, at once, whatever epochs they are at.

        Raises:
            StatementError, StateError: as `open_store`.
        """
        ...
