"""Contention for Spark's cores: another application of this process, jobs of the program, or new executors.

Spans end for them.
"""

from __future__ import annotations

import time
from collections.abc import Callable

CHECK_S = 0.5
QUIET_S = 5.0
"""How long there are no spans after contention was seen."""


class CoreContention:
    """Detects contention, and says when it begins and ends.

    Args:
        jobs: counts active Spark jobs, those of the application included.
        shared: tells whether another application uses the Spark session.
        executors: names the executors; only a new job sends tasks to new ones.
        on_change: called with `True` when contention begins, with `False` when it has ended.
        monotonic: the clock, in seconds.
    """

    def __init__(
        self,
        jobs: Callable[[], int],
        shared: Callable[[], bool],
        executors: Callable[[], frozenset[str]],
        on_change: Callable[[bool], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._jobs = jobs
        self._shared = shared
        self._executors = executors
        self._known = executors()
        self._on_change = on_change
        self._monotonic = monotonic
        self._next_check = monotonic()
        self._contended_at: float | None = None

    def check(self) -> None:
        """Check, at most twice a second; call it often."""
        now = self._monotonic()
        if now < self._next_check:
            return
        self._next_check = now + CHECK_S
        known, self._known = self._known, self._executors()
        if self._shared() or self._known - known or self._jobs() > 1:
            if self._contended_at is None:
                self._on_change(True)
            self._contended_at = now
        elif self._contended_at is not None and now - self._contended_at > QUIET_S:
            self._contended_at = None
            self._on_change(False)
