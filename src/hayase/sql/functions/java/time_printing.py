"""Dates and times as texts by a pattern: each pattern becomes a list of functions, one for each of its elements."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter

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


class Moment:
    """What is printed: a date, a time of day, or both in a zone. What it does not have, it has no attributes for."""

    __slots__ = ("day", "days", "epoch_s", "hour", "minute", "month", "nano", "second", "time_ms", "year", "zone")

    def __init__(
        self, days: int | None = None, time_ms: int | None = None, zone: Zone | None = None, epoch_s: int = 0
    ) -> None:
        if days is not None:
            self.days = days
            self.year, self.month, self.day = from_days(days)
        if time_ms is not None:
            self.time_ms = time_ms
            seconds, milliseconds = divmod(time_ms, 1000)
            self.nano = milliseconds * 1_000_000
            minutes, self.second = divmod(seconds, 60)
            self.hour, self.minute = divmod(minutes, 60)
        if zone is not None:
            self.zone = zone
            self.epoch_s = epoch_s


Getter = Callable[[Moment], int]
Printer = Callable[[Moment], str]


def print_date(days: int, pattern: str) -> str:
    """A DATE as text."""
    return _printed(Moment(days), pattern)


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
        return "".join([printer(moment) for printer in _printers(pattern)])
    except AttributeError as missing:
        raise FunctionError(
            "FIELD_NOT_SUPPORTED",
            f"pattern {pattern!r:.200} asks for the {missing.name}, which the value does not have",
        ) from None


@lru_cache(maxsize=512)
def _printers(pattern: str) -> tuple[Printer, ...]:
    return tuple(map(_printer, elements_of(pattern)))


def _printer(element: Element) -> Printer:
    match element:
        case Literal(text):
            return lambda _: text
        case Number():
            return _number_printer(element)
        case TwoDigitYear(field):
            year = _GETTERS[field]
            return lambda moment: f"{abs(year(moment)) % 100:02d}"
        case Fraction(width):
            return lambda moment: f"{moment.nano:09d}"[:width]
        case Name(field, style):
            names, number = NAMES[field, style], _GETTERS[field]
            return lambda moment: names[number(moment)]
        case Padded(inner, width):
            return _padded_printer(_printer(inner), width)
        case Optional(elements):
            return _optional_printer(tuple(map(_printer, elements)))
    return _zone_printer(element)


def _number_printer(element: Number) -> Printer:
    get, width, most = _GETTERS[element.field], element.min_width, element.max_width
    exceeds = element.sign is Sign.EXCEEDS_PAD
    unsigned = element.sign is Sign.NEVER
    least, limit = 10**width, 10**most

    def printer(moment: Moment) -> str:
        value = get(moment)
        if 0 <= value < least:
            return f"{value:0{width}d}"
        if value >= limit or -value >= limit or (value < 0 and unsigned):
            raise FunctionError(
                "TOO_LONG", f"{element.field.value} {value} does not fit the {most} digits of its pattern"
            )
        if value < 0:
            return f"-{-value:0{width}d}"
        return f"+{value}" if exceeds else str(value)

    return printer


def _padded_printer(inner: Printer, width: int) -> Printer:
    def printer(moment: Moment) -> str:
        text = inner(moment)
        if len(text) > width:
            raise FunctionError("TOO_LONG", f"{text!r} is longer than the {width} characters that its pattern allows")
        return text.rjust(width)

    return printer


def _optional_printer(inner: tuple[Printer, ...]) -> Printer:
    def printer(moment: Moment) -> str:
        try:
            return "".join([part(moment) for part in inner])
        except AttributeError:
            return ""

    return printer


def _zone_printer(element: Element) -> Printer:
    match element:
        case ZoneId():
            return lambda moment: moment.zone.id
        case ZoneName(long):
            return lambda moment: moment.zone.name(moment.epoch_s, long)
        case LocalizedOffset(full):
            return lambda moment: localized_offset(moment.zone.offset_at(moment.epoch_s), full)
        case Offset(pattern, zero):
            return lambda moment: _offset(moment.zone.offset_at(moment.epoch_s), pattern, zero)
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


def _week_of_month(moment: Moment) -> int:
    return (moment.days - week_start(to_days(moment.year, moment.month, 1))) // 7 + 1


_GETTERS: dict[Field, Getter] = {
    Field.YEAR: attrgetter("year"),
    Field.YEAR_OF_ERA: lambda moment: moment.year if moment.year > 0 else 1 - moment.year,
    Field.ERA: lambda moment: int(moment.year > 0),
    Field.MONTH: attrgetter("month"),
    Field.QUARTER: lambda moment: (moment.month + 2) // 3,
    Field.DAY: attrgetter("day"),
    Field.DAY_OF_YEAR: lambda moment: moment.days - to_days(moment.year, 1, 1) + 1,
    Field.DAY_OF_WEEK: lambda moment: day_of_week(moment.days),
    Field.LOCAL_DAY_OF_WEEK: lambda moment: us_day_of_week(moment.days),
    Field.WEEK_BASED_YEAR: lambda moment: us_week(moment.days)[0],
    Field.WEEK_OF_YEAR: lambda moment: us_week(moment.days)[1],
    Field.WEEK_OF_MONTH: _week_of_month,
    Field.ALIGNED_DAY_OF_WEEK: lambda moment: (moment.day - 1) % 7 + 1,
    Field.HOUR: attrgetter("hour"),
    Field.CLOCK_HOUR: lambda moment: moment.hour or 24,
    Field.HOUR_OF_AMPM: lambda moment: moment.hour % 12,
    Field.CLOCK_HOUR_OF_AMPM: lambda moment: moment.hour % 12 or 12,
    Field.AMPM: lambda moment: moment.hour // 12,
    Field.MINUTE: attrgetter("minute"),
    Field.SECOND: attrgetter("second"),
    Field.NANO: attrgetter("nano"),
    Field.MILLI_OF_DAY: attrgetter("time_ms"),
    Field.NANO_OF_DAY: lambda moment: moment.time_ms * 1_000_000,
}
