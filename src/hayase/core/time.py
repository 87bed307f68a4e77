"""Clocks come in as parameters, so that runs can be repeated."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall-clock time in milliseconds since the epoch (UTC)."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        ...


class SystemClock:
    """The machine's clock. May go backwards; who needs a monotonic one takes the maximum."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that moves only when told to; for tests."""

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
