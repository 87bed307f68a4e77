"""What is on its way from the thread of a query to a client that may be slow."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable

from hayase.server.rows import RowBatch
from hayase.sql.errors import StatementError

BUFFER_BYTES_MAX = 1 << 20
STALLED_AFTER_S = 30.0


class RowBuffer:
    """Batches from one thread to one coroutine; the thread waits while there are too many.

    Args:
        loop: of the coroutine.
        bytes_max: of batches that wait, beyond one.
        stalled_after_s: how long the thread waits before it ends the query.
        waited_s: gets how long each batch of rows was here.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        bytes_max: int = BUFFER_BYTES_MAX,
        stalled_after_s: float = STALLED_AFTER_S,
        waited_s: Callable[[float], object] = lambda seconds: None,
    ) -> None:
        self._bytes_max = bytes_max
        self._stalled_after_s = stalled_after_s
        self._waited_s = waited_s
        self._loop = loop
        self._arrived = asyncio.Event()
        self._room = threading.Condition()
        self._batches: deque[tuple[RowBatch, int, float]] = deque()
        self._bytes = 0
        self._ended = False

    def put(self, batch: RowBatch, size_bytes: int) -> bool:
        """Add a batch, in the query's thread.

        Returns:
            `False` if nothing more is wanted: the reader has gone, or has taken nothing for too long.
        """
        with self._room:
            if self._bytes and self._bytes + size_bytes > self._bytes_max:
                has_room = self._room.wait_for(self._has_room(size_bytes), self._stalled_after_s)
                if not has_room:
                    self._end(RowBatch(error=_stalled(self._bytes, self._stalled_after_s)))
            if self._ended:
                return False
            self._batches.append((batch, size_bytes, time.monotonic()))
            self._bytes += size_bytes
        self._wake()
        return True

    def has_room(self, size_bytes: int) -> bool:
        """Whether `put` would not wait, in the thread that calls it."""
        with self._room:
            return self._has_room(size_bytes)()

    def finish(self, batch: RowBatch) -> None:
        """Add the last batch, from any thread; what follows is left out."""
        with self._room:
            if self._ended:
                return
            self._end(batch)
        self._wake()

    def drop(self) -> None:
        """The reader has gone: nothing is kept any more."""
        with self._room:
            self._ended = True
            self._batches.clear()
            self._bytes = 0
            self._room.notify_all()
        self._wake()

    async def get(self) -> RowBatch | None:
        """The next batch; `None` behind the last one."""
        while True:
            with self._room:
                if self._batches:
                    batch, size_bytes, since_s = self._batches.popleft()
                    self._bytes -= size_bytes
                    self._room.notify_all()
                    if batch.rows:
                        self._waited_s(time.monotonic() - since_s)
                    return batch
                if self._ended:
                    return None
                self._arrived.clear()
            await self._arrived.wait()

    def _has_room(self, size_bytes: int) -> Callable[[], bool]:
        return lambda: self._ended or not self._bytes or self._bytes + size_bytes <= self._bytes_max

    def _end(self, last: RowBatch) -> None:
        self._batches.append((last, 0, time.monotonic()))
        self._ended = True
        self._room.notify_all()

    def _wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and the reader gone with it
            self._loop.call_soon_threadsafe(self._arrived.set)


def _stalled(size_bytes: int, after_s: float) -> StatementError:
    return StatementError(
        "CLIENT_TOO_SLOW",
        f"The query has ended: its client has taken no rows for {after_s:g} s, and {size_bytes >> 10} KB of them are "
        "waiting. Read faster, or select less",
    )
