"""Dates and times as texts by a pattern."""

from __future__ import annotations

from dataclasses import dataclass

from hayase.sql.errors import FunctionError
from hayase.sql.functions.java.calendar import (
    day_of_week,
    from_days,
    to_days,
    us_day_of_week,
    us_week,
    week_start,
)
from hayase.sql.functions.java.time_names import NAMES
from hayase.sql.functions.java.time_patterns import (
    Element,
    Field,
    Fraction,
    Literal,
    LocalizedOffset,
    Name,
    Number,
    Offset,
    Optional,
    Padded,
    Sign,
    TwoDigitYear,
    ZoneId,
    ZoneName,
    elements_of,
)
from hayase.sql.functions.java.zones import Zone, localized_offset

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Moment:
    """What is printed: a date, a time of day, or both in a zone."""

    days: int | None = None
    time_ms: int | None = None
    zone: Zone | None = None
    epoch_s: int = 0


class _MissingError(Exception):
    """The moment does not have a field."""


def print_date(days: int, pattern: str) -> str:
    """A DATE as text."""
    return _printed(Moment(days=days), pattern)


def print_time(time_ms: int, pattern: str) -> str:
    """A TIME as text."""
    return _printed(Moment(time_ms=time_ms), pattern)


def print_timestamp(timestamp_ms: int, pattern: str, zone: Zone) -> str:
    """A TIMESTAMP as text, as local time of a zone."""
    epoch_s = timestamp_ms // 1000
    days, time_ms = divmod(timestamp_ms + zone.offset_at(epoch_s) * 1000, DAY_MS)
    return _printed(Moment(days, time_ms, zone, epoch_s), pattern)


def _printed(moment: Moment, pattern: str) -> str:
    try:
        return "".join(_text(element, moment) for element in elements_of(pattern))
    except _MissingError as missing:
        raise FunctionError(
            "FIELD_NOT_SUPPORTED", f"pattern {pattern!r:.200} asks for {missing}, which the value does not have"
        ) from None


def _text(element: Element, moment: Moment) -> str:
    match element:
        case Literal(text):
            return text
        case Number(field, min_width, max_width, sign):
            return _number(_value(moment, field), min_width, max_width, sign, field)
        case TwoDigitYear(field):
            return f"{abs(_value(moment, field)) % 100:02d}"
        case Fraction(width):
            return f"{_value(moment, Field.NANO):09d}"[:width]
        case Name(field, style):
            return NAMES[field, style][_value(moment, field)]
        case Padded(inner, width):
            text = _text(inner, moment)
            if len(text) > width:
                raise FunctionError(
                    "TOO_LONG", f"{text!r} is longer than the {width} characters that its pattern allows"
                )
            return text.rjust(width)
        case Optional(inner_elements):
            try:
                return "".join(_text(inner, moment) for inner in inner_elements)
            except _MissingError:
                return ""
    return _zone_text(element, moment)


def _number(value: int, min_width: int, max_width: int, sign: Sign, field: Field) -> str:
    digits = str(abs(value))
    if len(digits) > max_width or (value < 0 and sign is Sign.NEVER):
        raise FunctionError("TOO_LONG", f"{field.value} {value} does not fit the {max_width} digits of its pattern")
    if value < 0:
        return "-" + digits.rjust(min_width, "0")
    plus = "+" if sign is Sign.EXCEEDS_PAD and len(digits) > min_width else ""
    return plus + digits.rjust(min_width, "0")


def _zone_text(element: Element, moment: Moment) -> str:
    zone = moment.zone
    if zone is None:
        raise _MissingError("a time zone")
    match element:
        case ZoneId():
            return zone.id
        case ZoneName(long):
            return zone.name(moment.epoch_s, long)
        case LocalizedOffset(full):
            return localized_offset(zone.offset_at(moment.epoch_s), full)
        case Offset(pattern, zero):
            return _offset(zone.offset_at(moment.epoch_s), pattern, zero)
    raise AssertionError(f"{element} is printed elsewhere")


def _offset(offset_s: int, pattern: str, zero: str) -> str:
    if offset_s == 0:
        return zero
    hours, rest = divmod(abs(offset_s), 3600)
    minutes, seconds = divmod(rest, 60)
    colon = ":" if ":" in pattern else ""
    text = f"{'-' if offset_s < 0 else '+'}{hours:02d}"
    if "MM" in pattern or minutes:
        text += f"{colon}{minutes:02d}"
    return text + f"{colon}{seconds:02d}" if "ss" in pattern and seconds else text


def _value(moment: Moment, field: Field) -> int:
    value = _date_value(moment.days, field) if moment.days is not None else None
    if value is None and moment.time_ms is not None:
        value = _time_value(moment.time_ms, field)
    if value is None:
        raise _MissingError(field.value)
    return value


def _date_value(days: int, field: Field) -> int | None:
    year, month, day = from_days(days)
    match field:
        case Field.YEAR:
            return year
        case Field.YEAR_OF_ERA:
            return year if year > 0 else 1 - year
        case Field.ERA:
            return int(year > 0)
        case Field.MONTH:
            return month
        case Field.QUARTER:
            return (month + 2) // 3
        case Field.DAY:
            return day
        case Field.DAY_OF_YEAR:
            return days - to_days(year, 1, 1) + 1
        case Field.DAY_OF_WEEK:
            return day_of_week(days)
        case Field.LOCAL_DAY_OF_WEEK:
            return us_day_of_week(days)
        case Field.WEEK_BASED_YEAR:
            return us_week(days)[0]
        case Field.WEEK_OF_YEAR:
            return us_week(days)[1]
        case Field.WEEK_OF_MONTH:
            return (days - week_start(to_days(year, month, 1))) // 7 + 1
        case Field.ALIGNED_DAY_OF_WEEK:
            return (day - 1) % 7 + 1
    return None


def _time_value(time_ms: int, field: Field) -> int | None:
    hour, rest = divmod(time_ms, 3_600_000)
    match field:
        case Field.HOUR:
            return hour
        case Field.CLOCK_HOUR:
            return hour or 24
        case Field.HOUR_OF_AMPM:
            return hour % 12
        case Field.CLOCK_HOUR_OF_AMPM:
            return hour % 12 or 12
        case Field.AMPM:
            return hour // 12
        case Field.MINUTE:
            return rest // 60_000
        case Field.SECOND:
            return rest // 1000 % 60
        case Field.NANO:
            return rest % 1000 * 1_000_000
        case Field.MILLI_OF_DAY:
            return time_ms
        case Field.NANO_OF_DAY:
            return time_ms * 1_000_000
    return None
