"""Answers that are computed as they are read."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from hayase.core.errors import HayaseError
from hayase.server.rows import RowBatch, RowHeader
from hayase.sql.errors import SqlError, StatementError

_THREADS = 16
"""Of their own: rows that take long keep other requests from nothing."""
_COMPUTING = ThreadPoolExecutor(_THREADS, "hayase-rows")
T = TypeVar("T")


async def in_rows_thread(function: Callable[[], T], threads: ThreadPoolExecutor = _COMPUTING) -> T:
    """What a function returns that may take as long as a query."""
    return await asyncio.get_running_loop().run_in_executor(threads, function)


class ComputedRows:
    """The rows of an iterator, each batch of which is computed in a thread when the one before is taken (`RowStream`).

    Args:
        header: what comes before the rows.
        batches: computed one by one.
        on_close: called once, behind the last batch, or when the reader has enough and nothing is computed any more.
    """

    def __init__(
        self, header: RowHeader, batches: Iterator[RowBatch], on_close: Callable[[], None] = lambda: None
    ) -> None:
        self.header = header
        self._batches = batches
        self._on_close: Callable[[], None] | None = on_close
        self._computing = threading.Lock()
        self._is_closed = False

    async def __aiter__(self) -> AsyncIterator[RowBatch]:
        """See RowStream."""
        while (batch := await in_rows_thread(self._next)) is not None:
            yield batch

    async def close(self) -> None:
        """See RowStream. A batch that is being computed is not waited for."""
        if not self._is_closed:
            self._is_closed = True
            await in_rows_thread(self._end_if_idle)

    def _next(self) -> RowBatch | None:
        try:
            with self._computing:
                return None if self._on_close is None else next(self._batches, None)
        except HayaseError as error:
            return RowBatch(error=as_sql_error(error))
        finally:
            if self._is_closed:
                self._end_if_idle()

    def _end_if_idle(self) -> None:
        """Let go of everything, unless a batch is being computed: then its thread does so behind it."""
        if not self._computing.acquire(blocking=False):
            return
        try:
            on_close, self._on_close = self._on_close, None
            if on_close is not None:
                try:
                    close = getattr(self._batches, "close", None)
                    if close is not None:
                        close()
                finally:
                    on_close()
        finally:
            self._computing.release()


class ReadyRows:
    """Rows that are all there (`RowStream`)."""

    def __init__(self, header: RowHeader, batches: Iterable[RowBatch]) -> None:
        self.header = header
        self._batches = list(batches)

    @property
    def batches(self) -> list[RowBatch]:
        """All rows."""
        return self._batches

    async def __aiter__(self) -> AsyncIterator[RowBatch]:
        """See RowStream."""
        for batch in self._batches:
            yield batch

    async def close(self) -> None:
        """See RowStream."""
        self._batches = []


def as_sql_error(error: HayaseError) -> SqlError:
    """An error as answers have it."""
    return error if isinstance(error, SqlError) else StatementError(error.condition, error.message)
