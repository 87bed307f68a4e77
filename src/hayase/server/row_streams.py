"""Answers that are computed as they are read."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator

from hayase.core.errors import HayaseError
from hayase.server.rows import RowBatch, RowHeader
from hayase.sql.errors import SqlError, StatementError


class ComputedRows:
    """The rows of an iterator, each batch of which is computed in a thread when the one before is taken (`RowStream`).

    Args:
        header: what comes before the rows.
        batches: computed one by one.
        on_close: called once, behind the last batch, or when the reader has enough.
    """

    def __init__(
        self, header: RowHeader, batches: Iterator[RowBatch], on_close: Callable[[], None] = lambda: None
    ) -> None:
        self.header = header
        self._batches = batches
        self._on_close: Callable[[], None] | None = on_close
        self._computing = threading.Lock()

    async def __aiter__(self) -> AsyncIterator[RowBatch]:
        """See RowStream."""
        while (batch := await asyncio.to_thread(self._next)) is not None:
            yield batch

    async def close(self) -> None:
        """See RowStream."""
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            try:
                await asyncio.to_thread(self._close_batches)
            finally:
                on_close()

    def _next(self) -> RowBatch | None:
        try:
            with self._computing:
                return next(self._batches, None)
        except HayaseError as error:
            return RowBatch(error=as_sql_error(error))

    def _close_batches(self) -> None:
        close = getattr(self._batches, "close", None)
        if close is not None:
            with self._computing:  # a reader that goes leaves the thread behind that computes its next batch
                close()


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
