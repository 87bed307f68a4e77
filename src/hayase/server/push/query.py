"""A push query that runs: a topology in this process whose rows go to one client."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace

from hayase.core.errors import HayaseError
from hayase.core.records import TopicPartition
from hayase.log.protocol import OutputBatch
from hayase.server.local_run.query import LocalQuery
from hayase.server.local_run.tails import LogTails
from hayase.server.push.buffer import RowBuffer
from hayase.server.push.running import PushQueries
from hayase.server.push.shown import STATE_BYTES_MAX, EnoughError, ShownRows, ShownTopology
from hayase.server.rows import LIMIT_REACHED, QUERY_COMPLETED, RowBatch, RowHeader
from hayase.sql.errors import SqlError, StatementError


class PushRows:
    """The rows of a query that goes on (`RowStream`), from a run of its own or a shared one (`RunListener`).

    Args:
        query_id: for `/close-query`.
        shown: what runs.
        tails: of the log.
        settings: of Hayase, for the run.
        loop: that the rows are read in.
        running: the push queries of the server, with the runs that they share.
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
        running: PushQueries,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self.header = RowHeader(query_id, shown.columns)
        self._shown = shown
        self._tails = tails
        self._settings = settings
        self._left = shown.limit
        self._buffer = RowBuffer(loop, waited_s=running.waited_s)
        self._runs = running.runs
        self._on_close: Callable[[], None] | None = on_close
        self._own: LocalQuery | None = None
        self._lock = threading.Lock()
        """Held while a run of its own starts or ends."""
        self._closed = False
        if self._left == 0:
            self._buffer.finish(RowBatch(final_message=LIMIT_REACHED))
        elif shown.shared is not None:
            self._runs.join(shown.shared, self, shown, settings, tails)
        else:
            self._own = self._run_alone({})

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
        if on_close is not None:
            try:
                await asyncio.to_thread(self._end_run)
            finally:
                on_close()

    def has_room(self, rows: ShownRows) -> bool:
        """See RunListener."""
        return self._buffer.has_room(rows.size_bytes)

    def add(self, rows: ShownRows) -> bool:
        """See RunListener."""
        batch = rows.batch
        if self._left is not None:
            if len(batch.rows) >= self._left:
                self._buffer.finish(_first(batch, self._left))
                return False
            self._left -= len(batch.rows)
        return self._buffer.put(batch, rows.size_bytes)

    def go_on_alone(self, start: Mapping[TopicPartition, int]) -> None:
        """See RunListener."""
        try:
            with self._lock:
                if not self._closed:
                    self._own = self._run_alone(start)
        except HayaseError as error:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """See RunListener."""
        if isinstance(error, EnoughError):
            return
        if isinstance(error, SqlError):
            shown = error
        elif isinstance(error, HayaseError):
            shown = StatementError(error.condition, error.message)
        else:
            shown = StatementError("QUERY_FAILED", f"The query has failed: {type(error).__name__}: {error}")
        self._buffer.finish(RowBatch(error=shown))

    def _run_alone(self, start: Mapping[TopicPartition, int]) -> LocalQuery:
        return LocalQuery(
            self._shown.topology,
            self._settings,
            self._tails,
            self._take,
            self._shown.reset,
            start,
            state_bytes_max=STATE_BYTES_MAX,
            on_end=self.fail,
            name=str(self.header.query_id),
        )

    def _take(self, written: list[OutputBatch]) -> None:
        """Rows of an epoch, in the thread of its own run, which waits while the client is slow."""
        if not self.add(self._shown.rows(written)):
            raise EnoughError

    def _end_run(self) -> None:
        self._runs.leave(self)
        with self._lock:
            self._closed = True
            own, self._own = self._own, None
        if own is not None:
            own.close()


def _first(batch: RowBatch, count: int) -> RowBatch:
    """The last rows of a query with a LIMIT: so many of a batch."""
    tombstones = frozenset(place for place in batch.tombstones if place < count)
    return replace(batch, rows=batch.rows[:count], tombstones=tombstones, final_message=LIMIT_REACHED)
