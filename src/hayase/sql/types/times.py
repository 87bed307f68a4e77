"""Dates, times and timestamps as text: ISO 8601, of which a text may leave parts away from the right."""

from __future__ import annotations

import re
from datetime import date

_DAY_MS = 86_400_000
_EPOCH = date(1970, 1, 1).toordinal()
_LAST_YEAR = 9999
_TIMESTAMP = re.compile(
    r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:T(?:(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?)?)?)?)?)?"
    r"(Z|[+-]\d{2}(?::?\d{2})?)?",
    re.ASCII,
)
_TIME = re.compile(r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?", re.ASCII)


def parse_timestamp(text: str) -> int:
    """The timestamp of a text such as `2020-02-10T08:31:44.001+0100`; missing parts are zero, UTC if it has no offset.

    Example:
        >>> parse_timestamp("1970-01-01T00:00:01"), parse_timestamp("1970"), parse_timestamp("1970-01-01T01:00+01:00")
        (1000, 0, 0)
    """
    found = _TIMESTAMP.fullmatch(text.strip())
    if found is None:
        raise _bad(text, "timestamp", "yyyy-MM-dd'T'HH:mm:ss.SSS, with parts left away from the right, and an offset")
    year, month, day, hour, minute, second, fraction, offset = found.groups()
    try:
        days = date(int(year), int(month or 1), int(day or 1)).toordinal() - _EPOCH
    except ValueError as error:
        raise _bad(text, "timestamp", "a day of the calendar") from error
    if hour == "24" and not any(int(part or 0) for part in (minute, second, fraction)):
        days, hour = days + 1, "0"  # midnight at the end of the day
    return days * _DAY_MS + _milliseconds(text, hour or "0", minute, second, fraction) - _offset_ms(offset)


def parse_date(text: str) -> int:
    """The days since 1970 of a text such as `2020-02-10`, `2020-02` or `2020`; a time of day is left away."""
    return parse_timestamp(text) // _DAY_MS


def parse_time(text: str) -> int:
    """The milliseconds of the day of a text such as `08:31:44.001` or `08:31`."""
    found = _TIME.fullmatch(text.strip())
    if found is None:
        raise _bad(text, "time", "HH:mm:ss.SSS, with parts left away from the right")
    return _milliseconds(text, *found.groups())


def timestamp_text(milliseconds: int) -> str:
    """A timestamp as `1970-01-01T00:00:00.010`."""
    days, rest = divmod(milliseconds, _DAY_MS)
    return f"{date_text(days)}T{_clock_text(rest)}.{rest % 1000:03}"


def date_text(days: int) -> str:
    """A date as `1970-01-11`; years before 1 and after 9999 with a sign, as Java writes them."""
    year, month, day = _civil(days)
    if 0 <= year <= _LAST_YEAR:
        return f"{year:04}-{month:02}-{day:02}"
    return f"{'-' if year < 0 else '+'}{abs(year):04}-{month:02}-{day:02}"


def time_text(milliseconds: int) -> str:
    """A time of the day as `08:31`, `08:31:44` or `08:31:44.001`: as short as it is exact."""
    text = _clock_text(milliseconds)
    if milliseconds % 1000:
        return f"{text}.{milliseconds % 1000:03}"
    return text if milliseconds % 60_000 else text[:5]


def _clock_text(milliseconds: int) -> str:
    seconds = milliseconds // 1000
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _civil(days: int) -> tuple[int, int, int]:
    """Year, month and day in the Gregorian calendar, which goes on before its beginning."""
    cycles, day_of_cycle = divmod(days + _EPOCH - 1, 146_097)  # days of 400 years
    moment = date.fromordinal(day_of_cycle + 1)
    return moment.year + 400 * cycles, moment.month, moment.day


def _milliseconds(text: str, hour: str, minute: str | None, second: str | None, fraction: str | None) -> int:
    hours, minutes, seconds = int(hour), int(minute or 0), int(second or 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        raise _bad(text, "time", "00:00 to 23:59:59.999")
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + int((fraction or "0").ljust(3, "0")[:3])


def _offset_ms(offset: str | None) -> int:
    if offset is None or offset == "Z":
        return 0
    digits = offset[1:].replace(":", "").ljust(4, "0")
    milliseconds = (int(digits[:2]) * 60 + int(digits[2:])) * 60_000
    return -milliseconds if offset[0] == "-" else milliseconds


def _bad(text: str, kind: str, allowed: str) -> ValueError:
    return ValueError(f"Failed to parse {kind} '{text:.80}': allowed is {allowed}")
