"""SQL values as what a JSON encoder writes the way Java does."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import msgspec
import polars as pl

from hayase.sql.types import sql_types as sql
from hayase.sql.types.java_numbers import decimal_text, double_text, is_plain

Writer = Callable[[Any], Any]
"""Makes of a SQL value, which is not None, what ENCODER writes."""

ENCODER = msgspec.json.Encoder()


def writer(type_: sql.SqlType, *, entries: bool = False) -> Writer | None:
    """What writes values of a type; `None` if the encoder takes them as they are.

    Args:
        type_: of the values.
        entries: maps become arrays of objects with `key` and `value`, not objects.
    """
    match type_:
        case sql.ArrayType(item):
            write = writer(item, entries=entries)
            return None if write is None else partial(_array, write)
        case sql.MapType(_, value):
            write = writer(value, entries=entries)
            if entries:
                return partial(_entries, write)
            return partial(_map, write)
        case sql.StructType(fields):
            return record_writer(fields, entries=entries)
        case _:
            return _SCALARS.get(type(type_))


def record_writer(fields: tuple[tuple[str, sql.SqlType], ...], *, entries: bool = False) -> Writer:
    """What writes an object with these fields, in this order, null ones included."""
    return partial(_record, [(name, writer(type_, entries=entries)) for name, type_ in fields])


def _record(writers: list[tuple[str, Writer | None]], value: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, write in writers:
        item = value[name]
        fields[name] = item if write is None or item is None else write(item)
    return fields


def _array(write: Writer, value: list[Any]) -> list[Any]:
    return [None if item is None else write(item) for item in value]


def _map(write: Writer | None, value: dict[Any, Any]) -> dict[Any, Any]:
    if write is not None:
        value = {key: None if item is None else write(item) for key, item in value.items()}
    if None in value:  # JSON's names are texts
        return {"null" if key is None else key: item for key, item in value.items()}
    return value


def _entries(write: Writer | None, value: dict[Any, Any]) -> list[Any]:
    return [
        {"key": key, "value": item if write is None or item is None else write(item)} for key, item in value.items()
    ]


def _double(value: float) -> Any:
    if is_plain(value):
        return float(value)
    text = double_text(value)
    return msgspec.Raw(text.encode()) if math.isfinite(value) else text


def has_plain_doubles(column: pl.Series) -> bool:
    """Whether Python's text of each number of a column is Java's."""
    size = column.abs()
    return bool(((size == 0) | ((size >= 1e-3) & (size < 1e7))).all())


def _decimal(value: Decimal) -> msgspec.Raw:
    return msgspec.Raw(decimal_text(value).encode())


def _bytes(value: bytes) -> str:
    return base64.b64encode(value).decode()


_SCALARS: dict[type[sql.SqlType], Writer] = {
    sql.DoubleType: _double,
    sql.DecimalType: _decimal,
    sql.BytesType: _bytes,
}
