"""From parsed fields to dates, times and timestamps, by the rules of Java's "smart" style."""

from __future__ import annotations

from hayase.sql.errors import FunctionError
from hayase.sql.functions.java.calendar import day_of_week, days_of_month, is_leap, to_days, us_day_of_week, week_start
from hayase.sql.functions.java.time_parsing import Parsed, parse_fields
from hayase.sql.functions.java.time_patterns import Field
from hayase.sql.functions.java.zones import Zone

DAY_MS = 86_400_000
_DAY_NANOS = DAY_MS * 1_000_000
_RANGES = {
    Field.MONTH: (1, 12), Field.DAY: (1, 31), Field.DAY_OF_YEAR: (1, 366), Field.QUARTER: (1, 4), Field.HOUR: (0, 24),
    Field.CLOCK_HOUR: (1, 24), Field.HOUR_OF_AMPM: (0, 11), Field.CLOCK_HOUR_OF_AMPM: (1, 12), Field.MINUTE: (0, 59),
    Field.SECOND: (0, 59), Field.MILLI_OF_DAY: (0, DAY_MS - 1), Field.NANO_OF_DAY: (0, _DAY_NANOS - 1),
    Field.LOCAL_DAY_OF_WEEK: (1, 7), Field.WEEK_OF_YEAR: (1, 53), Field.NANO: (0, 999_999_999),
    Field.YEAR: (-999_999_999, 999_999_999), Field.YEAR_OF_ERA: (1, 1_000_000_000),
}  # fmt: skip


def parse_date(text: str, pattern: str) -> int:
    """A text as DATE; month and day are 1 where the pattern has none."""
    fields = _checked(parse_fields(text, pattern), text)
    if _year(fields) is None and Field.WEEK_BASED_YEAR not in fields:
        raise FunctionError("NOT_A_DATE", f"text {text!r:.100} has no year by pattern {pattern!r:.200}")
    return _days(fields, text)


def parse_time(text: str, pattern: str) -> int:
    """A text as TIME."""
    fields = _checked(parse_fields(text, pattern), text)
    time_of_day = _time(fields)
    if time_of_day is None:
        raise FunctionError("NOT_A_TIME", f"text {text!r:.100} has no time of day by pattern {pattern!r:.200}")
    return time_of_day % DAY_MS


def parse_timestamp(text: str, pattern: str, zone: Zone) -> int:
    """A text as TIMESTAMP, in its own zone or offset or else in `zone`; what it lacks is of 1970-01-01T00:00."""
    parsed = parse_fields(text, pattern)
    fields = _checked(parsed, text)
    local_ms = _days(fields, text) * DAY_MS + _time_or_midnight(fields)
    if parsed.offset_s is not None:
        return local_ms - parsed.offset_s * 1000
    return local_ms - (parsed.zone or zone).offset_of_local(local_ms // 1000) * 1000


def _checked(parsed: Parsed, text: str) -> dict[Field, int]:
    for name, value in parsed.fields.items():
        least, most = _RANGES.get(name, (value, value))
        if not least <= value <= most:
            raise FunctionError(
                "FIELD_OUT_OF_RANGE", f"{name.value} {value} of text {text!r:.100}: it can be {least} to {most}"
            )
    return parsed.fields


def _year(fields: dict[Field, int]) -> int | None:
    if Field.YEAR in fields:
        return fields[Field.YEAR]
    year = fields.get(Field.YEAR_OF_ERA)
    return year if year is None or fields.get(Field.ERA, 1) == 1 else 1 - year


def _days(fields: dict[Field, int], text: str) -> int:
    if Field.WEEK_BASED_YEAR in fields and Field.WEEK_OF_YEAR in fields:
        days = _days_of_week(fields)
    else:
        days = _days_of_year(fields, text)
    expected = {Field.DAY_OF_WEEK: day_of_week(days), Field.LOCAL_DAY_OF_WEEK: us_day_of_week(days)}
    for name, value in expected.items():
        if fields.get(name, value) != value:
            raise FunctionError("CONFLICTING_FIELDS", f"text {text!r:.100}: the {name.value} is not that of the date")
    return days


def _days_of_year(fields: dict[Field, int], text: str) -> int:
    year = _year(fields)
    year = 1970 if year is None else year
    if Field.DAY_OF_YEAR in fields:
        if fields[Field.DAY_OF_YEAR] > 365 + is_leap(year):
            raise FunctionError("FIELD_OUT_OF_RANGE", f"text {text!r:.100}: {year} has no day 366")
        return to_days(year, 1, 1) + fields[Field.DAY_OF_YEAR] - 1
    month = fields.get(Field.MONTH) or 3 * fields.get(Field.QUARTER, 1) - 2
    return to_days(year, month, min(fields.get(Field.DAY, 1), days_of_month(year, month)))


def _days_of_week(fields: dict[Field, int]) -> int:
    start = week_start(to_days(fields[Field.WEEK_BASED_YEAR], 1, 1)) + (fields[Field.WEEK_OF_YEAR] - 1) * 7
    if Field.LOCAL_DAY_OF_WEEK in fields:
        return start + fields[Field.LOCAL_DAY_OF_WEEK] - 1
    return start + fields.get(Field.DAY_OF_WEEK, 7) % 7


def _hour(fields: dict[Field, int]) -> int | None:
    if Field.HOUR in fields:
        return fields[Field.HOUR]
    if Field.CLOCK_HOUR in fields:
        return fields[Field.CLOCK_HOUR] % 24
    half = fields.get(Field.AMPM)
    if half is None:
        return None
    if Field.CLOCK_HOUR_OF_AMPM in fields:
        return fields[Field.CLOCK_HOUR_OF_AMPM] % 12 + 12 * half
    return fields[Field.HOUR_OF_AMPM] + 12 * half if Field.HOUR_OF_AMPM in fields else None


def _time(fields: dict[Field, int]) -> int | None:
    """Milliseconds of the day, or `None` if the hour is not known; 24:00 is the end of the day."""
    if Field.MILLI_OF_DAY in fields:
        return fields[Field.MILLI_OF_DAY]
    if Field.NANO_OF_DAY in fields:
        return fields[Field.NANO_OF_DAY] // 1_000_000
    hour = _hour(fields)
    if hour is None:
        return None
    rest = _rest_of_hour(fields)
    if hour == 24 and rest:
        raise FunctionError("FIELD_OUT_OF_RANGE", "hour 24 has no minutes or seconds; the day ends at 24:00")
    return hour * 3_600_000 + rest


def _rest_of_hour(fields: dict[Field, int]) -> int:
    seconds = fields.get(Field.MINUTE, 0) * 60 + fields.get(Field.SECOND, 0)
    return seconds * 1000 + fields.get(Field.NANO, 0) // 1_000_000


def _time_or_midnight(fields: dict[Field, int]) -> int:
    found = _time(fields)
    if found is not None:
        return found
    hour = fields.get(Field.HOUR_OF_AMPM, fields.get(Field.CLOCK_HOUR_OF_AMPM, 0) % 12)
    return (hour + 12 * fields.get(Field.AMPM, 0)) * 3_600_000 + _rest_of_hour(fields)
