"""Texts of dates and times read by a pattern: which fields they have."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from hayase.sql.errors import FunctionError
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
from hayase.sql.functions.java.zones import ABBREVIATIONS, Zone, zone_of

_DIGITS = re.compile(r"\d+", re.ASCII)
_ZONE = re.compile(r"[+-]\d\d?(?::?\d\d(?::?\d\d)?)?|[A-Za-z][A-Za-z0-9~/._+-]*")
_LOCALIZED = re.compile(r"GMT(?:([+-])(\d\d?)(?::(\d\d)(?::(\d\d))?)?)?", re.IGNORECASE)
_BASE_YEAR = 2000


@dataclass(slots=True)
class Parsed:
    """The fields of a text, and its zone or offset."""

    fields: dict[Field, int] = field(default_factory=dict)
    zone: Zone | None = None
    offset_s: int | None = None

    def put(self, name: Field, value: int) -> bool:
        """Notes a field; false if the text has it twice with different values."""
        return self.fields.setdefault(name, value) == value

    def copy(self) -> Parsed:
        """A copy that can be given up."""
        return Parsed(dict(self.fields), self.zone, self.offset_s)


class _MismatchError(Exception):
    """The text does not have what the pattern asks for; its argument is the position."""


def parse_fields(text: str, pattern: str) -> Parsed:
    """The fields of a text; names in any case.

    Most patterns are one regular expression. Where it does not match, or where a pattern has more, the elements are
    read one by one, as Java does, and say where the text differs.
    """
    if (reader := _reader(pattern)) is not None and (found := reader.fullmatch(text)) is not None:
        return Parsed({_FIELDS[name]: int(digits) for name, digits in found.groupdict().items()})
    parsed = Parsed()
    try:
        end = _parse_all(elements_of(pattern), text, 0, parsed)
        if end < len(text):
            raise _MismatchError(end)
    except _MismatchError as mismatch:
        position = int(mismatch.args[0]) + 1
        raise FunctionError(
            "TEXT_NOT_PARSED", f"text {text!r:.100} does not follow pattern {pattern!r:.200} at position {position}"
        ) from None
    return parsed


_FIELDS = {field.name: field for field in Field}


@lru_cache(maxsize=512)
def _reader(pattern: str) -> re.Pattern[str] | None:
    """The expression of a pattern of numbers and literals, each number of another field; `None` for any other."""
    parts: list[str] = []
    for element in elements_of(pattern):
        match element:
            case Literal(literal) if literal.isascii():
                parts.append(re.escape(literal))
            case Number(name, least, most, sign, reserved) if not reserved:
                parts.append(f"(?P<{name.name}>\\d{{{least},{least if sign is Sign.EXCEEDS_PAD else most}}})")
            case _:
                return None
    try:
        return re.compile("".join(parts), re.ASCII | re.IGNORECASE)
    except re.error:  # a field occurs twice
        return None


def _parse_all(elements: tuple[Element, ...], text: str, position: int, parsed: Parsed) -> int:
    for element in elements:
        position = _parse(element, text, position, parsed)
    return position


def _parse(element: Element, text: str, position: int, parsed: Parsed) -> int:
    match element:
        case Literal(literal):
            if text[position : position + len(literal)].lower() != literal.lower():
                raise _MismatchError(position)
            return position + len(literal)
        case Number():
            return _parse_number(element, text, position, parsed)
        case TwoDigitYear(name):
            return _parse_two_digits(name, text, position, parsed)
        case Fraction(width):
            digits = _digits(text, position, width, width)
            _put(parsed, Field.NANO, int(digits.ljust(9, "0")), position)
            return position + width
        case Name(name, style):
            return _parse_name(name, NAMES[name, style], text, position, parsed)
        case Optional(inner):
            attempt = parsed.copy()
            try:
                end = _parse_all(inner, text, position, attempt)
            except _MismatchError:
                return position
            parsed.fields, parsed.zone, parsed.offset_s = attempt.fields, attempt.zone, attempt.offset_s
            return end
        case Padded(inner_element, width):
            end = position + width
            if end > len(text):
                raise _MismatchError(position)
            start = position + len(text[position:end]) - len(text[position:end].lstrip(" "))
            if _parse(inner_element, text[:end], start, parsed) != end:
                raise _MismatchError(position)
            return end
    return _parse_zone(element, text, position, parsed)


def _put(parsed: Parsed, name: Field, value: int, position: int) -> None:
    if not parsed.put(name, value):
        raise _MismatchError(position)


def _digits(text: str, position: int, least: int, most: int) -> str:
    found = _DIGITS.match(text, position, min(position + most, len(text)))
    if found is None or len(found[0]) < least:
        raise _MismatchError(position)
    return found[0]


def _parse_number(element: Number, text: str, position: int, parsed: Parsed) -> int:
    start = position
    sign = text[position : position + 1]
    negative = sign == "-" and element.sign is not Sign.NEVER
    positive = sign == "+" and element.sign is Sign.EXCEEDS_PAD
    position += negative or positive
    digits = _digits(text, position, element.min_width, element.max_width + element.reserved)
    if element.reserved:
        digits = digits[: max(element.min_width, len(digits) - element.reserved)]
    longer = len(digits) > element.min_width
    if element.sign is Sign.EXCEEDS_PAD and not negative and longer != positive:
        raise _MismatchError(start)
    value = int(digits)
    if negative and value == 0:
        raise _MismatchError(start)
    _put(parsed, element.field, -value if negative else value, start)
    return position + len(digits)


def _parse_two_digits(name: Field, text: str, position: int, parsed: Parsed) -> int:
    digits = _digits(text, position, 2, 2)
    _put(parsed, name, _BASE_YEAR + int(digits), position)
    return position + 2


def _parse_name(name: Field, names: dict[int, str], text: str, position: int, parsed: Parsed) -> int:
    lowered = text.lower()
    for value, candidate in sorted(names.items(), key=lambda item: -len(item[1])):
        if lowered.startswith(candidate.lower(), position):
            _put(parsed, name, value, position)
            return position + len(candidate)
    raise _MismatchError(position)


def _parse_zone(element: Element, text: str, position: int, parsed: Parsed) -> int:
    match element:
        case Offset(pattern, zero):
            return _parse_offset(pattern, zero, text, position, parsed)
        case LocalizedOffset():
            found = _LOCALIZED.match(text, position)
            if found is None:
                raise _MismatchError(position)
            seconds = int(found[2] or 0) * 3600 + int(found[3] or 0) * 60 + int(found[4] or 0)
            parsed.offset_s = -seconds if found[1] == "-" else seconds
            return found.end()
        case ZoneId() | ZoneName():
            return _parse_zone_id(text, position, parsed, isinstance(element, ZoneName))
    raise AssertionError(f"{element} is parsed elsewhere")


def _parse_offset(pattern: str, zero: str, text: str, position: int, parsed: Parsed) -> int:
    colon = ":" if ":" in pattern else ""
    minutes = f"{colon}([0-5]\\d)"
    seconds = f"(?:{minutes})?" if "ss" in pattern else ""
    tail = f"(?:{minutes}{seconds})?" if "mm" in pattern else f"{minutes}{seconds}"
    found = re.compile(rf"([+-])(\d\d){tail}", re.ASCII).match(text, position)
    if found is not None and int(found[2]) <= 18:
        groups = [int(group or 0) for group in found.groups()[1:]] + [0]
        total = groups[0] * 3600 + groups[1] * 60 + groups[2]
        parsed.offset_s = -total if found[1] == "-" else total
        return found.end()
    if text[position : position + len(zero)].lower() == zero.lower():
        parsed.offset_s = 0
        return position + len(zero)
    raise _MismatchError(position)


def _parse_zone_id(text: str, position: int, parsed: Parsed, names: bool) -> int:
    """The longest text from a position on that is a zone."""
    found = _ZONE.match(text, position)
    candidate = found[0] if found is not None else ""
    while candidate:
        known = ABBREVIATIONS.get(candidate.upper(), candidate) if names else candidate
        try:
            parsed.zone = zone_of(known)
        except FunctionError:
            candidate = candidate[:-1]
            continue
        return position + len(candidate)
    raise _MismatchError(position)
