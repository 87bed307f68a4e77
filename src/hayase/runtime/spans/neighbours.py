"""Why a span should leave Spark's cores: another application of this process, jobs of the program's own, or machines that joined."""

from __future__ import annotations

import time
from collections.abc import Callable

LOOK_S = 0.5
KEPT_S = 5.0
"""After others were seen, there are no spans for so long."""


class Neighbours:
    """Asks for short jobs while there are others, and when machines joined.

    Args:
        jobs: how many jobs of Spark's are active, the application's own included.
        shared: whether another application uses the session.
        executors: which there are; tasks reach new ones with the next job.
        ask: told when there are others, and when there are none any more.
        monotonic: the clock, in seconds.
    """

    def __init__(
        self,
        jobs: Callable[[], int],
        shared: Callable[[], bool],
        executors: Callable[[], frozenset[str]],
        ask: Callable[[bool], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._jobs = jobs
        self._shared = shared
        self._executors = executors
        self._known = executors()
        self._ask = ask
        self._monotonic = monotonic
        self._next_look = monotonic()
        self._seen: float | None = None

    def look(self) -> None:
        """Call it often: it looks twice a second."""
        now = self._monotonic()
        if now < self._next_look:
            return
        self._next_look = now + LOOK_S
        known, self._known = self._known, self._executors()
        if self._shared() or self._known - known or self._jobs() > 1:
            if self._seen is None:
                self._ask(True)
            self._seen = now
        elif self._seen is not None and now - self._seen > KEPT_S:
            self._seen = None
            self._ask(False)
