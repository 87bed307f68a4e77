"""CAST: which types become which, and how."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

from hayase.sql.errors import StatementError
from hayase.sql.types import java_numbers
from hayase.sql.types.coercion import is_number
from hayase.sql.types.decimals import rounded
from hayase.sql.types.sql_types import (
    ArrayType,
    BigintType,
    BooleanType,
    BytesType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    MapType,
    SqlType,
    StringType,
    StructType,
    TimestampType,
    TimeType,
)
from hayase.sql.types.text import text_of
from hayase.sql.types.times import parse_date, parse_time, parse_timestamp

_INT_BITS = 32
_BIGINT_BITS = 64
_DAY_MS = 86_400_000
_TRUE_TEXTS = ("true", "yes")
_FALSE_TEXTS = ("false", "no")

Caster = Callable[[Any], Any]
"""Converts a value, null included."""


def can_cast(source: SqlType | None, target: SqlType) -> bool:
    """Whether there is a CAST from `source`, where `None` is the type of NULL."""
    try:
        caster(source, target)
    except StatementError:
        return False
    return True


def cast(value: Any, source: SqlType | None, target: SqlType) -> Any:
    """`value` as a `target`; an exception if this value cannot become one."""
    return caster(source, target)(value)


def caster(source: SqlType | None, target: SqlType) -> Caster:
    """The function that converts; a `StatementError` if there is no such CAST."""
    if source is None or source == target:
        return same
    convert = _conversion(source, target)
    if convert is None:
        raise StatementError("UNSUPPORTED_CAST", f"Cast of {source} to {target} is not supported")
    return partial(_unless_null, convert)


def of_present(convert: Caster) -> Caster | None:
    """The conversion of values that are not null inside of what `caster` gave; `None` for `same`."""
    return convert.args[0] if isinstance(convert, partial) and convert.func is _unless_null else None


def same(value: Any) -> Any:
    """The value as it is."""
    return value


def _unless_null(convert: Caster, value: Any) -> Any:
    return None if value is None else convert(value)


def _conversion(source: SqlType, target: SqlType) -> Caster | None:
    """The conversion of values that are not null."""
    match source, target:
        case BytesType(), _:
            return None
        case _, StringType():
            return text_of(source)
        case StringType(), _:
            return _from_text(target)
        case ArrayType(item), ArrayType(target_item):
            return partial(_cast_array, caster(item, target_item))
        case MapType(key, value), MapType(target_key, target_value):
            return partial(_cast_map, caster(key, target_key), caster(value, target_value))
        case StructType(fields), StructType(target_fields):
            types = dict(fields)
            return partial(_cast_struct, tuple((name, caster(types.get(name), type_)) for name, type_ in target_fields))
        case TimestampType(), DateType():
            return _timestamp_to_date
        case TimestampType(), TimeType():
            return _timestamp_to_time
        case DateType(), TimestampType():
            return _date_to_timestamp
    if is_number(source) and is_number(target):
        return _between_numbers(source, target)
    return None


def _from_text(target: SqlType) -> Caster | None:
    match target:
        case BooleanType():
            return parse_boolean
        case IntegerType():
            return _text_to_int
        case BigintType():
            return _text_to_bigint
        case DoubleType():
            return _text_to_double
        case DecimalType(precision, scale):
            return partial(_text_to_decimal, precision, scale)
        case DateType():
            return parse_date
        case TimeType():
            return parse_time
        case TimestampType():
            return parse_timestamp
    return None


def _between_numbers(source: SqlType, target: SqlType) -> Caster:
    match target:
        case DoubleType():
            return float
        case DecimalType(precision, scale):
            return partial(_double_to_decimal if isinstance(source, DoubleType) else _to_decimal, precision, scale)
    bits = _INT_BITS if isinstance(target, IntegerType) else _BIGINT_BITS
    if isinstance(source, DoubleType):
        return partial(_double_to_integer, bits)
    if isinstance(source, IntegerType):
        return same
    return partial(_to_integer, bits)


def parse_boolean(text: str) -> bool:
    """Whether a text is a beginning of `true` or `yes`, in any case."""
    return _begins(text, _TRUE_TEXTS)


def parse_boolean_exactly(text: str) -> bool:
    """As `parse_boolean`, but a `ValueError` if it is no beginning of `false` or `no` either."""
    if _begins(text, _TRUE_TEXTS):
        return True
    if _begins(text, _FALSE_TEXTS):
        return False
    raise ValueError(f"{text!r:.80} is no BOOLEAN: allowed are true, false, yes, no, and their beginnings")


def _begins(text: str, words: tuple[str, ...]) -> bool:
    lower = text.strip().lower()
    return bool(lower) and any(word.startswith(lower) for word in words)


def _text_to_int(text: str) -> int:
    return java_numbers.whole_number(text.strip(), _INT_BITS)


def _text_to_bigint(text: str) -> int:
    return java_numbers.whole_number(text.strip(), _BIGINT_BITS)


def _text_to_double(text: str) -> float:
    value = java_numbers.floating_number(text)
    if not math.isfinite(value):
        raise ValueError(f"{text!r:.80} is no finite DOUBLE")
    return value


def _text_to_decimal(precision: int, scale: int, text: str) -> Decimal:
    return rounded(java_numbers.decimal_number(text.strip()), precision, scale)


def _to_decimal(precision: int, scale: int, value: int | Decimal) -> Decimal:
    return rounded(Decimal(value), precision, scale)


def _double_to_decimal(precision: int, scale: int, value: float) -> Decimal:
    if not math.isfinite(value):
        raise ValueError(f"{java_numbers.double_text(value)} is no DECIMAL")
    return rounded(Decimal(repr(value)), precision, scale)


def _to_integer(bits: int, value: int | Decimal) -> int:
    return java_numbers.wrapped(int(value), bits)


def _double_to_integer(bits: int, value: float) -> int:
    if math.isnan(value):
        return 0
    high = (1 << bits - 1) - 1
    if value >= high:
        return high
    return max(int(value), -high - 1) if value > -high - 1 else -high - 1


def _timestamp_to_date(milliseconds: int) -> int:
    days = milliseconds // _DAY_MS
    if not -(1 << 31) <= days < 1 << 31:
        raise ValueError(f"{days} days since 1970-01-01 are no DATE")
    return days


def _timestamp_to_time(milliseconds: int) -> int:
    return milliseconds % _DAY_MS


def _date_to_timestamp(days: int) -> int:
    return days * _DAY_MS


def _cast_array(item: Caster, values: list[Any]) -> list[Any]:
    return [item(value) for value in values]


def _cast_map(key: Caster, value: Caster, values: dict[Any, Any]) -> dict[Any, Any]:
    return {key(name): value(one) for name, one in values.items()}


def _cast_struct(fields: tuple[tuple[str, Caster], ...], values: dict[str, Any]) -> dict[str, Any]:
    return {name: convert(values.get(name)) for name, convert in fields}
