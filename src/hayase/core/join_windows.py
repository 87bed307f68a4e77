"""The window of a join of two streams: plain data shared by the DSL and the kernel."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import timedelta

from hayase.core.errors import TopologyError
from hayase.core.windows import to_ms


@dataclass(frozen=True, slots=True)
class JoinWindows:
    """Windows of a stream-stream join: how far apart in time two records may be (Kafka Streams' `JoinWindows`).

    A left record at time t and a right record of the same key meet if
    `t - before_ms <= right's time <= t + after_ms`, both ends included. One of the two may be negative, so that the
    window lies on one side only, as long as it is not empty.

    `grace_ms` says how long after the end of its window a record of a left or outer join that found no match is held
    back before it comes out alone. It does not refuse records: what comes late meets what the other side still keeps,
    `before + after + grace` long.

    Example:
        >>> JoinWindows.of_time_difference_with_no_grace(timedelta(minutes=5)).after(timedelta(0))
        JoinWindows(before_ms=300000, after_ms=0, grace_ms=0)
    """

    before_ms: int
    after_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        if self.before_ms + self.after_ms < 0:
            raise TopologyError(
                "INVALID_WINDOW",
                f"the join window ends {-self.before_ms - self.after_ms} ms before it starts (before {self.before_ms} "
                f"ms, after {self.after_ms} ms); before plus after must not be negative",
            )

    @classmethod
    def of_time_difference_and_grace(cls, time_difference: timedelta, after_window_end: timedelta) -> JoinWindows:
        """Records at most `time_difference` apart, before or after; grace `after_window_end`.

        Raises:
            TopologyError: `INVALID_DURATION`: negative, or finer than a millisecond.
        """
        difference_ms = to_ms("time_difference", time_difference)
        return cls(difference_ms, difference_ms, to_ms("after_window_end", after_window_end))

    @classmethod
    def of_time_difference_with_no_grace(cls, time_difference: timedelta) -> JoinWindows:
        """Records at most `time_difference` apart.

        One that found no match comes out alone as soon as its window is over.
        """
        return cls.of_time_difference_and_grace(time_difference, timedelta(0))

    def before(self, time_difference: timedelta) -> JoinWindows:
        """A copy in which right records may be at most so much earlier than the left one.

        Negative: at least that much later.

        Raises:
            TopologyError: `INVALID_WINDOW`: nothing would be left of the window.
        """
        return dataclasses.replace(self, before_ms=_signed_ms(time_difference))

    def after(self, time_difference: timedelta) -> JoinWindows:
        """A copy in which right records may be at most so much later than the left one.

        Negative: at least that much earlier.

        Raises:
            TopologyError: `INVALID_WINDOW`: nothing would be left of the window.
        """
        return dataclasses.replace(self, after_ms=_signed_ms(time_difference))

    @property
    def size_ms(self) -> int:
        """The length of the window, in milliseconds."""
        return self.before_ms + self.after_ms

    @property
    def retention_ms(self) -> int:
        """How long each side keeps its records: size plus grace."""
        return self.size_ms + self.grace_ms


def _signed_ms(value: timedelta) -> int:
    if isinstance(value, timedelta) and value < timedelta(0):
        return -to_ms("time_difference", -value)
    return to_ms("time_difference", value)
