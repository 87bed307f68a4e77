"""What PostgreSQL writes as text: dates, times, intervals, arrays, hstore; under the settings of `SESSION_OPTIONS`."""

from __future__ import annotations

import datetime as dt
import re
from fractions import Fraction

from hayase.sql.functions.java.calendar import to_days

SESSION_OPTIONS = {
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "row_security": "off",
}
"""Settings of both connections, so that snapshots and changes have the same texts."""

DAY_US = 86_400_000_000
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - texts without a zone
_DATE = re.compile(r"(\d+)-(\d\d)-(\d\d)", re.ASCII)
_TIME = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?", re.ASCII)
_OFFSET = re.compile(r"([+-])(\d\d)(?::(\d\d))?(?::(\d\d))?$", re.ASCII)
_INTERVAL_PART = re.compile(r"([+-]?\d+) (year|mon|day)s?", re.ASCII)
_INTERVAL_TIME = re.compile(r"([+-]?)(\d+):(\d\d):(\d\d(?:\.\d+)?)", re.ASCII)


def days_of_text(text: str) -> int:
    """Days since 1970-01-01 of a date; raises ValueError.

    Example:
        >>> days_of_text("2000-01-01"), days_of_text("0001-01-01 BC")
        (10957, -719528)
    """
    found = _DATE.match(text)
    if found is None:
        raise ValueError(f"{text!r:.60} is no date")
    year = int(found[1])
    if text.endswith(" BC"):
        year = 1 - year
    return to_days(year, int(found[2]), int(found[3]))


def microseconds_of_time(text: str) -> int:
    """Microseconds since midnight; raises ValueError.

    Example:
        >>> microseconds_of_time("00:00:01.5")
        1500000
    """
    found = _TIME.match(text)
    if found is None:
        raise ValueError(f"{text!r:.60} is no time")
    seconds = (int(found[1]) * 60 + int(found[2])) * 60 + int(found[3])
    return seconds * 1_000_000 + int((found[4] or "").ljust(6, "0"))


def microseconds_of_timestamp(text: str) -> int:
    """Microseconds since 1970 of a timestamp, read as UTC; raises ValueError.

    Example:
        >>> microseconds_of_timestamp("1970-01-02 00:00:00.25")
        86400250000
    """
    if text[4:5] == "-" and text[10:11] == " ":  # a year of four digits
        try:
            since = dt.datetime.fromisoformat(text) - _EPOCH
            return since.days * DAY_US + since.seconds * 1_000_000 + since.microseconds
        except (ValueError, TypeError):  # BC, and what is no timestamp
            pass
    date, _, time = text.partition(" ")
    return (days_of_text(date + " BC" if text.endswith(" BC") else date)) * DAY_US + microseconds_of_time(time)


def offset_of_text(text: str) -> int:
    """Seconds east of UTC at the end of a time with zone; raises ValueError."""
    found = _OFFSET.search(text)
    if found is None:
        raise ValueError(f"{text!r:.60} has no offset")
    seconds = int(found[2]) * 3600 + int(found[3] or 0) * 60 + int(found[4] or 0)
    return -seconds if found[1] == "-" else seconds


def parse_interval(text: str) -> tuple[int, int, Fraction]:
    """Months, days and seconds of an interval; raises ValueError.

    Example:
        >>> parse_interval("1 year 2 mons -3 days 04:05:06.5")
        (14, -3, Fraction(29413, 2))
    """
    months = days = 0
    rest = text
    for found in _INTERVAL_PART.finditer(text):
        number = int(found[1])
        if found[2] == "year":
            months += 12 * number
        elif found[2] == "mon":
            months += number
        else:
            days += number
        rest = text[found.end() :]
    seconds = Fraction(0)
    if time := _INTERVAL_TIME.search(rest):
        seconds = Fraction(int(time[2]) * 3600 + int(time[3]) * 60) + Fraction(time[4])
        seconds = -seconds if time[1] == "-" else seconds
    elif rest.strip():
        raise ValueError(f"{text!r:.60} is no interval")
    return months, days, seconds


def parse_array(text: str, delimiter: str = ",") -> list[str | None]:
    r"""Elements of an array of one dimension; raises ValueError for more dimensions.

    Example:
        >>> parse_array(r'{1,NULL,"a \"b\"",c}')
        ['1', None, 'a "b"', 'c']
    """
    if text.startswith("["):  # bounds other than 1
        text = text[text.index("=") + 1 :]
    if not text.startswith("{") or not text.endswith("}"):
        raise ValueError(f"{text!r:.60} is no array")
    if text == "{}":
        return []
    elements: list[str | None] = []
    at, end = 1, len(text) - 1
    while at <= end:
        if text[at] == "{":
            raise ValueError(
                "an array of more than one dimension; leave out its column (column.exclude.list), or such rows with "
                "errors.tolerance=all"
            )
        element, at = _element(text, at, end, delimiter)
        elements.append(element)
        at += 1
    return elements


def _element(text: str, at: int, end: int, delimiter: str) -> tuple[str | None, int]:
    """An element and the position behind it."""
    if text[at] != '"':
        stop = text.find(delimiter, at)
        stop = end if stop < 0 else stop
        found = text[at:stop]
        return (None if found == "NULL" else found), stop
    parts: list[str] = []
    at += 1
    while text[at] != '"':
        if text[at] == "\\":
            at += 1
        parts.append(text[at])
        at += 1
    return "".join(parts), at + 1


_HSTORE = re.compile(r'"((?:[^"\\]|\\.)*)"=>(?:"((?:[^"\\]|\\.)*)"|(NULL))(?:, |$)', re.DOTALL)


def parse_hstore(text: str) -> dict[str, str | None]:
    """Entries of an hstore.

    Example:
        >>> parse_hstore('"a"=>"1", "b"=>NULL')
        {'a': '1', 'b': None}
    """
    return {
        re.sub(r"\\(.)", r"\1", found[1]): None if found[3] else re.sub(r"\\(.)", r"\1", found[2])
        for found in _HSTORE.finditer(text)
    }
