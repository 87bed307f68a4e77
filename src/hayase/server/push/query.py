"""A push query that runs: a topology in this process whose rows go to one client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hayase.core.errors import HayaseError
from hayase.log.protocol import OutputBatch
from hayase.server.local_run.query import LocalQuery
from hayase.server.local_run.tails import LogTails
from hayase.server.push.buffer import RowBuffer
from hayase.server.rows import LIMIT_REACHED, QUERY_COMPLETED, ResultColumn, RowBatch, RowHeader
from hayase.server.services import QueryServices
from hayase.sql.analysis.push import PushPlan
from hayase.sql.errors import SqlError, StatementError
from hayase.sql.plan.push import TOMBSTONE, build_push_topology, rows_serde_of
from hayase.sql.settings import streams_config
from hayase.topology.topology import Topology

STATE_BYTES_MAX = 64 << 20
_ROW_BYTES = 64
_NOT_OF_RUN = ("auto.offset.reset", "commit.interval.ms", "processing.guarantee", "statestore.cache.max.bytes")
"""Settings of queries that persist."""


@dataclass(frozen=True)
class ShownTopology:
    """A topology whose rows are shown to a client.

    Attributes:
        topology: writes rows to ROWS_TOPIC and nothing else.
        columns: of the rows.
        from_bytes: reads a row: its columns, and TOMBSTONE.
        limit: after so many rows it ends; `None`: never.
        reset: where it begins.
    """

    topology: Topology
    columns: tuple[ResultColumn, ...]
    from_bytes: Callable[[bytes], dict[str, Any]]
    limit: int | None
    reset: Literal["earliest", "latest"]

    @classmethod
    def of(cls, plan: PushPlan, services: QueryServices, settings: Mapping[str, object]) -> ShownTopology:
        """That of a push query; raises StatementError for an expression that cannot be computed."""
        return cls(
            build_push_topology(plan, services.engine.functions, settings, services.registry),
            tuple(ResultColumn(column.name, column.type) for column in plan.columns),
            rows_serde_of(plan).from_bytes,
            plan.limit,
            begins_at(settings),
        )


class PushRows:
    """The rows of a query that goes on (`RowStream`).

    Args:
        query_id: for `/close-query`.
        shown: what runs.
        tails: of the log.
        settings: of Hayase, for the run.
        loop: that the rows are read in.
        on_close: called once, when it has ended.

    Raises:
        HayaseError: the query cannot run.
    """

    def __init__(
        self,
        query_id: str,
        shown: ShownTopology,
        tails: LogTails,
        settings: Mapping[str, object],
        loop: asyncio.AbstractEventLoop,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self.header = RowHeader(query_id, shown.columns)
        self._read = shown.from_bytes
        self._left = shown.limit
        self._buffer = RowBuffer(loop)
        self._on_close: Callable[[], None] | None = on_close
        self._query: LocalQuery | None = None
        if self._left == 0:
            self._buffer.finish(RowBatch(final_message=LIMIT_REACHED))
            return
        self._query = LocalQuery(
            shown.topology,
            settings,
            tails,
            self._take,
            shown.reset,
            state_bytes_max=STATE_BYTES_MAX,
            on_end=self._failed,
            name=query_id,
        )

    async def __aiter__(self) -> AsyncIterator[RowBatch]:
        """See RowStream."""
        while (batch := await self._buffer.get()) is not None:
            yield batch

    def finish(self) -> None:
        """End the query in good order: the rows that are there still come, then a last message."""
        self._buffer.finish(RowBatch(final_message=QUERY_COMPLETED))

    async def close(self) -> None:
        """See RowStream."""
        self._buffer.drop()
        on_close, self._on_close = self._on_close, None
        query, self._query = self._query, None
        if query is not None:
            await asyncio.to_thread(query.close)
        if on_close is not None:
            on_close()

    def _take(self, written: list[OutputBatch]) -> None:
        """Rows of an epoch, in the query's thread."""
        values = [value for batch in written for value in batch.values if value is not None]
        is_last = self._left is not None and len(values) >= self._left
        if is_last:
            values = values[: self._left]
        elif self._left is not None:
            self._left -= len(values)
        rows: list[list[Any]] = []
        tombstones = []
        for place, value in enumerate(values):
            row = self._read(value)
            if row.pop(TOMBSTONE):
                tombstones.append(place)
            rows.append(list(row.values()))
        batch = RowBatch(rows, frozenset(tombstones), LIMIT_REACHED if is_last else None)
        if is_last:
            self._buffer.finish(batch)
            raise _EnoughError
        if not self._buffer.put(batch, sum(map(len, values)) + _ROW_BYTES * len(values)):
            raise _EnoughError

    def _failed(self, error: BaseException) -> None:
        if isinstance(error, _EnoughError):
            return
        if isinstance(error, SqlError):
            shown = error
        elif isinstance(error, HayaseError):
            shown = StatementError(error.condition, error.message)
        else:
            shown = StatementError("QUERY_FAILED", f"The query has failed: {type(error).__name__}: {error}")
        self._buffer.finish(RowBatch(error=shown))


class _EnoughError(HayaseError):
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
