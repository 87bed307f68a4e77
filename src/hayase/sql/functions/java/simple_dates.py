"""Texts read as java.text.SimpleDateFormat does, leniently: PARSE_DATE.

Numbers have any number of digits, unless another number follows without anything between. Values beyond their range
roll over, names are taken in any length and case, and what follows the last part of the pattern does not count.
"""

from __future__ import annotations

import re
import time
from functools import lru_cache

from hayase.sql.errors import FunctionError
from hayase.sql.functions.java.calendar import to_days
from hayase.sql.functions.java.time_names import NAMES
from hayase.sql.functions.java.time_patterns import Field, Style
from hayase.sql.functions.java.time_resolving import DAY_MS
from hayase.sql.functions.java.zones import ABBREVIATIONS, zone_of

_PART = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")
_LETTERS = "GyYMLwWDdFEuaHkKhmsSzZX"
_NUMBER = re.compile(r"-?\d+", re.ASCII)
_ZONE = re.compile(r"(GMT|UTC)?([+-])(\d\d?):?(\d\d)?|[A-Za-z]+(?:/[A-Za-z_]+)*")
_YEARS_BEFORE_NOW = 80


def parse_date_leniently(text: str, pattern: str) -> int:
    """A text as days since 1970-01-01; a time of day other than midnight UTC is an error."""
    milliseconds = parse_leniently(text, pattern)
    if milliseconds % DAY_MS:
        raise FunctionError("NOT_A_DATE", f"text {text!r:.100} has a time of day; use PARSE_TIMESTAMP for it")
    return milliseconds // DAY_MS


def parse_leniently(text: str, pattern: str) -> int:
    """A text as milliseconds since 1970-01-01, UTC where it names no zone."""
    fields: dict[str, int] = {}
    position = 0
    parts = pattern_parts(pattern)
    for index, (literal, letter, count) in enumerate(parts):
        if letter:
            digits = count if index + 1 < len(parts) and _is_number(*parts[index + 1][1:]) else None
            position = _field(text, position, letter, count, digits, fields)
        elif text.startswith(literal, position):
            position += len(literal)
        else:
            raise _mismatch(text, position)
    return _days(fields) * DAY_MS + _milliseconds(fields)


@lru_cache(maxsize=512)
def pattern_parts(pattern: str) -> tuple[tuple[str, str, int], ...]:
    """Literals, and letters with how often they stand there."""
    parts: list[tuple[str, str, int]] = []
    position = 0
    while position < len(pattern):
        found = _PART.match(pattern, position)
        if found is None:
            raise FunctionError("BAD_TIME_PATTERN", f"date pattern {pattern!r:.200}: a quote is not closed")
        position = found.end()
        if found[2] is None:
            literal = found[0] if found[1] is None else found[1].replace("''", "'") or "'"
            parts.append((literal, "", 0))
        elif found[2] in _LETTERS:
            parts.append(("", found[2], len(found[0])))
        else:
            raise FunctionError("BAD_TIME_PATTERN", f"date pattern {pattern!r:.200}: unknown letter {found[2]}")
    return tuple(parts)


def _is_number(letter: str, count: int) -> bool:
    return bool(letter) and letter not in "GEazZX" and not (letter in "ML" and count > 2)


def _mismatch(text: str, position: int) -> FunctionError:
    return FunctionError("TEXT_NOT_PARSED", f"Unparseable date: {text!r:.100} at position {position + 1}")


def _field(text: str, position: int, letter: str, count: int, digits: int | None, fields: dict[str, int]) -> int:
    while text[position : position + 1] in (" ", "\t"):
        position += 1
    if letter in "zZX":
        return _zone(text, position, fields)
    if not _is_number(letter, count):
        return _name(text, position, letter, fields)
    found = _NUMBER.match(text, position, len(text) if digits is None else position + digits)
    if found is None or (found[0].startswith("-") and digits is not None):
        raise _mismatch(text, position)
    value = int(found[0])
    if letter in "yY" and count <= 2 and len(found[0]) == 2 and value >= 0:
        value = _year_near_now(value)
    fields["M" if letter == "L" else letter] = value
    return found.end()


def _year_near_now(two_digits: int) -> int:
    """The year with these digits that is within 80 years before and 20 after now."""
    first = time.gmtime().tm_year - _YEARS_BEFORE_NOW
    return first + (two_digits - first) % 100


_NAMED = {"M": Field.MONTH, "L": Field.MONTH, "E": Field.DAY_OF_WEEK, "G": Field.ERA, "a": Field.AMPM}


def _name(text: str, position: int, letter: str, fields: dict[str, int]) -> int:
    names = [
        (name.lower(), value)
        for style in (Style.FULL, Style.SHORT)
        for value, name in NAMES.get((_NAMED[letter], style), {}).items()
    ]
    lowered = text.lower()
    for name, value in sorted(names, key=lambda entry: -len(entry[0])):
        if lowered.startswith(name, position):
            fields["M" if letter == "L" else letter] = value
            return position + len(name)
    raise _mismatch(text, position)


def _zone(text: str, position: int, fields: dict[str, int]) -> int:
    found = _ZONE.match(text, position)
    if found is None:
        raise _mismatch(text, position)
    if found[2] is not None:
        offset = int(found[3]) * 3600 + int(found[4] or 0) * 60
        fields["offset"] = -offset if found[2] == "-" else offset
        return found.end()
    try:
        fields["offset"] = zone_of(ABBREVIATIONS.get(found[0].upper(), found[0])).offset_of_local(0)
    except FunctionError:
        raise _mismatch(text, position) from None
    return found.end()


def _days(fields: dict[str, int]) -> int:
    year = fields.get("y", fields.get("Y", 1970))
    if fields.get("G") == 0:
        year = 1 - year
    if "D" in fields and "M" not in fields:
        return to_days(year, 1, 1) + fields["D"] - 1
    years, month = divmod(fields.get("M", 1) - 1, 12)
    return to_days(year + years, month + 1, 1) + fields.get("d", 1) - 1


def _milliseconds(fields: dict[str, int]) -> int:
    hour = fields.get("H", fields.get("k", 0) % 24)
    if "h" in fields or "K" in fields:
        hour = fields.get("K", fields.get("h", 0) % 12) + 12 * fields.get("a", 0)
    seconds = hour * 3600 + fields.get("m", 0) * 60 + fields.get("s", 0) - fields.get("offset", 0)
    return seconds * 1000 + fields.get("S", 0)
