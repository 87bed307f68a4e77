"""Types and texts of PostgreSQL for values with Connect's and Debezium's schemas."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from hayase.connect.logical_types import decimal_from_bytes
from hayase.connect.schema import (
    DATE_NAME,
    DECIMAL_NAME,
    SCALE,
    TIME_NAME,
    TIMESTAMP_NAME,
    ConnectSchema,
    SchemaType,
)
from hayase.sql.functions.java.calendar import from_days, to_days

_TYPES: Mapping[SchemaType, str] = {
    SchemaType.INT8: "smallint",
    SchemaType.INT16: "smallint",
    SchemaType.INT32: "integer",
    SchemaType.INT64: "bigint",
    SchemaType.FLOAT32: "real",
    SchemaType.FLOAT64: "double precision",
    SchemaType.BOOLEAN: "boolean",
    SchemaType.STRING: "text",
    SchemaType.BYTES: "bytea",
    SchemaType.MAP: "jsonb",
    SchemaType.STRUCT: "jsonb",
}
_NAMED: Mapping[str, str] = {
    DATE_NAME: "date",
    TIME_NAME: "time",
    TIMESTAMP_NAME: "timestamptz",
    "io.debezium.time.Date": "date",
    "io.debezium.time.Time": "time",
    "io.debezium.time.MicroTime": "time",
    "io.debezium.time.Timestamp": "timestamp",
    "io.debezium.time.MicroTimestamp": "timestamp",
    "io.debezium.time.ZonedTimestamp": "timestamptz",
    "io.debezium.time.ZonedTime": "timetz",
    "io.debezium.time.MicroDuration": "interval",
    "io.debezium.time.Interval": "interval",
    "io.debezium.data.Uuid": "uuid",
    "io.debezium.data.Json": "jsonb",
    "io.debezium.data.Xml": "xml",
    "io.debezium.data.VariableScaleDecimal": "numeric",
}
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - a timestamp without time zone
_POSITIVE_INFINITY_US, _NEGATIVE_INFINITY_US = 9_223_372_036_825_200_000, -9_223_372_036_832_400_000
"""What Debezium has for them."""
_DAY_US = 86_400_000_000
_FIRST_DAY, _LAST_DAY = to_days(1, 1, 1), to_days(9999, 12, 31)


def column_type(schema: ConnectSchema | None, value: object) -> str:
    """The type of a column for values of a schema; without one, for values like this.

    Example:
        >>> from hayase.connect.schema import decimal_schema
        >>> column_type(decimal_schema(2), None), column_type(None, 1.5)
        ('numeric', 'double precision')
    """
    if schema is None:
        for kind, name in ((bool, "boolean"), (int, "bigint"), (float, "double precision"), (str, "text")):
            if isinstance(value, kind):
                return name
        return "bytea" if isinstance(value, (bytes, bytearray, memoryview)) else "jsonb"
    if schema.name == DECIMAL_NAME:
        precision = schema.parameters.get("connect.decimal.precision")
        return f"numeric({precision},{schema.parameters.get(SCALE, '0')})" if precision else "numeric"
    if schema.name is not None and schema.name in _NAMED:
        return _NAMED[schema.name]
    if schema.type is SchemaType.ARRAY:
        element = schema.value_schema
        return "jsonb" if element is None or not element.type.is_primitive else f"{column_type(element, None)}[]"
    return _TYPES[schema.type]


def storable(schema: ConnectSchema | None) -> Callable[[Any], object]:
    """What turns a value of a schema into one that PostgreSQL's driver writes as text."""
    if schema is None:
        return plain
    if schema.name in _STORED:
        return _STORED[schema.name]
    if schema.type is SchemaType.ARRAY and schema.value_schema is not None and schema.value_schema.type.is_primitive:
        return _array_of(storable(schema.value_schema))
    if schema.type in (SchemaType.STRUCT, SchemaType.MAP, SchemaType.ARRAY):
        return _json
    return plain


def _array_of(element: Callable[[Any], object]) -> Callable[[Any], object]:
    def stored(value: list[Any]) -> object:
        elements = [None if each is None else element(each) for each in value]
        # The driver wants elements of one type, and infinity is no date of Python.
        if len({type(each) for each in elements if each is not None}) > 1:
            return [None if each is None else str(each) for each in elements]
        return elements

    return stored


def plain(value: object) -> object:
    """A value whose type the driver knows to write, and objects and lists as JSON."""
    return _json(value) if isinstance(value, (dict, list, tuple)) else value


def _json(value: object) -> str:
    return json.dumps(value, default=_in_json, ensure_ascii=False)


def _in_json(value: object) -> object:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    return value.isoformat() if isinstance(value, (dt.date, dt.time)) else str(value)


def _timestamp(microseconds: int) -> object:
    if microseconds >= _POSITIVE_INFINITY_US or microseconds <= _NEGATIVE_INFINITY_US:
        return "infinity" if microseconds > 0 else "-infinity"
    days, rest = divmod(microseconds, _DAY_US)
    if _FIRST_DAY <= days <= _LAST_DAY:
        return _EPOCH + dt.timedelta(microseconds=microseconds)
    time = (_EPOCH + dt.timedelta(microseconds=rest)).time()
    return _far_date(days, f" {time.isoformat()}")


def _time(microseconds: int) -> object:
    return "24:00:00" if microseconds == 86_400_000_000 else (_EPOCH + dt.timedelta(microseconds=microseconds)).time()


def _date(days: int) -> object:
    if abs(days) >= (1 << 31) - 1:
        return "infinity" if days > 0 else "-infinity"
    return (_EPOCH + dt.timedelta(days=days)).date() if _FIRST_DAY <= days <= _LAST_DAY else _far_date(days)


def _far_date(days: int, time: str = "") -> str:
    """A date of a year that Python does not have, as PostgreSQL writes it.

    Example:
        >>> _far_date(to_days(-43, 3, 15)), _far_date(to_days(12000, 1, 1), " 10:00:00")
        ('0044-03-15 BC', '12000-01-01 10:00:00')
    """
    year, month, day = from_days(days)
    return f"{year if year > 0 else 1 - year:04}-{month:02}-{day:02}{time}{'' if year > 0 else ' BC'}"


def _interval(microseconds: int) -> object:
    try:
        return dt.timedelta(microseconds=microseconds)
    except OverflowError:
        return f"{microseconds} microseconds"


def _zoned(text: str) -> str:
    """A year before the first is written behind a minus in ISO 8601, and with BC by PostgreSQL.

    Example:
        >>> _zoned("-0043-03-15T10:00:00Z"), _zoned("2024-01-01T10:00:00Z")
        ('0044-03-15T10:00:00Z BC', '2024-01-01T10:00:00Z')
    """
    if not text.startswith("-") or text == "-infinity":
        return text
    year, _, rest = text[1:].partition("-")
    return f"{int(year) + 1:04}-{rest} BC"


def _variable_decimal(value: Mapping[str, Any]) -> Decimal:
    return decimal_from_bytes(value["value"], value["scale"])


_STORED: Mapping[str | None, Callable[[Any], object]] = {
    "io.debezium.time.Date": _date,
    "io.debezium.time.Time": lambda milliseconds: _time(milliseconds * 1000),
    "io.debezium.time.MicroTime": _time,
    "io.debezium.time.Timestamp": lambda milliseconds: _timestamp(milliseconds * 1000),
    "io.debezium.time.MicroTimestamp": _timestamp,
    "io.debezium.time.ZonedTimestamp": _zoned,
    "io.debezium.time.MicroDuration": _interval,
    "io.debezium.data.VariableScaleDecimal": _variable_decimal,
}
