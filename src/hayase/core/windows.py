"""Window definitions: plain data shared by the DSL, SQL and the kernel."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from hayase.core.errors import TopologyError
from hayase.core.records import Window

LAST_MS = 2**63 - 1
"""The last time that 64 bits can say; the end of unlimited windows."""


def window_from(start_ms: int, size_ms: int) -> Window:
    """The window of that start and size; never ends beyond the last 64-bit time."""
    return Window(start_ms, min(start_ms + size_ms, LAST_MS))


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


class Windows(ABC):
    """Windows that do not depend on the data: what a subclass says for a time.

    Base of TimeWindows and UnlimitedWindows.

    For windows of your own (calendar days of a time zone, shifts), make a subclass with `windows_for`. A record falls
    into every window that `windows_for` gives for its timestamp; a window is closed, and a record for it is late, once
    the operator's stream time is at least its end plus `grace_ms`. Kafka Streams' `Windows`.

    Attributes:
        size_ms: length of the longest window. Stores keep the start of a window only, so that what is read from a
            store, or emitted on window close, ends `size_ms` after its start.
        grace_ms: how long after its end a window accepts records.

    Example:
        >>> class Shifts(Windows):
        ...     size_ms, grace_ms = 8 * 3_600_000, 0
        ...
        ...     def windows_for(self, timestamp_ms):
        ...         start = (timestamp_ms - 6 * 3_600_000) // self.size_ms * self.size_ms + 6 * 3_600_000
        ...         return [Window(max(start, 0), start + self.size_ms)]
        >>> Shifts().windows_for(7 * 3_600_000)
        [Window(start_ms=21600000, end_ms=50400000)]
    """

    __slots__ = ()

    size_ms: int
    grace_ms: int

    @abstractmethod
    def windows_for(self, timestamp_ms: int) -> Sequence[Window]:
        """The windows that contain the time, in the order in which they are to be updated; starts are not negative.

        Must give the same for the same time, always.
        """

    @property
    def retention_ms(self) -> int:
        """How long a store must keep these windows after their start: size plus grace."""
        return min(self.size_ms + self.grace_ms, LAST_MS)


@dataclass(frozen=True, slots=True)
class TimeWindows(Windows):
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
        """Tumbling windows that accept records until stream time reaches their end plus `grace`.

        The n-th window is `[n * size, (n + 1) * size)`, counted from 1970-01-01 UTC: windows of a day begin at midnight
        UTC, whatever the local time zone. Kafka Streams' `TimeWindows.ofSizeAndGrace`.

        Args:
            size: of a window, at least 1 ms, in whole milliseconds.
            grace: how far stream time may pass the end of a window before its records are late; from 0 on. Late records
                are dropped and counted, and `KTable.late_records` gives them.

        Raises:
            TopologyError: `INVALID_DURATION`.

        Example:
            >>> windows = TimeWindows.of_size_and_grace(timedelta(minutes=5), timedelta(minutes=1))
            >>> windows.windows_for(300_000), windows.retention_ms
            ([Window(start_ms=300000, end_ms=600000)], 360000)
        """
        size_ms = to_ms("size", size, minimum_ms=1)
        return cls(size_ms, size_ms, to_ms("grace", grace))

    @classmethod
    def of_size_with_no_grace(cls, size: timedelta) -> TimeWindows:
        """Tumbling windows that drop every record that comes after their end: as `of_size_and_grace` with 0.

        A record is dropped as soon as stream time has reached the end of its window, so records that are out of order
        around the end of a window are lost for it. Kafka Streams' `TimeWindows.ofSizeWithNoGrace`.

        Raises:
            TopologyError: `INVALID_DURATION`.

        Example:
            >>> TimeWindows.of_size_with_no_grace(timedelta(minutes=5)).grace_ms
            0
        """
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


@dataclass(frozen=True, slots=True)
class UnlimitedWindows(Windows):
    """One window per key that begins at a start and never ends; earlier records fall in no window and are left out.

    There is no grace, no window is ever closed or expires. Kafka Streams' `UnlimitedWindows`.

    Example:
        >>> UnlimitedWindows.of().start_on(datetime(2026, 1, 1, tzinfo=UTC)).windows_for(5)
        []
    """

    start_ms: int = 0

    @classmethod
    def of(cls) -> UnlimitedWindows:
        """The window that begins in 1970."""
        return cls()

    def start_on(self, start: datetime) -> UnlimitedWindows:
        """The window that begins then: an aware datetime of 1970 or later, in whole milliseconds."""
        if not isinstance(start, datetime) or start.tzinfo is None:
            raise TopologyError("INVALID_WINDOW", f"start is {start!r}; use an aware datetime, e.g. with tzinfo=UTC")
        return UnlimitedWindows(to_ms("start", start - datetime.fromtimestamp(0, UTC)))

    @property
    def size_ms(self) -> int:  # type: ignore[override] # others have it as a field
        """The length of the window in milliseconds: the largest that 64 bits hold."""
        return LAST_MS

    @property
    def grace_ms(self) -> int:  # type: ignore[override] # others have it as a field
        """None: nothing is ever late."""
        return 0

    def windows_for(self, timestamp_ms: int) -> list[Window]:
        """A list of the window, empty for a time before its start."""
        return [Window(self.start_ms, LAST_MS)] if timestamp_ms >= self.start_ms else []


@dataclass(frozen=True, slots=True)
class SlidingWindows:
    """Windows that contain every combination of records of a key that are at most `difference_ms` apart (KIP-450).

    Both ends are included. For a record at time t there are the window `[t - difference_ms, t]` and, if a later record
    falls into it, `[t + 1, t + 1 + difference_ms]`. There are no windows before 0: records earlier than the difference
    share the window `[0, difference_ms]`. A window is closed once the operator's stream time is more than its end plus
    `grace_ms` (Kafka Streams' `SlidingWindows`).
    """

    difference_ms: int
    grace_ms: int

    @classmethod
    def of_time_difference_and_grace(cls, time_difference: timedelta, grace: timedelta) -> SlidingWindows:
        """Windows of records that far apart, which accept records until stream time is past their end plus `grace`.

        Example:
            >>> SlidingWindows.of_time_difference_and_grace(timedelta(seconds=5), timedelta(seconds=1))
            SlidingWindows(difference_ms=5000, grace_ms=1000)
        """
        return cls(to_ms("time_difference", time_difference), to_ms("grace", grace))

    @classmethod
    def of_time_difference_with_no_grace(cls, time_difference: timedelta) -> SlidingWindows:
        """Windows of records that far apart, which accept records until stream time is past their end."""
        return cls.of_time_difference_and_grace(time_difference, timedelta(0))

    @property
    def retention_ms(self) -> int:
        """How long a store must keep these windows after their start: twice the difference, plus grace."""
        return max(2 * self.difference_ms, 1) + self.grace_ms


@dataclass(frozen=True, slots=True)
class SessionWindows:
    """Windows of activity: records of a key at most `gap_ms` apart are one session (Kafka Streams' `SessionWindows`).

    With a gap of 0 a session is one instant: the records of a key that have one timestamp.
    A session reaches from its first to its last record, both included. A record that is near enough to several sessions
    merges them. A record is late if the session that it would be in, after merging, ended more than gap plus grace
    before the operator's stream time.
    """

    gap_ms: int
    grace_ms: int

    @classmethod
    def of_inactivity_gap_and_grace(cls, inactivity_gap: timedelta, grace: timedelta) -> SessionWindows:
        """Sessions that end after that gap, and accept late records for `grace` longer.

        A record joins a session if it is at most the gap before its start or after its end, both included; else it
        begins one. Records may merge sessions: the merged ones are deleted (a null value is sent), then the new one is
        sent. The windows of one key do not overlap; those of different keys have nothing to do with each other. Kafka
        Streams' `SessionWindows.ofInactivityGapAndGrace`.

        Args:
            inactivity_gap: from 0 on, in whole milliseconds.
            grace: from 0 on; a record is late if its session ended more than gap plus grace before stream time. Late
                records are dropped and counted, and `KTable.late_records` gives them.

        Raises:
            TopologyError: `INVALID_DURATION`.

        Example:
            >>> SessionWindows.of_inactivity_gap_and_grace(timedelta(minutes=30), timedelta(minutes=5))
            SessionWindows(gap_ms=1800000, grace_ms=300000)
        """
        return cls(to_ms("inactivity_gap", inactivity_gap), to_ms("grace", grace))

    @classmethod
    def of_inactivity_gap_with_no_grace(cls, inactivity_gap: timedelta) -> SessionWindows:
        """Sessions that end after that gap: as `of_inactivity_gap_and_grace` with a grace of 0.

        Raises:
            TopologyError: `INVALID_DURATION`.

        Example:
            >>> SessionWindows.of_inactivity_gap_with_no_grace(timedelta(minutes=30))
            SessionWindows(gap_ms=1800000, grace_ms=0)
        """
        return cls.of_inactivity_gap_and_grace(inactivity_gap, timedelta(0))

    @property
    def retention_ms(self) -> int:
        """How long a store must keep sessions after their end: gap plus grace."""
        return self.gap_ms + self.grace_ms


@dataclass(frozen=True, slots=True)
class EmitStrategy:
    """When a windowed aggregate sends results: on every update (the default), or once, when a window closes (KIP-825).

    Attributes:
        on_close: only when a window closes.
    """

    on_close: bool

    @classmethod
    def on_window_update(cls) -> EmitStrategy:
        """A result for every update of a window."""
        return cls(on_close=False)

    @classmethod
    def on_window_close(cls) -> EmitStrategy:
        """One result per window, once no more records are accepted for it.

        Windows close when a record moves the operator's stream time: without new records nothing is sent. Closed
        windows are sent by start (sessions: by end, start), then by the bytes of their keys.
        """
        return cls(on_close=True)
