"""Requests and results of interactive queries v2 (KIP-796)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Generic

from hayase.core.errors import StateError
from hayase.core.type_variables import R
from hayase.query.position import Position, PositionBound
from hayase.query.queries import Query


class FailureReason(StrEnum):
    """The reason for which a partition did not answer a query.

    UNKNOWN_QUERY_TYPE: stores of this kind do not answer such a query.
    NOT_UP_TO_BOUND: the state is not as far as the bound; ask again later.
    NOT_PRESENT: the state of the partition is not on this machine.
    DOES_NOT_EXIST: the store has no such partition.
    STORE_EXCEPTION: reading failed; the message says how.

    Kafka Streams' NOT_ACTIVE has no meaning here: a process reads the active state, or it is NOT_PRESENT.
    """

    UNKNOWN_QUERY_TYPE = "UNKNOWN_QUERY_TYPE"
    NOT_UP_TO_BOUND = "NOT_UP_TO_BOUND"
    NOT_PRESENT = "NOT_PRESENT"
    DOES_NOT_EXIST = "DOES_NOT_EXIST"
    STORE_EXCEPTION = "STORE_EXCEPTION"


@dataclass(frozen=True, slots=True)
class QueryResult(Generic[R]):
    """The answer of one partition, or why there is none.

    Attributes:
        answer: of the query.
        failure_reason: `None` if it succeeded.
        failure_message: in words.
        position: of the state that answered, or that was not far enough.
        execution_info: what was done, a line each, if that was asked for.
    """

    answer: R | None = None
    failure_reason: FailureReason | None = None
    failure_message: str = ""
    position: Position = field(default_factory=Position.empty)
    execution_info: tuple[str, ...] = ()

    @property
    def is_success(self) -> bool:
        """Whether there is an answer (which may be `None`)."""
        return self.failure_reason is None

    @property
    def result(self) -> R | None:
        """The answer.

        Raises:
            StateError: `QUERY_FAILED`.
        """
        if self.failure_reason is not None:
            raise StateError("QUERY_FAILED", f"{self.failure_reason}: {self.failure_message}")
        return self.answer


@dataclass(frozen=True, slots=True)
class StateQueryResult(Generic[R]):
    """The answers of all partitions that were asked.

    Attributes:
        partition_results: by partition.
    """

    partition_results: Mapping[int, QueryResult[R]]

    @property
    def only_partition_result(self) -> QueryResult[R] | None:
        """The one partition's result that is a failure or has an answer other than `None`; `None` if there is no such.

        For queries of one key, which only its own partition can answer.

        Raises:
            StateError: `SEVERAL_RESULTS`: there are several of them.
        """
        results = [each for each in self.partition_results.values() if not each.is_success or each.answer is not None]
        if len(results) > 1:
            raise StateError(
                "SEVERAL_RESULTS", f"{len(results)} partitions have a result; look at each in partition_results"
            )
        return results[0] if results else None

    @property
    def position(self) -> Position:
        """The positions of all partitions, merged: a bound for the next query."""
        merged = Position.empty()
        for each in self.partition_results.values():
            merged = merged.merge(each.position)
        return merged


@dataclass(frozen=True, slots=True)
class StateQueryRequest(Generic[R]):
    """A query of some partitions of a store, with the position that they must have reached.

    Attributes:
        store: its name.
        query: what to ask.
        partitions: which; `None`: all.
        position_bound: how far they have to be.
        active_required: whether followers must not answer.
        execution_info_enabled: whether results say how they came to be.

    Example:
        >>> from hayase.query.queries import KeyQuery
        >>> request = StateQueryRequest.in_store("totals").with_query(KeyQuery.with_key("ada")).with_partitions({0})
        >>> request.store, request.partitions
        ('totals', frozenset({0}))
    """

    store: str
    query: Query[R]
    partitions: frozenset[int] | None = None
    position_bound: PositionBound = field(default_factory=PositionBound.unbounded)
    active_required: bool = False
    execution_info_enabled: bool = False

    @staticmethod
    def in_store(name: str) -> InStore:
        """The start of a request to a store; `with_query` completes it."""
        return InStore(name)

    def with_all_partitions(self) -> StateQueryRequest[R]:
        """The same request of all partitions, which is the default."""
        return replace(self, partitions=None)

    def with_partitions(self, partitions: Iterable[int]) -> StateQueryRequest[R]:
        """The same request of these partitions only, instead of all. Kafka Streams' `withPartitions`.

        `StateQueryResult.partition_results` then has one entry for each of them: a number that the store does not have
        gets `DOES_NOT_EXIST`, one whose state is not on this machine `NOT_PRESENT`, and neither is raised. Repeated
        numbers count once; without any nothing is asked.

        Args:
            partitions: numbers from 0 on, of the store.

        Example:
            >>> from hayase.query.queries import RangeQuery
            >>> request = StateQueryRequest.in_store("totals").with_query(RangeQuery.with_no_bounds())
            >>> sorted(request.with_partitions([2, 0, 2]).partitions)
            [0, 2]
        """
        return replace(self, partitions=frozenset(partitions))

    def with_position_bound(self, bound: PositionBound) -> StateQueryRequest[R]:
        """Answer only from states that are so far; see `StateQueryResult.position`."""
        return replace(self, position_bound=bound)

    def require_active(self) -> StateQueryRequest[R]:
        """Do not let a follower answer. Each partition is then read by itself, so they may be an epoch apart."""
        return replace(self, active_required=True)

    def enable_execution_info(self) -> StateQueryRequest[R]:
        """The same request, each result of which says what was done."""
        return replace(self, execution_info_enabled=True)


@dataclass(frozen=True, slots=True)
class InStore:
    """A request that has a store and no query yet.

    Attributes:
        name: of the store.
    """

    name: str

    def with_query(self, query: Query[R]) -> StateQueryRequest[R]:
        """The request with its query.

        Raises:
            StateError: `NOT_A_QUERY`.
        """
        given: object = query
        if not isinstance(given, Query):
            raise StateError(
                "NOT_A_QUERY",
                f"{given!r} is no query; give a KeyQuery, RangeQuery, WindowKeyQuery, … or your own class derived from "
                "Query",
                store=self.name,
            )
        return StateQueryRequest(self.name, query)
