"""The wall clock of epochs: it never goes back, and never stands still for long."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from hayase.core.time import Clock, to_iso

_LOG = logging.getLogger("hayase.runtime")

WAITS_MAX_MS = 1_000
"""So far ahead of the machine's clock it stands still until that has caught up."""
BEHIND_MAX_MS = 60_000
"""So far ahead it goes at half speed meanwhile."""


class WallClock:
    """A clock that goes on from the largest time that was used, whatever the machine's clock does (`Clock`).

    Where the machine's clock was set back by a little it stands still, or goes at half speed, until it agrees with it
    again. Where that would take long, because the machine's clock was once far ahead, by years perhaps, it goes on at
    its own speed instead: what is due at intervals stays due at those, and times are ahead of the machine's clock from
    then on, also after a restart.

    Args:
        clock: the machine's.
        monotonic_s: the clock for intervals, in seconds.
    """

    def __init__(self, clock: Clock, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._monotonic_s = monotonic_s
        self._last_ms: float | None = None
        self._since_s = monotonic_s()
        self._warned = False

    def now_ms(self) -> int:
        """Milliseconds since the epoch, not less than any that it gave or took over before."""
        now, at_s = self._clock.now_ms(), self._monotonic_s()
        if self._last_ms is None:
            self._last_ms = float(now)
        else:
            ahead_ms = self._last_ms - now
            speed = 1.0 if ahead_ms > BEHIND_MAX_MS else 0.5 if ahead_ms > WAITS_MAX_MS else 0.0
            self._last_ms = max(float(now), self._last_ms + speed * 1000 * (at_s - self._since_s))
            self._warn(now, ahead_ms)
        self._since_s = at_s
        return int(self._last_ms)

    def at_least(self, used_ms: int) -> None:
        """A time that an earlier epoch was given, by this process or by one before it: the clock goes on from there."""
        if self.now_ms() < used_ms:
            self._last_ms, self._since_s = float(used_ms), self._monotonic_s()

    def _warn(self, now: int, ahead_ms: float) -> None:
        far, warned = ahead_ms > BEHIND_MAX_MS, self._warned
        self._warned = far
        if warned or not far:
            return
        _LOG.warning(
            "this machine's clock says %s, %.0f s before the last epoch's: it was set back, or was ahead when that "
            "epoch was begun. The wall clock that processors see goes on from the epoch's, at its normal speed",
            to_iso(now),
            ahead_ms / 1000,
        )
