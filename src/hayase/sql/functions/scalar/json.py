"""Functions of JSON in texts; numbers keep all their digits."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from hayase.sql.errors import FunctionError
from hayase.sql.functions.java.json_path import MISSING, value_at
from hayase.sql.functions.java.utf16 import from_units
from hayase.sql.functions.registry import scalar
from hayase.sql.types.json_text import json_text
from hayase.sql.types.sql_types import SqlType

_MUST_ESCAPE = re.compile(r'["\\\x00-\x1f]')
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_EMPTY = object()
MAX_EXPONENT = 100_000


def _reject(constant: str) -> object:
    raise ValueError(f"{constant} is no JSON")


_DECODER = json.JSONDecoder(parse_float=Decimal, parse_constant=_reject)


def parse(text: str) -> Any:
    """The value of a JSON text; blank text is `_EMPTY`, as for Jackson."""
    if not text.strip(" \t\r\n"):
        return _EMPTY
    try:
        node = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise FunctionError("INVALID_JSON", f"Invalid JSON format: {error}") from None
    return _repaired(node) if "\\u" in text else node


def _repaired(node: Any) -> Any:
    """Surrogates without their other half, which only escapes can write, become question marks."""
    if isinstance(node, str):
        return from_units(node)
    if isinstance(node, list):
        return list(map(_repaired, node))
    if isinstance(node, dict):
        return {from_units(key): _repaired(value) for key, value in node.items()}
    return node


def _json_text(node: Any) -> str:
    """JSON without white space; decimals without exponent."""
    if isinstance(node, str):
        return _quoted(node)
    if isinstance(node, Decimal):
        if abs(node.adjusted()) > MAX_EXPONENT:
            raise FunctionError(
                "NUMBER_TOO_LONG", f"the number {node} of a JSON text has more than {MAX_EXPONENT} digits"
            )
        return format(node, "f")
    if isinstance(node, list):
        return "[" + ",".join(map(_json_text, node)) + "]"
    if isinstance(node, dict):
        return "{" + ",".join(f"{_quoted(key)}:{_json_text(value)}" for key, value in node.items()) + "}"
    return json.dumps(node)


def _quoted(text: str) -> str:
    return f'"{_MUST_ESCAPE.sub(_escape, text)}"'


def _escape(found: re.Match[str]) -> str:
    return _ESCAPES.get(found[0]) or f"\\u{ord(found[0]):04X}"


def _plain(node: Any) -> str:
    """A text as it is, anything else as JSON."""
    return node if isinstance(node, str) else _json_text(node)


@scalar("EXTRACTJSONFIELD", "(STRING, STRING) -> STRING", "What stands at a path such as $.a.b[0] in a JSON text.")
def extract_json_field(text: str, path: str) -> str | None:
    """EXTRACTJSONFIELD: texts without quotes; null if there is nothing."""
    node = parse(text)
    found = MISSING if node is _EMPTY else value_at(node, path)
    return None if found is MISSING else _plain(found)


@scalar("is_json_string", "(STRING) -> BOOLEAN", "Whether a text is JSON.", null_aware=True)
def is_json_string(text: str | None) -> bool:
    """IS_JSON_STRING: null is none."""
    if text is None:
        return False
    try:
        return parse(text) is not _EMPTY
    except FunctionError:
        return False


@scalar("json_array_contains", "(STRING, T) -> BOOLEAN", "Whether a JSON array has an element.", null_aware=True)
def json_array_contains(text: str | None, value: Any) -> bool:
    """JSON_ARRAY_CONTAINS: numbers, texts, booleans and null, of the array itself only."""
    if text is None:
        return False
    try:
        array = parse(text)
    except FunctionError:
        return False
    return isinstance(array, list) and any(_same(element, value) for element in array)


def _same(element: Any, value: Any) -> bool:
    if element is None or value is None:
        return element is value
    if isinstance(element, bool) or isinstance(value, bool):
        return element is value
    if isinstance(value, float):
        return isinstance(element, int | Decimal) and float(element) == value
    if isinstance(value, int | Decimal):
        return isinstance(element, int | Decimal) and element == value
    return isinstance(element, str) and element == value


@scalar("json_array_length", "(STRING) -> INT", "The number of elements of a JSON array; null if it is none.")
def json_array_length(text: str) -> int | None:
    """JSON_ARRAY_LENGTH."""
    node = parse(text)
    return len(node) if isinstance(node, list) else None


@scalar("json_concat", "(STRING...) -> STRING", "JSON objects as one, later fields win; or all elements as one array.")
def json_concat(*texts: str) -> str | None:
    """JSON_CONCAT: an object if all are objects, else an array of all elements; null if one is empty."""
    if not texts:
        return None
    nodes = list(map(parse, texts))
    if any(node is _EMPTY for node in nodes):
        return None
    if all(isinstance(node, dict) for node in nodes):
        merged: dict[str, Any] = {}
        for node in nodes:
            merged.update(node)
        return _json_text(merged)
    return _json_text([element for node in nodes for element in (node if isinstance(node, list) else [node])])


@scalar("json_items", "(STRING) -> ARRAY<STRING>", "The elements of a JSON array as JSON texts.")
def json_items(text: str) -> list[str] | None:
    """JSON_ITEMS: null if it is no array."""
    node = parse(text)
    return list(map(_json_text, node)) if isinstance(node, list) else None


@scalar("json_keys", "(STRING) -> ARRAY<STRING>", "The names of a JSON object's fields.")
def json_keys(text: str) -> list[str] | None:
    """JSON_KEYS: null if it is no object."""
    node = parse(text)
    return list(node) if isinstance(node, dict) else None


@scalar(
    "json_records", "(STRING) -> MAP<STRING, STRING>", "The fields of a JSON object: texts as they are, others as JSON."
)
def json_records(text: str) -> dict[str, str] | None:
    """JSON_RECORDS: null if it is no object."""
    node = parse(text)
    return {key: _plain(value) for key, value in node.items()} if isinstance(node, dict) else None


@scalar("to_json_string", "(ANY) -> STRING", "A value as JSON text; null is `null`.", null_aware=True, types=True)
def to_json_string(types: Sequence[SqlType | None], value: Any) -> str:
    """TO_JSON_STRING."""
    return json_text(value, types[0])
