"""Answers that are computed as they are read."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

from hayase.server.row_streams import ComputedRows
from hayase.server.rows import RowBatch, RowHeader


def test_a_reader_that_goes_while_a_batch_is_computed_ends_the_computation_behind_it() -> None:
    began, goes_on = threading.Event(), threading.Event()
    ends: list[str] = []

    def batches() -> Iterator[RowBatch]:
        try:
            began.set()
            goes_on.wait(20)
            yield RowBatch()
        finally:
            ends.append("batches")

    async def read() -> None:
        stream = ComputedRows(RowHeader(None, ()), batches(), lambda: ends.append("closed"))
        reading = asyncio.ensure_future(anext(aiter(stream)))
        await asyncio.to_thread(began.wait, 20)
        reading.cancel()
        closing = asyncio.ensure_future(stream.close())
        await asyncio.sleep(0.05)
        goes_on.set()
        await closing

    asyncio.run(read())
    assert ends == ["batches", "closed"]
