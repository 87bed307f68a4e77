"""How often the log is looked at for new records."""

from __future__ import annotations

import time
from collections.abc import Callable

BUSY_POLL_S = 0.01
IDLE_POLL_S = 0.05
_BUSY_S = 1.0
"""After something has come, the log is looked at often for so long."""


class PollPace:
    """The pause from one look to the next: short while anything comes, then longer from look to look.

    Args:
        idle_s: the longest pause.
        monotonic: the clock, in seconds.

    Attributes:
        pause_s: the pause before the next look.
    """

    def __init__(self, idle_s: float = IDLE_POLL_S, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._idle_s = max(idle_s, BUSY_POLL_S)
        self._monotonic = monotonic
        self._came_at = monotonic() - _BUSY_S
        self.pause_s = self._idle_s

    @property
    def is_busy(self) -> bool:
        """Whether anything has come within the last second."""
        return self._monotonic() - self._came_at < _BUSY_S

    def looked(self, *, came: bool) -> None:
        """Note a look, and whether anything had come since the one before."""
        if came:
            self._came_at = self._monotonic()
        self.pause_s = BUSY_POLL_S if self.is_busy else min(self._idle_s, self.pause_s + BUSY_POLL_S)


def idle_poll_s(commit_interval_s: float) -> float:
    """The longest pause of an application: half of what its records may wait for at most, and never above 50 ms."""
    return min(IDLE_POLL_S, commit_interval_s / 2)
