"""Limits of how many pull queries there may be."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from hayase.sql.errors import StatementError

_WINDOW_S = 1.0


class PullLimits:
    """Refuses pull queries beyond a number at once, or in a second. Thread-safe.

    Args:
        at_once: so many may run; `None`: any number.
        per_second: so many may start; `None`: any number.
        now_s: a clock that only goes forward.
        took_s: gets how long each took.
    """

    def __init__(
        self,
        at_once: int | None = None,
        per_second: int | None = None,
        now_s: Callable[[], float] = time.monotonic,
        took_s: Callable[[float], object] = lambda seconds: None,
    ) -> None:
        self._at_once = at_once
        self._per_second = per_second
        self._now_s = now_s
        self._took_s = took_s
        self._running = 0
        self._started: deque[float] = deque()
        self._lock = threading.Lock()

    def enter(self) -> Callable[[], None]:
        """Count a query that starts; what is returned has to be called when it has ended, and only counts once.

        Raises:
            StatementError: `RATE_LIMIT`: there are too many.
        """
        with self._lock:
            if self._at_once is not None and self._running >= self._at_once:
                raise _too_many(
                    f"Host is at concurrency limit for pull queries. Currently set to {self._at_once} maximum "
                    "concurrent requests (ksql.query.pull.max.concurrent.requests)."
                )
            now_s = self._now_s()
            if self._per_second is not None:
                while self._started and self._started[0] <= now_s - _WINDOW_S:
                    self._started.popleft()
                if len(self._started) >= self._per_second:
                    raise _too_many(
                        f"Host is at rate limit for pull queries. Currently set to {self._per_second} queries a second "
                        "(ksql.query.pull.max.qps)."
                    )
                self._started.append(now_s)
            self._running += 1
        return _Once(self._leave, now_s)

    def _leave(self, since_s: float) -> None:
        with self._lock:
            self._running -= 1
        self._took_s(self._now_s() - since_s)


class _Once:
    """Calls a function the first time it is called."""

    def __init__(self, function: Callable[[float], None], argument: float) -> None:
        self._function: Callable[[float], None] | None = function
        self._argument = argument

    def __call__(self) -> None:
        function, self._function = self._function, None
        if function is not None:
            function(self._argument)


def _too_many(message: str) -> StatementError:
    return StatementError("RATE_LIMIT", f"{message} Try again later.")
