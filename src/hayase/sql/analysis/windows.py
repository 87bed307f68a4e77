"""The rules of windows: where they may be, their bounds, and results on close."""

from __future__ import annotations

from collections.abc import Sequence

from hayase.sql.ast.queries import Emit, Query, Window, WindowKind
from hayase.sql.catalog.sources import DataSource, WindowedKey
from hayase.sql.errors import StatementError

DAY_MS = 24 * 60 * 60 * 1000


def check_window(query: Query, sources: Sequence[DataSource]) -> None:
    """Windows need groups of a stream; tables with windowed keys cannot be read.

    Raises:
        StatementError: a rule is broken.
    """
    if any(source.is_table and source.window is not None for source in sources):
        raise StatementError("WINDOWED_TABLE", "KSQL does not support persistent queries on windowed tables.")
    if query.window is None:
        return
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
