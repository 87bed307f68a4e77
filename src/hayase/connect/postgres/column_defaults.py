"""Defaults of columns as Debezium puts them into schemas: constants, and a stand-in for what a function makes."""

from __future__ import annotations

import re
from collections.abc import Mapping

_LITERAL = re.compile(r"'([^']*(?:''[^']*)*)'")
_CALL = re.compile(r"[(]?[A-Za-z0-9_.]+\(.*\)")
_TIMES = frozenset({"current_timestamp", "current_time", "current_date", "localtime", "localtimestamp"})
_MADE: Mapping[str, str] = {
    **dict.fromkeys(("bpchar", "varchar", "text", "xml"), ""),
    **dict.fromkeys(("int2", "int4", "int8", "varbit"), "0"),
    **dict.fromkeys(("numeric", "float4", "float8"), "0.0"),
    **dict.fromkeys(("json", "jsonb"), "{}"),
    "bool": "f",
    "bit": "00",
    "uuid": "00000000-0000-0000-0000-000000000000",
    "date": "1970-01-01",
    "time": "00:00:00",
    "timestamp": "1970-01-01 00:00:00",
    "timestamptz": "1970-01-01 00:00:00+00",
    "interval": "00:00:00",
}
"""What stands in a schema for a default that a function makes; types that are not here have no defaults in schemas."""


def default_text(type_name: str, expression: str, *, is_enum: bool = False) -> str | None:
    """The default of a column in the server's own writing; `None`: its schema has none.

    Args:
        type_name: of the column.
        expression: its default, as the catalog has it.
        is_enum: whether its type is an enum, of which a constant is the default.

    Example:
        >>> default_text("text", "'it''s'::text"), default_text("int4", "nextval('ids'::regclass)")
        ("it's", '0')
    """
    made = _MADE.get(type_name)
    if made is None and not is_enum:
        return None
    expression = expression.strip()
    if made is not None and (_CALL.match(expression) or expression.lower() in _TIMES):
        return made
    literal = _LITERAL.search(expression)
    if literal is not None:
        text = literal[1].replace("''", "'")
    elif is_enum or expression.startswith("NULL::"):
        return None
    else:
        text = expression
    return {"true": "t", "false": "f"}.get(text, text) if type_name == "bool" else text
