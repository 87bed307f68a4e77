"""Patterns of java.time.format.DateTimeFormatter, as lists of elements."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache

from hayase.sql.errors import FunctionError


class Field(Enum):
    """What a number or a text in a date or time stands for."""

    ERA = "era"
    YEAR = "year"
    YEAR_OF_ERA = "year of era"
    MONTH = "month"
    QUARTER = "quarter"
    DAY = "day"
    DAY_OF_YEAR = "day of year"
    DAY_OF_WEEK = "day of week"
    LOCAL_DAY_OF_WEEK = "day of week from Sunday"
    WEEK_BASED_YEAR = "week-based year"
    WEEK_OF_YEAR = "week of year"
    WEEK_OF_MONTH = "week of month"
    ALIGNED_DAY_OF_WEEK = "day of the weeks that start with the month"
    AMPM = "AM or PM"
    HOUR = "hour"
    CLOCK_HOUR = "hour from 1 to 24"
    HOUR_OF_AMPM = "hour from 0 to 11"
    CLOCK_HOUR_OF_AMPM = "hour from 1 to 12"
    MINUTE = "minute"
    SECOND = "second"
    NANO = "nanosecond"
    MILLI_OF_DAY = "millisecond of the day"
    NANO_OF_DAY = "nanosecond of the day"


class Sign(Enum):
    """When a number has a sign."""

    NORMAL = "a minus where it is negative"
    NEVER = "none"
    EXCEEDS_PAD = "also a plus where it is longer than its width"


class Style(Enum):
    """Lengths of names."""

    SHORT = "short"
    FULL = "full"
    NARROW = "narrow"


class Element:
    """Base of the parts of a pattern."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Literal(Element):
    """Text as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Number(Element):
    """A number; `reserved` digits at its end belong to the numbers that follow without anything between."""

    field: Field
    min_width: int
    max_width: int
    sign: Sign = Sign.NORMAL
    reserved: int = 0

    @property
    def is_fixed(self) -> bool:
        """Whether its width never varies."""
        return self.min_width == self.max_width and self.sign is Sign.NEVER


@dataclass(frozen=True, slots=True)
class TwoDigitYear(Element):
    """The last two digits of a year from 2000 on."""

    field: Field


@dataclass(frozen=True, slots=True)
class Fraction(Element):
    """Digits behind the second."""

    width: int


@dataclass(frozen=True, slots=True)
class Name(Element):
    """A field as text."""

    field: Field
    style: Style


@dataclass(frozen=True, slots=True)
class Offset(Element):
    """An offset; small letters of the pattern are left out where they are zero."""

    pattern: str
    zero: str


@dataclass(frozen=True, slots=True)
class LocalizedOffset(Element):
    """GMT+8."""

    full: bool


@dataclass(frozen=True, slots=True)
class ZoneId(Element):
    """The ID of the zone."""


@dataclass(frozen=True, slots=True)
class ZoneName(Element):
    """The name of the zone."""

    long: bool


@dataclass(frozen=True, slots=True)
class Optional(Element):
    """A part that may be missing."""

    elements: tuple[Element, ...]


@dataclass(frozen=True, slots=True)
class Padded(Element):
    """An element with spaces before it."""

    element: Element
    width: int


_LETTERS = "GuyDMLQqYwWdEecFaHhKkmsSAnNVvzOXxZ"
_NAMES = {1: Style.SHORT, 2: Style.SHORT, 3: Style.SHORT, 4: Style.FULL, 5: Style.NARROW}
_TWO_DIGITS = {
    "d": Field.DAY, "H": Field.HOUR, "h": Field.CLOCK_HOUR_OF_AMPM, "K": Field.HOUR_OF_AMPM, "k": Field.CLOCK_HOUR,
    "m": Field.MINUTE, "s": Field.SECOND,
}  # fmt: skip
_YEARS = {"u": Field.YEAR, "y": Field.YEAR_OF_ERA, "Y": Field.WEEK_BASED_YEAR}
_WIDE = {"A": Field.MILLI_OF_DAY, "n": Field.NANO, "N": Field.NANO_OF_DAY}
_OFFSETS = {1: "+HHmm", 2: "+HHMM", 3: "+HH:MM", 4: "+HHMMss", 5: "+HH:MM:ss"}
_ZERO_OFFSETS = {1: "+00", 2: "+0000", 3: "+00:00", 4: "+0000", 5: "+00:00"}


@lru_cache(maxsize=512)
def elements_of(pattern: str) -> tuple[Element, ...]:
    """The elements of a pattern; a `FunctionError` if it is none."""
    reader = _Reader(pattern)
    elements = reader.elements(nested=False)
    return _with_reserved(elements)


class _Reader:
    """Reads a pattern once."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.position = 0

    def elements(self, nested: bool) -> list[Element]:
        """Up to the end, or to the bracket that closes an optional part."""
        found: list[Element] = []
        while self.position < len(self.pattern):
            character = self.pattern[self.position]
            if character.isascii() and character.isalpha():
                found.append(self.letters())
                continue
            self.position += 1
            if character == "'":
                found.append(Literal(self.quoted()))
            elif character == "[":
                found.append(Optional(_with_reserved(self.elements(nested=True))))
            elif character == "]":
                if not nested:
                    raise self.bad("] without [")
                return found
            elif character in "{}#":
                raise self.bad(f"{character} is reserved")
            else:
                found.append(Literal(character))
        return found

    def run(self) -> tuple[str, int]:
        """A letter and how often it is repeated."""
        letter = self.pattern[self.position]
        start = self.position
        while self.position < len(self.pattern) and self.pattern[self.position] == letter:
            self.position += 1
        return letter, self.position - start

    def letters(self) -> Element:
        """The element of a run of one letter."""
        letter, count = self.run()
        if letter != "p":
            return self.element(letter, count)
        if self.position >= len(self.pattern) or not self.pattern[self.position].isalpha():
            raise self.bad("p must be followed by a letter")
        return Padded(self.element(*self.run()), count)

    def element(self, letter: str, count: int) -> Element:
        """The element that a letter means, given how often it stands there."""
        element = _date(letter, count) or _time(letter, count) or _zone(letter, count)
        if element is None:
            problem = f"too many letters {letter}" if letter in _LETTERS else f"unknown letter {letter}"
            raise self.bad(problem)
        return element

    def quoted(self) -> str:
        """Text between quotes; two quotes are one."""
        text: list[str] = []
        while self.position < len(self.pattern):
            character = self.pattern[self.position]
            self.position += 1
            if character != "'":
                text.append(character)
            elif self.pattern.startswith("'", self.position):
                text.append("'")
                self.position += 1
            else:
                return "".join(text) or "'"
        raise self.bad("a quote is not closed")

    def bad(self, problem: str) -> FunctionError:
        """The error of a pattern that is none."""
        return FunctionError("BAD_TIME_PATTERN", f"date and time pattern {self.pattern!r:.200}: {problem}")


