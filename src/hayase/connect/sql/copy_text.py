"""Columns as the texts that COPY of PostgreSQL reads."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from types import NoneType
from typing import Any
from uuid import UUID

from hayase.connect.columns import Column
from hayase.connect.schema import ConnectSchema
from hayase.connect.sql.postgres_types import plain, storable

_NULL = "\\N"
_ESCAPED = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_TEXTS: Mapping[type, Callable[[Any], str]] = {
    int: str,
    bool: lambda value: "t" if value else "f",
    float: repr,
    bytes: lambda value: f"\\\\x{value.hex()}",
    **dict.fromkeys((Decimal, dt.date, dt.datetime, dt.time, UUID), str),
}


def copy_texts(column: Column, schema: ConnectSchema | None) -> list[str] | None:
    r"""Each value as COPY reads it; `None`: a value of another kind is among them, which the driver knows to write.

    Example:
        >>> copy_texts([1, None], None), copy_texts(["a\tb"], None), copy_texts([[1, 2]], None)
        (['1', '\\N'], ['a\\tb'], ['[1, 2]'])
    """
    convert, kinds = storable(schema), _kinds(column)
    if convert is not plain or not kinds <= _TEXTS.keys() | {str}:
        column = [None if value is None else convert(value) for value in column]
        kinds = _kinds(column)
    if len(kinds) > 1 or not kinds <= _TEXTS.keys() | {str}:
        return None
    if kinds == {str}:
        return _of_texts(column)
    write = _TEXTS[kinds.pop()] if kinds else str
    if None in column:
        return [_NULL if value is None else write(value) for value in column]
    return list(map(write, column))


def _kinds(column: Column) -> set[type]:
    return set(map(type, column)) - {NoneType}


def _of_texts(column: Column) -> list[str]:
    present: list[str] = [value for value in column if value is not None]  # type: ignore[misc]  # they are texts
    joined = "".join(present)
    if not any(special in joined for special in "\t\n\r\\"):
        return present if len(present) == len(column) else [_NULL if value is None else str(value) for value in column]
    return [_NULL if value is None else str(value).translate(_ESCAPED) for value in column]


def copy_lines(texts: Sequence[Sequence[str]]) -> bytes:
    """Rows of columns, as COPY reads them."""
    return ("\n".join(map("\t".join, zip(*texts, strict=True))) + "\n").encode()
