"""JSON values as SQL values, by the types of the columns that they are for.

A field is found by exactly its name, else by the upper-cased one. Numbers may be text and anything may be read as text;
all else has to be of the type.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import Any

import msgspec

from hayase.sql.types import sql_types as sql
from hayase.sql.types.java_numbers import decimal_number, fitted, floating_number, whole_number, wrapped

Reader = Callable[[Any], Any]
"""Makes the SQL value of what a JSON decoder made, which is not None; raises ValueError."""

DECODER: msgspec.json.Decoder[Any] = msgspec.json.Decoder(float_hook=Decimal)
"""Numbers as they are written: int, or Decimal with all digits."""
_ENCODER = msgspec.json.Encoder(decimal_format="number")
_ABSENT = object()
_ENTRY = {"key", "value"}


def reader(type_: sql.SqlType, *, entries: bool = False) -> Reader:
    """What reads values of a type.

    Args:
        type_: of the values.
        entries: maps may also be arrays of objects with `key` and `value`.
    """
    match type_:
        case sql.ArrayType(item):
            return partial(_array, reader(item, entries=entries))
        case sql.MapType(_, value):
            return partial(_entries if entries else _map, reader(value, entries=entries))
        case sql.StructType(fields):
            return record_reader(fields, entries=entries)
        case sql.DecimalType(precision, scale):
            return partial(_decimal, precision, scale)
        case _:
            return _SCALARS[type(type_)]


def record_reader(fields: tuple[tuple[str, sql.SqlType], ...], *, entries: bool = False) -> Reader:
    """What reads an object with these fields."""
    readers = [(name, reader(type_, entries=entries)) for name, type_ in fields]
    return partial(_record, readers)


def _record(readers: list[tuple[str, Reader]], value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise ValueError(f"{_named(value)} is not an object")
    row: dict[str, Any] = {}
    upper_cased: Mapping[str, Any] | None = None
    for name, read in readers:
        item = value.get(name, _ABSENT)
        if item is _ABSENT:
            if upper_cased is None:
                upper_cased = {key.upper(): each for key, each in value.items()}
            item = upper_cased.get(name)
        if item is None:
            row[name] = None
            continue
        try:
            row[name] = read(item)
        except ValueError as error:
            raise ValueError(f"field {name}: {error}") from error
    return row


def _array(read: Reader, value: Any) -> list[Any]:
    if type(value) is not list:
        raise ValueError(f"{_named(value)} is not an array")
    return [None if item is None else read(item) for item in value]


def _map(read: Reader, value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise ValueError(f"{_named(value)} is not an object")
    return {key: None if item is None else read(item) for key, item in value.items()}


def _entries(read: Reader, value: Any) -> dict[str, Any]:
    if type(value) is list and all(type(entry) is dict and entry.keys() == _ENTRY for entry in value):
        value = {entry["key"]: entry["value"] for entry in value}
    return _map(read, value)


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError(f"{_named(value)} is not a boolean")
    return value


def _whole(bits: int, value: Any) -> int:
    kind = type(value)
    if kind is int:
        return value if -(1 << bits - 1) <= value < 1 << bits - 1 else wrapped(value, bits)
    if kind is str:
        return whole_number(value, bits)
    if kind is Decimal:
        if value.adjusted() > 1000:
            raise ValueError(f"{value!s:.80} is too large")
        return wrapped(int(value), bits)
    raise ValueError(f"{_named(value)} is not a number")


def _time(value: Any) -> int:
    number = _whole(64, value)
    if not -(1 << 31) <= number < 1 << 31:
        raise ValueError(f"{number} milliseconds are no time of a day")
    return number


def _double(value: Any) -> float:
    kind = type(value)
    if kind is Decimal or kind is int:
        return _float(value)
    if kind is str:
        return floating_number(value)
    raise ValueError(f"{_named(value)} is not a number")


def _float(value: Decimal | int) -> float:
    try:
        return float(value) + 0.0  # Java's numbers that are no doubles have no -0.0
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _decimal(precision: int, scale: int, value: Any) -> Decimal:
    kind = type(value)
    if kind is Decimal:
        return fitted(value, precision, scale)
    if kind is int:
        return fitted(Decimal(value), precision, scale)
    if kind is str:
        return fitted(decimal_number(value), precision, scale)
    raise ValueError(f"{_named(value)} is not a number")


def text_of(value: Any) -> str:
    """The text that a column of type STRING gets of any JSON value."""
    kind = type(value)
    if kind is str:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if value is None:
        return "null"
    if kind is list:
        return f"[{', '.join(map(text_of, value))}]"
    if kind is dict:
        return _ENCODER.encode(value).decode()
    return str(value)


def _bytes(value: Any) -> bytes:
    if type(value) is not str:
        raise ValueError(f"{_named(value)} is not a text in base64")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{value!r:.80} is not base64: {error}") from error


def _named(value: Any) -> str:
    return f"{value!r:.80}"


_SCALARS: dict[type[sql.SqlType], Reader] = {
    sql.BooleanType: _boolean,
    sql.IntegerType: partial(_whole, 32),
    sql.BigintType: partial(_whole, 64),
    sql.DoubleType: _double,
    sql.StringType: text_of,
    sql.BytesType: _bytes,
    sql.DateType: partial(_whole, 32),
    sql.TimeType: _time,
    sql.TimestampType: partial(_whole, 64),
}
