"""What a push query shows: a topology in this process, and the rows that its outputs are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hayase.app.sql_settings import FAILURE_TOPICS
from hayase.core.errors import HayaseError
from hayase.log.protocol import OutputBatch
from hayase.server.push.shareable import SharedQuery
from hayase.server.rows import ResultColumn, RowBatch
from hayase.server.services import QueryServices
from hayase.sql.analysis.push import PushPlan
from hayase.sql.plan.push import TOMBSTONE, build_push_topology, rows_serde_of
from hayase.sql.settings import streams_config
from hayase.topology.topology import Topology

STATE_BYTES_MAX = 64 << 20
_ROW_BYTES = 64
_NOT_OF_RUN = frozenset(
    {
        *("auto.offset.reset", "commit.interval.ms", "processing.guarantee", "statestore.cache.max.bytes"),
        *FAILURE_TOPICS,
    }
)
"""Settings of queries that persist: what a run writes are rows, for its client."""


@dataclass(frozen=True)
class ShownTopology:
    """A topology whose rows are shown to a client.

    Attributes:
        topology: writes rows to ROWS_TOPIC and nothing else.
        columns: of the rows.
        from_bytes: reads a row: its columns, and TOMBSTONE.
        limit: after so many rows it ends; `None`: never.
        reset: where it begins.
        shared: what it has in common with the queries whose run it can share; `None`: it has a run of its own.
    """

    topology: Topology
    columns: tuple[ResultColumn, ...]
    from_bytes: Callable[[bytes], dict[str, Any]]
    limit: int | None
    reset: Literal["earliest", "latest"]
    shared: SharedQuery | None = None

    @classmethod
    def of(cls, plan: PushPlan, services: QueryServices, settings: Mapping[str, object]) -> ShownTopology:
        """That of a push query; raises StatementError for an expression that cannot be computed."""
        functions, reset = services.engine.functions, begins_at(settings)
        return cls(
            build_push_topology(plan, functions, settings, services.registry),
            tuple(ResultColumn(column.name, column.type) for column in plan.columns),
            rows_serde_of(plan).from_bytes,
            plan.limit,
            reset,
            SharedQuery.of(plan, functions, settings) if reset == "latest" else None,
        )

    def rows(self, written: Iterable[OutputBatch]) -> ShownRows:
        """The rows of an epoch."""
        values = [value for batch in written for value in batch.values if value is not None]
        rows: list[list[Any]] = []
        tombstones = []
        for place, value in enumerate(values):
            row = self.from_bytes(value)
            if row.pop(TOMBSTONE):
                tombstones.append(place)
            rows.append(list(row.values()))
        return ShownRows(RowBatch(rows, frozenset(tombstones)), sum(map(len, values)) + _ROW_BYTES * len(values))


@dataclass(frozen=True, slots=True)
class ShownRows:
    """The rows of an epoch, and how much memory they take."""

    batch: RowBatch
    size_bytes: int


class EnoughError(HayaseError):
    """Ends the thread of a query that nothing more is wanted of."""

    def __init__(self) -> None:
        super().__init__("ENOUGH_ROWS", "nothing more is wanted of the query")


def begins_at(settings: Mapping[str, object]) -> Literal["earliest", "latest"]:
    """Where a query begins that has no position."""
    given = settings.get("ksql.streams.auto.offset.reset", settings.get("auto.offset.reset"))
    return "earliest" if str(given).lower() == "earliest" else "latest"


def run_settings(settings: Mapping[str, object]) -> dict[str, object]:
    """Settings of a run that shows every update."""
    config = {name: value for name, value in streams_config(settings).items() if name not in _NOT_OF_RUN}
    return {**config, "statestore.cache.max.bytes": 0}
