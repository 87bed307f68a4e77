"""Rows on their way to a slow client, and limits of queries."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.server.loops import in_loop

from hayase.server.limits import PullLimits
from hayase.server.push.buffer import RowBuffer
from hayase.server.rows import RowBatch
from hayase.sql.errors import StatementError


def _rows(*values: int) -> RowBatch:
    return RowBatch([[value] for value in values])


class TestRowBuffer:
    @in_loop
    async def test_batches_come_in_order(self) -> None:
        buffer = RowBuffer(asyncio.get_running_loop())
        await asyncio.to_thread(buffer.put, _rows(1), 10)
        await asyncio.to_thread(buffer.put, _rows(2), 10)
        buffer.finish(RowBatch(final_message="done"))
        assert await buffer.get() == _rows(1)
        assert await buffer.get() == _rows(2)
        assert (await buffer.get() or _rows()).final_message == "done"
        assert await buffer.get() is None

    @in_loop
    async def test_the_thread_waits_while_it_is_full(self) -> None:
        buffer = RowBuffer(asyncio.get_running_loop(), bytes_max=15)
        await asyncio.to_thread(buffer.put, _rows(1), 10)
        second = asyncio.create_task(asyncio.to_thread(buffer.put, _rows(2), 10))
        await asyncio.sleep(0.05)
        assert not second.done()
        await buffer.get()
        assert await second is True

    @in_loop
    async def test_a_batch_larger_than_the_buffer_goes_through_alone(self) -> None:
        buffer = RowBuffer(asyncio.get_running_loop(), bytes_max=5)
        assert await asyncio.to_thread(buffer.put, _rows(1), 100) is True

    @in_loop
    async def test_a_reader_that_takes_nothing_gets_an_error_at_the_end(self) -> None:
        buffer = RowBuffer(asyncio.get_running_loop(), bytes_max=15, stalled_after_s=0.05)
        await asyncio.to_thread(buffer.put, _rows(1), 10)
        assert await asyncio.to_thread(buffer.put, _rows(2), 10) is False
        assert await buffer.get() == _rows(1)
        last = await buffer.get()
        assert last is not None
        assert last.error is not None
        assert last.error.condition == "CLIENT_TOO_SLOW"

    @in_loop
    async def test_a_reader_that_has_gone_frees_the_thread(self) -> None:
        buffer = RowBuffer(asyncio.get_running_loop(), bytes_max=15)
        await asyncio.to_thread(buffer.put, _rows(1), 10)
        second = asyncio.create_task(asyncio.to_thread(buffer.put, _rows(2), 10))
        await asyncio.sleep(0.02)
        buffer.drop()
        assert await second is False
        assert await buffer.get() is None


class TestPullLimits:
    def test_more_at_once_than_allowed_are_refused(self) -> None:
        limits = PullLimits(at_once=1)
        release = limits.enter()
        with pytest.raises(StatementError, match="concurrency limit") as raised:
            limits.enter()
        assert raised.value.condition == "RATE_LIMIT"
        release()
        limits.enter()

    def test_a_release_counts_once(self) -> None:
        limits = PullLimits(at_once=1)
        release = limits.enter()
        release()
        release()
        limits.enter()
        with pytest.raises(StatementError):
            limits.enter()

    def test_more_in_a_second_than_allowed_are_refused(self) -> None:
        now = [0.0]
        limits = PullLimits(per_second=2, now_s=lambda: now[0])
        limits.enter()
        limits.enter()
        with pytest.raises(StatementError, match="rate limit"):
            limits.enter()
        now[0] = 1.5
        limits.enter()
