"""The wall clock of epochs, which never goes back, and epochs without input that begin because of it.

What is due when is known where the tasks run. It comes back with the summaries of an epoch, and the driver passes it on
to the planner through the control folder.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from hayase.core.time import Clock, to_iso
from hayase.runtime.wire.planner_control import PlannerControl
from hayase.task.summary import BundleSummary
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import UserCode
from hayase.topology.topology import Topology

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


class PunctuationTrigger:
    """Whether an epoch is to be begun although there is no input.

    Args:
        topology: what runs.
        control: where the driver says what is due.
        clock: the wall clock.
    """

    def __init__(self, topology: Topology, control: PlannerControl, clock: Clock) -> None:
        self._control = control
        self._clock = clock
        self._due_as_of: tuple[int, int] | None = None
        self._timed = any(isinstance(n, ProcessorNode) and isinstance(n.operator, UserCode) for n in topology.nodes)

    def note_completed(self, epoch: int, summaries: Sequence[bytes]) -> None:
        """Take when punctuations are due from the summaries of a completed epoch, if the planner itself has them.

        The driver then need not send it.
        """
        if self._timed:
            due = [BundleSummary.from_bytes(data).due_ms for data in summaries]
            known = [each for each in due if each is not None]
            self._due_as_of = (epoch, min(known)) if known else None

    def due_ms(self, after: int) -> int | None:
        """When something is due as of that epoch, as far as it is known here."""
        return self._due_as_of[1] if self._due_as_of is not None and self._due_as_of[0] == after else None

    def wanted(self, after: int, *, first: bool) -> bool:
        """Of a run's first epoch: yes, it schedules the punctuations.

        Later, if something is due as of the epoch before.
        """
        if not self._timed or first:
            return self._timed
        said = (self._due_as_of, self._control.due())
        now = self._clock.now_ms()
        return any(each is not None and each[0] == after and now >= each[1] for each in said)
