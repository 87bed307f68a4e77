"""Values as text: what CAST(… AS STRING) gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

from hayase.sql.types.java_numbers import decimal_text, double_text
from hayase.sql.types.sql_types import (
    ArrayType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    MapType,
    SqlType,
    StringType,
    StructType,
    TimestampType,
    TimeType,
)
from hayase.sql.types.times import date_text, time_text, timestamp_text

__all__ = ["boolean_text", "decimal_text", "double_text", "text_of"]


def boolean_text(value: bool) -> str:
    """`true` or `false`."""
    return "true" if value else "false"


def text_of(type_: SqlType) -> Callable[[Any], str]:
    """The function that gives the text of a value, which is not null, of a type."""
    match type_:
        case BooleanType():
            return boolean_text
        case DoubleType():
            return double_text
        case DecimalType():
            return decimal_text
        case StringType():
            return str
        case DateType():
            return date_text
        case TimeType():
            return time_text
        case TimestampType():
            return timestamp_text
        case ArrayType(item):
            return partial(_array_text, _inner_text(item))
        case MapType(key, value):
            return partial(_map_text, _inner_text(key), _inner_text(value))
        case StructType(fields):
            return partial(_struct_text, tuple((name, _inner_text(field)) for name, field in fields))
    return str


def _inner_text(type_: SqlType) -> Callable[[Any], str]:
    """As `text_of`, for what is inside of arrays, maps and structs: there Java's own texts count."""
    match type_:
        case DecimalType():
            return _big_decimal_text
        case TimeType():
            return _inner_time_text
        case TimestampType():
            return _inner_timestamp_text
    return text_of(type_)


def _or_null(text: Callable[[Any], str], value: Any) -> str:
    return "null" if value is None else text(value)


def _array_text(item: Callable[[Any], str], values: Sequence[Any]) -> str:
    return f"[{', '.join(_or_null(item, value) for value in values)}]"


def _map_text(key: Callable[[Any], str], value: Callable[[Any], str], values: dict[Any, Any]) -> str:
    return "{" + ", ".join(f"{_or_null(key, name)}={_or_null(value, one)}" for name, one in values.items()) + "}"


def _struct_text(fields: tuple[tuple[str, Callable[[Any], str]], ...], values: dict[str, Any]) -> str:
    present = (f"{name}={text(value)}" for name, text in fields if (value := values.get(name)) is not None)
    return "Struct{" + ",".join(present) + "}"


def _big_decimal_text(value: Decimal) -> str:
    """`BigDecimal.toString`, which takes an exponent for small numbers with a large scale."""
    return f"{value!s}"


def _inner_time_text(milliseconds: int) -> str:
    return timestamp_text(milliseconds)[11:19]


def _inner_timestamp_text(milliseconds: int) -> str:
    seconds, fraction = timestamp_text(milliseconds).replace("T", " ").split(".")
    return f"{seconds}.{fraction.rstrip('0') or '0'}"
