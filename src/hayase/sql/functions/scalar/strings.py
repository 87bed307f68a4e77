"""Functions of texts: cases, padding, searching, joining, cutting."""

from __future__ import annotations

import re
from collections.abc import Mapping

import polars as pl

from hayase.sql.errors import FunctionError
from hayase.sql.functions.java import column_texts
from hayase.sql.functions.java.utf16 import from_units, in_units
from hayase.sql.functions.registry import scalar

MAX_PADDED_LENGTH = 1 << 26
_LEGACY_SUBSTRING = "ksql.functions.substring.legacy.args"
_WORD = re.compile(r"\S+")
_ESCAPED_UNITS = re.compile(r"(\\u+[0-9a-fA-F]{4})+")
_ESCAPED_UNIT = re.compile(r"\\u+([0-9a-fA-F]{4})")


@scalar("lcase", "(STRING) -> STRING", "The text in lower case.", columns=column_texts.lower)
def lcase(text: str) -> str:
    """LCASE."""
    return text.lower()


@scalar("ucase", "(STRING) -> STRING", "The text in upper case.", columns=column_texts.upper)
def ucase(text: str) -> str:
    """UCASE."""
    return text.upper()


@scalar("initcap", "(STRING) -> STRING", "The text with a capital at the start of each word and small letters else.")
def initcap(text: str) -> str:
    """INITCAP; white space separates words."""
    return _WORD.sub(lambda word: word[0][0].upper() + word[0][1:].lower(), text)


@scalar("trim", "(STRING) -> STRING", "The text without white space at both ends.", columns=column_texts.trimmed)
def trim(text: str) -> str:
    """TRIM: white space are all characters up to U+0020, and no others, as for Java."""
    return text.strip("".join(map(chr, range(0x21))))


@scalar("len", "(STRING) -> INT", "The length of the text.", columns=column_texts.length)
@in_units
def len_string(text: str) -> int:
    """LEN of a text."""
    return len(text)


def _byte_count(data: pl.Expr) -> pl.Expr:
    return data.bin.size().cast(pl.Int64)


@scalar("len", "(BYTES) -> INT", "The number of bytes.", columns=_byte_count)
def len_bytes(data: bytes) -> int:
    """LEN of bytes."""
    return len(data)


@scalar("chr", "(INT) -> STRING", "The character of a code point.")
def chr_of_code_point(code_point: int) -> str | None:
    """CHR of a number: null if there is no such code point."""
    return from_units(chr(code_point)) if 0 <= code_point <= 0x10FFFF else None


@scalar("chr", "(STRING) -> STRING", r"The character of a code such as \u004b, or of a pair of surrogates.")
def chr_of_escape(code: str) -> str | None:
    """CHR of a text: null if it is no escape of Java."""
    if not _ESCAPED_UNITS.fullmatch(code):
        return None
    return from_units("".join(chr(int(unit, 16)) for unit in _ESCAPED_UNIT.findall(code)))


def _concat_columns(*texts: pl.Expr) -> pl.Expr:
    return pl.concat_str(*texts, ignore_nulls=True) if texts else pl.lit("")


@scalar(
    "concat",
    "(STRING...) -> STRING",
    "The texts one behind the other; nulls do not count.",
    null_aware=True,
    columns=_concat_columns,
)
def concat(*texts: str | None) -> str:
    """CONCAT of texts."""
    return "".join(text for text in texts if text is not None)


@scalar("concat", "(BYTES...) -> BYTES", "The bytes one behind the other; nulls do not count.", null_aware=True)
def concat_bytes(*parts: bytes | None) -> bytes:
    """CONCAT of bytes."""
    return b"".join(part for part in parts if part is not None)


@scalar(
    "concat_ws", "(STRING, STRING...) -> STRING", "The texts with a separator between; nulls do not count.",
    null_aware=True, columns=column_texts.joined,
)  # fmt: skip
def concat_ws(separator: str | None, *texts: str | None) -> str | None:
    """CONCAT_WS of texts: null only if the separator is."""
    _needs_values(texts)
    return None if separator is None else separator.join(text for text in texts if text is not None)


