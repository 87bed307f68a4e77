"""The rules of windows: where they may be, their bounds, and results on close."""

from __future__ import annotations

from collections.abc import Sequence

from hayase.sql.ast.location import Location
from hayase.sql.ast.queries import Emit, Query, Window, WindowKind
from hayase.sql.catalog.sources import DataSource, WindowedKey
from hayase.sql.errors import StatementError

DAY_MS = 24 * 60 * 60 * 1000
LONGEST_MS = 100_000 * 366 * DAY_MS
"""The longest duration of a window: 100,000 years."""
_WINDOWS_MAX = 100_000
"""In how many hopping windows a record may be: each is a row in memory, and a result."""


def check_window(query: Query, sources: Sequence[DataSource], *, transient: bool = False) -> None:
    """Windows need groups of a stream; only queries whose result is not kept can read tables with windowed keys.

    Raises:
        StatementError: a rule is broken.
    """
    if not transient and any(source.is_table and source.window is not None for source in sources):
        raise StatementError("WINDOWED_TABLE", "KSQL does not support persistent queries on windowed tables.")
    if query.window is None:
        return
    _check_durations(query.window)
    if query.group_by is None:
        raise StatementError(
            "INVALID_WINDOW", "WINDOW clause requires a GROUP BY clause.", location=query.window.location
        )
    if all(source.is_table for source in sources):
        raise StatementError(
            "INVALID_WINDOW",
            "WINDOW clause is only supported for streams: the source is a table",
            location=query.window.location,
        )


def _check_durations(window: Window) -> None:
    """Refuse durations that no window can have; raises StatementError."""
    least_ms = 0 if window.kind is WindowKind.SESSION else 1
    durations = {
        "GAP" if window.kind is WindowKind.SESSION else "SIZE": (window.size_ms, least_ms),
        "ADVANCE BY": (window.advance_ms, 1),
        "RETENTION": (window.retention_ms, 0),
        "GRACE PERIOD": (window.grace_ms, 0),
        "SIZE and GRACE PERIOD together": (window.size_ms + (window.grace_ms or 0), 0),
    }
    for name, (duration_ms, minimum_ms) in durations.items():
        if duration_ms is not None:
            check_duration(name, duration_ms, minimum_ms, window.location)
    if window.advance_ms is not None and window.advance_ms > window.size_ms:
        raise StatementError(
            "INVALID_WINDOW",
            f"ADVANCE BY is {window.advance_ms} ms, more than SIZE, {window.size_ms} ms; it can be at most as much",
            location=window.location,
        )
    windows = 1 if window.advance_ms is None else -(-window.size_ms // window.advance_ms)
    if windows > _WINDOWS_MAX:
        raise StatementError(
            "INVALID_WINDOW",
            f"Each record would be in {windows} windows, as SIZE is {window.size_ms} ms and ADVANCE BY "
            f"{window.advance_ms} ms; the most is {_WINDOWS_MAX}: advance by more",
            location=window.location,
        )


def check_duration(name: str, duration_ms: int, minimum_ms: int, location: Location | None) -> None:
    """Refuse a duration that is too short or too long; raises StatementError."""
    if not minimum_ms <= duration_ms <= LONGEST_MS:
        raise StatementError(
            "INVALID_DURATION",
            f"{name} is {duration_ms} ms; it can be from {minimum_ms} to {LONGEST_MS} ms",
            location=location,
        )


def check_emit(query: Query) -> None:
    """Results on close need windows.

    Raises:
        StatementError: EMIT FINAL without WINDOW.
    """
    if query.emit is Emit.FINAL and query.window is None:
        raise StatementError("INVALID_EMIT", "EMIT FINAL is only supported for windowed aggregations.")


def window_of(window: Window) -> WindowedKey:
    """How the keys of a windowed aggregation are windowed."""
    return WindowedKey(window.kind, None if window.kind is WindowKind.SESSION else window.size_ms)


def grace_ms(window: Window) -> int:
    """How long after its end a window takes records; without GRACE PERIOD what is left of a day."""
    return max(DAY_MS - window.size_ms, 0) if window.grace_ms is None else window.grace_ms
