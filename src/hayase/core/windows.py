"""Window definitions: plain data shared by the DSL, SQL and the kernel."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import timedelta

from hayase.core.errors import TopologyError
from hayase.core.records import Window


def to_ms(name: str, value: timedelta, *, minimum_ms: int = 0) -> int:
    """Whole milliseconds of a timedelta.

    Raises:
        TopologyError: not a timedelta, finer than a millisecond, or below the minimum.
    """
    if not isinstance(value, timedelta):
        raise TopologyError(
            "INVALID_DURATION", f"{name} must be a datetime.timedelta, not {value!r}; e.g. timedelta(minutes=5)"
        )
    if value.microseconds % 1000:
        raise TopologyError("INVALID_DURATION", f"{name} is {value!r}; time here is in whole milliseconds")
    ms = value // timedelta(milliseconds=1)
    if ms < minimum_ms:
        raise TopologyError("INVALID_DURATION", f"{name} is {ms} ms; it must be at least {minimum_ms} ms")
    return ms


@dataclass(frozen=True, slots=True)
class TimeWindows:
    """Tumbling or hopping windows aligned to the epoch (UTC).

    The n-th window is `[n * advance_ms, n * advance_ms + size_ms)`. A record at time t falls into every
    window with `start <= t < end`. A window is closed, and a record for it is late, once the operator's
    stream time is at least `end + grace_ms` (Kafka Streams' `TimeWindows`).

    Example:
        >>> TimeWindows.of_size_with_no_grace(timedelta(milliseconds=10)).windows_for(25)
        [Window(start_ms=20, end_ms=30)]
    """

    size_ms: int
    advance_ms: int
    grace_ms: int

    @classmethod
    def of_size_and_grace(cls, size: timedelta, grace: timedelta) -> TimeWindows:
        """Tumbling windows that accept records until stream time reaches their end plus `grace`."""
        size_ms = to_ms("size", size, minimum_ms=1)
        return cls(size_ms, size_ms, to_ms("grace", grace))

    @classmethod
    def of_size_with_no_grace(cls, size: timedelta) -> TimeWindows:
        """Tumbling windows that drop every record that comes after their end."""
        return cls.of_size_and_grace(size, timedelta(0))

    def advance_by(self, advance: timedelta) -> TimeWindows:
        """Hopping windows: a new one starts every `advance`; `0 < advance <= size`."""
        advance_ms = to_ms("advance", advance, minimum_ms=1)
        if advance_ms > self.size_ms:
            raise TopologyError(
                "INVALID_WINDOW", f"advance is {advance_ms} ms, more than the window size of {self.size_ms} ms"
            )
        return dataclasses.replace(self, advance_ms=advance_ms)

    def windows_for(self, timestamp_ms: int) -> list[Window]:
        """The windows that contain the time, by start."""
        first = max(0, timestamp_ms - self.size_ms + self.advance_ms) // self.advance_ms * self.advance_ms
        return [Window(s, s + self.size_ms) for s in range(first, timestamp_ms + 1, self.advance_ms)]

    @property
    def retention_ms(self) -> int:
        """How long a store must keep these windows: size plus grace."""
        return self.size_ms + self.grace_ms
