"""Failures of a query: the last ones, and when it is tried again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from hayase.core.errors import HayaseError, ProcessingError, ProductionError, SerializationError
from hayase.server.hosts.protocol import QueryFailure

_KEPT = 10
_USER = (ProcessingError, ProductionError, SerializationError)
_SYSTEM = (HayaseError, OSError)


class Failures:
    """The last failures of one query, and its back-off.

    Args:
        now_ms: the wall clock.
        initial_ms: until the first new attempt; doubled at each failure.
        max_ms: how long it may become.
    """

    def __init__(self, now_ms: Callable[[], int], initial_ms: int, max_ms: int) -> None:
        self.last: deque[QueryFailure] = deque(maxlen=_KEPT)
        self.retry_at_ms: int | None = None
        self._now_ms = now_ms
        self._initial_ms = initial_ms
        self._max_ms = max_ms
        self._wait_ms = initial_ms
        self._tried_at_ms = 0

    def add(self, error: BaseException) -> None:
        """Note a failure: `retry_at_ms` says when to try again."""
        now_ms = self._now_ms()
        if now_ms - self._tried_at_ms > self._max_ms:  # it ran for long: that is another failure, not the same again
            self._wait_ms = self._initial_ms
        self.last.append(QueryFailure(now_ms, str(error), _kind(error)))
        self.retry_at_ms = now_ms + self._wait_ms
        self._wait_ms = min(2 * self._wait_ms, self._max_ms)

    def hold(self, problem: str) -> None:
        """Note why the query is not tried at all."""
        self.last.append(QueryFailure(self._now_ms(), problem, "USER"))

    def is_due(self) -> bool:
        """Whether it is time to try again."""
        return self.retry_at_ms is not None and self._now_ms() >= self.retry_at_ms

    def tried(self) -> None:
        """It is being tried again."""
        self.retry_at_ms = None
        self._tried_at_ms = self._now_ms()


def _kind(error: BaseException) -> str:
    if isinstance(error, _USER):
        return "USER"
    return "SYSTEM" if isinstance(error, _SYSTEM) else "UNKNOWN"