@scalar(
    "concat_ws", "(BYTES, BYTES...) -> BYTES", "The bytes with a separator between; nulls do not count.",
    null_aware=True,
)  # fmt: skip
def concat_ws_bytes(separator: bytes | None, *parts: bytes | None) -> bytes | None:
    """CONCAT_WS of bytes."""
    _needs_values(parts)
    return None if separator is None else separator.join(part for part in parts if part is not None)


def _needs_values(values: tuple[object, ...]) -> None:
    if not values:
        raise FunctionError("TOO_FEW_ARGUMENTS", "CONCAT_WS expects at least two arguments: a separator and values")


@scalar("elt", "(INT, STRING...) -> STRING", "The argument at a position, from 1 on.", null_aware=True)
def elt(position: int | None, *texts: str | None) -> str | None:
    """ELT: null beyond the arguments."""
    return texts[position - 1] if position is not None and 1 <= position <= len(texts) else None


@scalar(
    "field", "(STRING, STRING...) -> INT", "The position of the first text among the others, from 1 on; 0 if none.",
    null_aware=True,
)  # fmt: skip
def field(text: str | None, *texts: str | None) -> int:
    """FIELD: null is found nowhere."""
    return texts.index(text) + 1 if text is not None and text in texts else 0


_INSTR = "The position of a text in another, from 1 on; 0 if none."
_INSTR_FROM = " The search starts at a position; at a negative one, counted from the end, it goes backwards."


@scalar("instr", "(STRING, STRING) -> INT", _INSTR, null_aware=True)
def instr(text: str | None, sought: str | None) -> int:
    """INSTR."""
    return instr_occurrence(text, sought, 1, 1)


@scalar("instr", "(STRING, STRING, INT) -> INT", _INSTR + _INSTR_FROM, null_aware=True)
def instr_from(text: str | None, sought: str | None, position: int | None) -> int:
    """INSTR from a position on."""
    return instr_occurrence(text, sought, position, 1)


@scalar("instr", "(STRING, STRING, INT, INT) -> INT", _INSTR + _INSTR_FROM + " Of an occurrence.", null_aware=True)
@in_units
def instr_occurrence(text: str | None, sought: str | None, position: int | None, occurrence: int | None) -> int:
    """INSTR of the n-th occurrence; occurrences may overlap."""
    if text is None or sought is None or not position or occurrence is None or occurrence < 1:
        return 0
    if position > 0:
        at = position - 2
        for _ in range(occurrence):
            at = text.find(sought, at + 1)
            if at < 0:
                return 0
        return at + 1
    at = len(text) + position + 1
    for _ in range(occurrence):
        if at < 1:
            return 0
        at = text.rfind(sought, 0, at - 1 + len(sought))
        if at < 0:
            return 0
    return at + 1


def _checked_length(name: str, length: int) -> None:
    if length > MAX_PADDED_LENGTH:
        raise FunctionError("TOO_LONG", f"{name} to length {length}: at most {MAX_PADDED_LENGTH} is possible")


_LPAD = "Pads on the left to a length with repetitions of a padding; what is longer is cut."
_RPAD = "Pads on the right to a length with repetitions of a padding; what is longer is cut."


