"""Values of SQL types as JSON has them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any

import msgspec

from hayase.server.rows import ResultColumn
from hayase.sql.types.sql_types import (
    ArrayType,
    DateType,
    DecimalType,
    DoubleType,
    MapType,
    SqlType,
    StructType,
    TimestampType,
    TimeType,
)
from hayase.sql.types.text import decimal_text, double_text
from hayase.sql.types.times import date_text, time_text, timestamp_text

_Convert = Callable[[Any], Any]
_ENCODER = msgspec.json.Encoder()


def to_json(value: object) -> bytes:
    """JSON without spaces."""
    return _ENCODER.encode(value)


def to_lines(values: Sequence[object]) -> bytes:
    """A line of JSON for each value."""
    return _ENCODER.encode_lines(values)


class RowsToJson:
    """Rows as JSON can have them: lists of values.

    Decimals are plain numbers, dates and times ISO texts, bytes base64, maps and structs objects.

    Args:
        columns: of the rows.
    """

    def __init__(self, columns: Sequence[ResultColumn]) -> None:
        self._needed = _converters(tuple(columns))

    def __call__(self, row: Sequence[Any]) -> Sequence[Any]:
        """The values of a row."""
        if not self._needed:
            return row
        values = list(row)
        for place, convert in self._needed:
            if values[place] is not None:
                values[place] = convert(values[place])
        return values


@lru_cache(maxsize=512)
def _converters(columns: tuple[ResultColumn, ...]) -> list[tuple[int, _Convert]]:
    """The places of the columns whose values have to be converted, and how."""
    converters = ((place, _converter(column.type)) for place, column in enumerate(columns))
    return [(place, convert) for place, convert in converters if convert is not None]


def _converter(type_: SqlType) -> _Convert | None:
    """What makes a value, which is not null, one that msgspec writes as it should be; `None`: it is one."""
    match type_:
        case DecimalType():
            return _decimal
        case DoubleType():
            return _double
        case DateType():
            return date_text
        case TimeType():
            return time_text
        case TimestampType():
            return timestamp_text
        case ArrayType(item):
            convert = _converter(item)
            return None if convert is None else partial(_array, convert)
        case MapType(_, value):
            return partial(_map, _converter(value))
        case StructType(fields):
            return partial(_struct, [(name, _converter(field)) for name, field in fields])
    return None


def _decimal(value: Decimal) -> msgspec.Raw:
    return msgspec.Raw(decimal_text(value).encode())


def _double(value: float) -> Any:
    return value if math.isfinite(value) else double_text(value)


def _array(convert: _Convert, values: Sequence[Any]) -> list[Any]:
    return [None if value is None else convert(value) for value in values]


def _map(convert: _Convert | None, values: dict[Any, Any]) -> dict[str, Any]:
    return {str(name): value if convert is None or value is None else convert(value) for name, value in values.items()}


def _struct(fields: Sequence[tuple[str, _Convert | None]], value: dict[str, Any]) -> dict[str, Any]:
    shown = {}
    for name, convert in fields:
        item = value.get(name)
        shown[name] = item if convert is None or item is None else convert(item)
    return shown
