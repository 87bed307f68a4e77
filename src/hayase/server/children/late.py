"""What took too long is not done again for a while, so that a query over many rows ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable

PAUSE_S = 30.0


class LateWork:
    """Work by its name that took too long. Thread-safe.

    Args:
        now_s: a clock that only goes forward.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._until_s: dict[Hashable, float] = {}
        self._lock = threading.Lock()

    def note(self, work: Hashable) -> None:
        """It took too long."""
        with self._lock:
            now_s = self._now_s()
            self._until_s = {each: until_s for each, until_s in self._until_s.items() if until_s > now_s}
            self._until_s[work] = now_s + PAUSE_S

    def is_noted(self, work: Hashable) -> bool:
        """Whether it took too long a short while ago."""
        with self._lock:
            return self._until_s.get(work, 0.0) > self._now_s()