@scalar("lpad", "(STRING, INT, STRING) -> STRING", _LPAD)
@in_units
def lpad(text: str, length: int, padding: str) -> str | None:
    """LPAD: null for a negative length or an empty padding."""
    if length < 0 or not padding:
        return None
    _checked_length("LPAD", length)
    missing = max(length - len(text), 0)
    return (padding * (missing // len(padding) + 1))[:missing] + text[:length]


@scalar("rpad", "(STRING, INT, STRING) -> STRING", _RPAD)
@in_units
def rpad(text: str, length: int, padding: str) -> str | None:
    """RPAD: null for a negative length or an empty padding."""
    if length < 0 or not padding:
        return None
    _checked_length("RPAD", length)
    missing = max(length - len(text), 0)
    return text[:length] + (padding * (missing // len(padding) + 1))[:missing]


@scalar("lpad", "(BYTES, INT, BYTES) -> BYTES", _LPAD)
def lpad_bytes(data: bytes, length: int, padding: bytes) -> bytes | None:
    """LPAD of bytes."""
    if length < 0 or not padding:
        return None
    _checked_length("LPAD", length)
    missing = max(length - len(data), 0)
    return (padding * (missing // len(padding) + 1))[:missing] + data[:length]


@scalar("rpad", "(BYTES, INT, BYTES) -> BYTES", _RPAD)
def rpad_bytes(data: bytes, length: int, padding: bytes) -> bytes | None:
    """RPAD of bytes."""
    if length < 0 or not padding:
        return None
    _checked_length("RPAD", length)
    missing = max(length - len(data), 0)
    return data[:length] + (padding * (missing // len(padding) + 1))[:missing]


@scalar(
    "replace",
    "(STRING, STRING, STRING) -> STRING",
    "The text with all occurrences of a text replaced.",
    columns=column_texts.replaced,
)
@in_units
def replace(text: str, old: str, new: str) -> str:
    """REPLACE."""
    return text.replace(old, new)


@scalar(
    "split",
    "(STRING, STRING) -> ARRAY<STRING>",
    "The parts between a delimiter; an empty one splits all.",
    columns=column_texts.split,
)
@in_units
def split(text: str, delimiter: str) -> list[str]:
    """SPLIT."""
    if delimiter:
        return text.split(delimiter)
    return list(text) or [""]


@scalar("split", "(BYTES, BYTES) -> ARRAY<BYTES>", "The parts between a delimiter; an empty one splits all.")
def split_bytes(data: bytes, delimiter: bytes) -> list[bytes]:
    """SPLIT of bytes."""
    if delimiter:
        return data.split(delimiter)
    return [data[at : at + 1] for at in range(len(data))] or [b""]


@scalar(
    "split_to_map", "(STRING, STRING, STRING) -> MAP<STRING, STRING>",
    "The entries of a text as a map, by a delimiter between entries and one between key and value.",
)  # fmt: skip
def split_to_map(text: str, between_entries: str, between_key_and_value: str) -> dict[str, str] | None:
    """SPLIT_TO_MAP: entries without value are left out, later ones win; null if a delimiter is empty."""
    if not between_entries or not between_key_and_value:
        return None
    parts = [entry.split(between_key_and_value) for entry in text.split(between_entries) if entry]
    return {part[0]: part[1] for part in parts if len(part) > 1}


_SUBSTRING = "The text from a position on, from 1; a negative one counts from the end."
_SUBSTRING_OF = "The text from a position on, with a length at most."


@scalar("substring", "(STRING, INT) -> STRING", _SUBSTRING, settings=True, columns=column_texts.substring)
@in_units
def substring(settings: Mapping[str, object], text: str, position: int) -> str:
    """SUBSTRING to the end."""
    if _is_legacy(settings):
        return text[_within(position, len(text)) :]
    return text[_start(position, len(text)) :]


@scalar("substring", "(STRING, INT, INT) -> STRING", _SUBSTRING_OF, settings=True, columns=column_texts.substring_of)
@in_units
def substring_of(settings: Mapping[str, object], text: str, position: int, length: int) -> str:
    """SUBSTRING of a length; with the legacy setting: from an index to an index, both from 0."""
    if _is_legacy(settings):
        end = _within(length, len(text))
        return text[_within(position, end) : end]
    start = _start(position, len(text))
    return text[start : max(start + length, start)]


@scalar("substring", "(BYTES, INT) -> BYTES", _SUBSTRING)
def substring_bytes(data: bytes, position: int) -> bytes:
    """SUBSTRING of bytes."""
    return data[_start(position, len(data)) :]


@scalar("substring", "(BYTES, INT, INT) -> BYTES", _SUBSTRING_OF)
def substring_bytes_of(data: bytes, position: int, length: int) -> bytes:
    """SUBSTRING of bytes with a length."""
    start = _start(position, len(data))
    return data[start : max(start + length, start)]


def _start(position: int, length: int) -> int:
    return max(length + position, 0) if position < 0 else max(min(position - 1, length), 0)


def _is_legacy(settings: Mapping[str, object]) -> bool:
    return str(settings.get(_LEGACY_SUBSTRING, False)).lower() == "true"


def _within(index: int, length: int) -> int:
    if not 0 <= index <= length:
        raise FunctionError("INDEX_OUT_OF_RANGE", f"index {index} is out of range; it can be 0 to {length}")
    return index