def _date(letter: str, count: int) -> Element | None:
    if letter in _YEARS:
        field = _YEARS[letter]
        if count == 2:
            return TwoDigitYear(field)
        return Number(field, count, 19, Sign.NORMAL if count < 4 else Sign.EXCEEDS_PAD) if count <= 19 else None
    match letter:
        case "G":
            return Name(Field.ERA, _NAMES[count]) if count <= 5 else None
        case "M" | "L":
            return _number_or_name(Field.MONTH, count)
        case "Q" | "q":
            return _number_or_name(Field.QUARTER, count)
        case "E":
            return Name(Field.DAY_OF_WEEK, _NAMES[count]) if count <= 5 else None
        case "e" | "c":
            if count <= 2:
                return Number(Field.LOCAL_DAY_OF_WEEK, count, 2, Sign.NEVER) if letter == "e" or count == 1 else None
            return Name(Field.DAY_OF_WEEK, _NAMES[count]) if count <= 5 else None
        case "D":
            return Number(Field.DAY_OF_YEAR, count, 3, Sign.NEVER) if count <= 3 else None
        case "w":
            return Number(Field.WEEK_OF_YEAR, count, 2, Sign.NEVER) if count <= 2 else None
        case "W":
            return Number(Field.WEEK_OF_MONTH, 1, 1, Sign.NEVER) if count == 1 else None
        case "F":
            return Number(Field.ALIGNED_DAY_OF_WEEK, 1, 1, Sign.NEVER) if count == 1 else None
    return None


def _number_or_name(field: Field, count: int) -> Element | None:
    if count <= 2:
        return _small_number(field, count)
    return Name(field, _NAMES[count]) if count <= 5 else None


def _small_number(field: Field, count: int) -> Element:
    return Number(field, 1, 19) if count == 1 else Number(field, 2, 2, Sign.NEVER)


def _time(letter: str, count: int) -> Element | None:
    if letter in _TWO_DIGITS:
        return _small_number(_TWO_DIGITS[letter], count) if count <= 2 else None
    if letter == "a":
        return Name(Field.AMPM, Style.SHORT) if count == 1 else None
    if letter == "S":
        return Fraction(count) if count <= 9 else None
    if letter in _WIDE:
        return Number(_WIDE[letter], count, 19, Sign.NEVER) if count <= 19 else None
    return None


def _zone(letter: str, count: int) -> Element | None:
    match letter:
        case "V":
            return ZoneId() if count == 2 else None
        case "v":
            return ZoneName(count == 4) if count in (1, 4) else None
        case "z":
            return ZoneName(count == 4) if count <= 4 else None
        case "O":
            return LocalizedOffset(count == 4) if count in (1, 4) else None
        case "X":
            return Offset(_OFFSETS[count], "Z") if count <= 5 else None
        case "x":
            return Offset(_OFFSETS[count], _ZERO_OFFSETS[count]) if count <= 5 else None
        case "Z":
            if count == 4:
                return LocalizedOffset(True)
            return Offset("+HHMM", "+0000") if count <= 3 else Offset("+HH:MM:ss", "Z") if count == 5 else None
    return None


def _with_reserved(elements: list[Element]) -> tuple[Element, ...]:
    """The elements, where a number leaves room for numbers of fixed width right behind it."""
    result: list[Element] = []
    active: int | None = None
    for element in elements:
        if not isinstance(element, Number | TwoDigitYear):
            active = None
        elif active is not None and (isinstance(element, TwoDigitYear) or element.is_fixed):
            base = result[active]
            assert isinstance(base, Number)
            width = 2 if isinstance(element, TwoDigitYear) else element.max_width
            result[active] = replace(base, reserved=base.reserved + width)
        else:
            active = len(result) if isinstance(element, Number) else None
        result.append(element)
    return tuple(result)
