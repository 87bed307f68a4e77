"""Pause without spans where not all tasks join one: Spark has fewer free cores than slots, or they cannot reach us."""

from __future__ import annotations

import time
from collections.abc import Callable

JOIN_TIMEOUT_S = 15.0
"""How long the tasks of all slots may take to join."""
FIRST_JOIN_TIMEOUT_S = 60.0
"""The same for the first job: each task is a process that has to begin, beside all else that starts then."""
SPAN_BACKOFF_S = 60.0
"""The first pause. Waiting for tasks that do not come costs time, so the pause doubles each time in a row."""
SPAN_BACKOFF_MAX_S = 900.0


class SpanBackoff:
    """Says when the next span may be tried, and how long its tasks are waited for.

    Args:
        monotonic: the clock, in seconds.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._not_before = monotonic()
        self._pause_s = SPAN_BACKOFF_S
        self._tasks_until = 0.0
        self._first = True

    @property
    def is_over(self) -> bool:
        """Whether a span may be tried."""
        return self._monotonic() >= self._not_before

    def reset(self) -> None:
        """Forget what was seen: a span may be tried at once."""
        self._not_before, self._pause_s = self._monotonic(), SPAN_BACKOFF_S

    def await_tasks(self) -> None:
        """A span begins: its tasks may join from now on."""
        timeout_s = FIRST_JOIN_TIMEOUT_S if self._first else JOIN_TIMEOUT_S
        self._tasks_until, self._first = self._monotonic() + timeout_s, False

    @property
    def is_too_late(self) -> bool:
        """Whether its tasks have had the time to join."""
        return self._monotonic() > self._tasks_until

    def begin(self) -> None:
        """Not all have joined: no spans for a while, twice as long as the time before."""
        self._not_before = self._monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, SPAN_BACKOFF_MAX_S)

    def succeeded(self) -> None:
        """All have joined."""
        self._pause_s = SPAN_BACKOFF_S

    def pause(self, seconds: float) -> None:
        """No spans for so long, for another reason."""
        self._not_before = self._monotonic() + seconds
