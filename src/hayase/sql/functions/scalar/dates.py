"""Functions of DATE and TIME."""

from __future__ import annotations

import time

import polars as pl

from hayase.sql.errors import FunctionError
from hayase.sql.functions.java.simple_dates import parse_date_leniently
from hayase.sql.functions.java.time_printing import print_date, print_time
from hayase.sql.functions.java.time_resolving import DAY_MS
from hayase.sql.functions.java.time_resolving import parse_date as parse_date_by
from hayase.sql.functions.java.time_resolving import parse_time as parse_time_by
from hayase.sql.functions.registry import scalar

UNIT_MS = {"DAYS": DAY_MS, "HOURS": 3_600_000, "MINUTES": 60_000, "SECONDS": 1000, "MILLISECONDS": 1}


def _same(value: pl.Expr) -> pl.Expr:
    return value


_MIN_DAYS = -(1 << 31)
_MAX_DAYS = (1 << 31) - 1


def _moved(days: int, change_ms: int) -> int:
    """A date moved: parts of a day are cut towards 1970, as in Java."""
    moved_ms = days * DAY_MS + change_ms
    moved = moved_ms // DAY_MS if moved_ms >= 0 else -(-moved_ms // DAY_MS)
    if not _MIN_DAYS <= moved <= _MAX_DAYS:
        raise FunctionError("DATE_OUT_OF_RANGE", f"{moved} days since 1970-01-01 are no DATE")
    return moved


@scalar("dateadd", "(UNIT, INT, DATE) -> DATE", "A date some time later.")
def dateadd(unit: str, count: int, days: int) -> int:
    """DATEADD."""
    return _moved(days, count * UNIT_MS[unit])


@scalar("datesub", "(UNIT, INT, DATE) -> DATE", "A date some time earlier.")
def datesub(unit: str, count: int, days: int) -> int:
    """DATESUB."""
    return _moved(days, -count * UNIT_MS[unit])


@scalar("timeadd", "(UNIT, INT, TIME) -> TIME", "A time of day some time later; after midnight it starts again.")
def timeadd(unit: str, count: int, time_ms: int) -> int:
    """TIMEADD."""
    return (time_ms + count * UNIT_MS[unit]) % DAY_MS


@scalar("timesub", "(UNIT, INT, TIME) -> TIME", "A time of day some time earlier.")
def timesub(unit: str, count: int, time_ms: int) -> int:
    """TIMESUB."""
    return (time_ms - count * UNIT_MS[unit]) % DAY_MS


@scalar("format_date", "(DATE, STRING) -> STRING", "A date as text by a pattern of Java's DateTimeFormatter.")
@scalar(
    "datetostring", "(INT, STRING) -> STRING", "Days since 1970-01-01 as text by a pattern. Deprecated: FORMAT_DATE."
)
def format_date(days: int, pattern: str) -> str:
    """FORMAT_DATE."""
    return print_date(days, pattern)


@scalar("format_time", "(TIME, STRING) -> STRING", "A time as text by a pattern of Java's DateTimeFormatter.")
def format_time(time_ms: int, pattern: str) -> str:
    """FORMAT_TIME."""
    return print_time(time_ms, pattern)


@scalar("parse_date", "(STRING, STRING) -> DATE", "The date that a text means by a pattern of Java's SimpleDateFormat.")
def parse_date(text: str, pattern: str) -> int:
    """PARSE_DATE: lenient."""
    return parse_date_leniently(text, pattern)


@scalar(
    "stringtodate", "(STRING, STRING) -> INT", "The date of a text, as days since 1970-01-01. Deprecated: PARSE_DATE."
)
def stringtodate(text: str, pattern: str) -> int:
    """STRINGTODATE: by a pattern of Java's DateTimeFormatter."""
    return parse_date_by(text, pattern)


@scalar("parse_time", "(STRING, STRING) -> TIME", "The time of day that a text means by a pattern.")
def parse_time(text: str, pattern: str) -> int:
    """PARSE_TIME."""
    return parse_time_by(text, pattern)


@scalar("from_days", "(INT) -> DATE", "The date of a number of days since 1970-01-01.", columns=_same)
@scalar("unix_date", "(DATE) -> INT", "The days since 1970-01-01.", columns=_same)
def same_days(days: int) -> int:
    """FROM_DAYS and UNIX_DATE: a DATE is a number of days."""
    return days


@scalar("unix_date", "() -> INT", "Today as days since 1970-01-01.", pure=False)
def today() -> int:
    """UNIX_DATE of now."""
    return time.time_ns() // 1_000_000 // DAY_MS
