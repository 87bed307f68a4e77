"""What a host of persistent queries does, and what it says about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from hayase.core.records import TopicPartition
from hayase.server.pull.stores import AsOf, PinnedStore
from hayase.sql.statements.results import PersistentQuery


class QueryState(Enum):
    """The state of a persistent query, as ksqlDB's answers have it."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    ERROR = "ERROR"
    UNRESPONSIVE = "UNRESPONSIVE"
    """It does not run yet: what runs it is still starting."""


@dataclass(frozen=True)
class QueryFailure:
    """Why a query failed.

    Attributes:
        time_ms: when.
        message: why.
        kind: USER, SYSTEM or UNKNOWN: whose fault it is.
    """

    time_ms: int
    message: str
    kind: str = "UNKNOWN"


@dataclass(frozen=True)
class QueryStatus:
    """How a query is.

    Attributes:
        state: what it does.
        errors: the last ten, oldest first.
        consumed: records read since it was started.
        produced: records written since it was started.
        positions: the offset behind the last record that it has processed, by partition.
        lag: records that it has not processed yet; `None`: not known.
    """

    state: QueryState
    errors: Sequence[QueryFailure] = ()
    consumed: int = 0
    produced: int = 0
    positions: Mapping[TopicPartition, int] | None = None
    lag: int | None = None


class QueryHost(Protocol):
    """Runs persistent queries until it is closed. Thread-safe."""

    def start(self) -> None:
        """Begin; queries may be given before. Returns at once, also where what runs them takes time to start."""
        ...

    def run(
        self,
        query: PersistentQuery,
        settings: Mapping[str, object],
        *,
        paused: bool = False,
        problem: str | None = None,
    ) -> None:
        """Run a query, or a new definition of one that runs, which goes on with its state.

        Returns before it runs; a failure is part of its status, and it is tried again.

        Args:
            query: what runs.
            settings: of Hayase, for this query.
            paused: it begins when it is resumed.
            problem: why it must not run: it is in ERROR until it is given again without one.
        """
        ...

    def stop(self, query_id: str) -> None:
        """End a query and remove its state; of a query that does not run, only that.

        Raises:
            HayaseError: it does not end.
        """
        ...

    def forget(self, query_id: str) -> None:
        """Remove what an earlier query of an id has left that none has now: commands that were restored give ids again.

        Raises:
            HayaseError: it cannot be removed; a query of that id would go on with the state of another one.
        """
        ...

    def pause(self, query_id: str) -> None:
        """Process nothing more until `resume`."""
        ...

    def resume(self, query_id: str) -> None:
        """Go on."""
        ...

    def status(self, query_id: str) -> QueryStatus:
        """How a query is."""
        ...

    def open_store(self, query_id: str, store: str, as_of: AsOf | None = None) -> PinnedStore:
        """See `QueryStores.open_store`."""
        ...

    def open_for_key(self, query_id: str, store: str) -> PinnedStore:
        """See `QueryStores.open_for_key`."""
        ...

    def problem(self) -> str | None:
        """Why no query can run; `None`: they can."""
        ...

    def close(self) -> None:
        """End all queries; they go on at the next start. Calling it again does nothing."""
        ...
