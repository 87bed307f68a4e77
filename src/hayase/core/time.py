"""Clocks come in as parameters, so that runs can be repeated."""

from __future__ import annotations

import operator
import time
from datetime import UTC, date, datetime, timedelta
from typing import Protocol

from hayase.core.errors import StateError

_EPOCH = datetime.fromtimestamp(0, UTC)


def epoch_ms(time: datetime | int) -> int:
    """Milliseconds since 1970 of an aware datetime, or of a number that is that already.

    Raises:
        StateError: `NAIVE_DATETIME`: it has no time zone. `INVALID_TIME`: it is neither.

    Example:
        >>> epoch_ms(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)), epoch_ms(5)
        (1000, 5)
    """
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise StateError(
                "NAIVE_DATETIME", f"{time!r} has no time zone; use an aware datetime, e.g. with tzinfo=UTC"
            )
        return int((time - datetime.fromtimestamp(0, time.tzinfo)) / timedelta(milliseconds=1))
    try:
        return operator.index(time)
    except TypeError:
        raise StateError(
            "INVALID_TIME", f"{time!r} is no time; give an aware datetime, or whole milliseconds since 1970"
        ) from None


def event_ms(time: object) -> object:
    """Milliseconds since 1970 of a date, a datetime or a text in ISO 8601, rounded down; without a time zone it is UTC.

    What is none of these comes back as it is.

    Example:
        >>> event_ms("1970-01-01T00:00:01Z"), event_ms(date(1970, 1, 2)), event_ms(5), event_ms("soon")
        (1000, 86400000, 5, 'soon')
    """
    if isinstance(time, str):
        try:
            when = datetime.fromisoformat(time)
        except ValueError:
            return time
    elif isinstance(time, datetime):
        when = time
    elif isinstance(time, date):
        when = datetime(time.year, time.month, time.day)  # noqa: DTZ001 - the zone comes with all the others'
    else:
        return time
    return ((when if when.tzinfo else when.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1)


class Clock(Protocol):
    """Wall-clock time in milliseconds since the epoch (UTC)."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        ...


class SystemClock:
    """The machine's clock. May go backwards; a caller that needs a monotonic one takes the maximum."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that moves only by `advance`; for tests."""

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return self._now_ms

    def advance_ms(self, delta_ms: int) -> None:
        """Move on by that many milliseconds."""
        self._now_ms += delta_ms


def to_iso(time_ms: int) -> str:
    """A time as ISO 8601 text in UTC.

    Example:
        >>> to_iso(1_500)
        '1970-01-01T00:00:01.500+00:00'
    """
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
