"""Rows of tables as Arrow, for DuckDB, and results of DuckDB as SQL values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pyarrow as pa

from hayase.sql.types import sql_types as sql

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_DECIMAL_DIGITS_MAX = 38
_INTEGER_BITS = 32
_SCALARS: dict[type[sql.SqlType], pa.DataType] = {
    sql.BooleanType: pa.bool_(),
    sql.IntegerType: pa.int32(),
    sql.BigintType: pa.int64(),
    sql.DoubleType: pa.float64(),
    sql.StringType: pa.large_string(),
    sql.BytesType: pa.large_binary(),
    sql.DateType: pa.date32(),
    sql.TimeType: pa.time32("ms"),
    sql.TimestampType: pa.timestamp("ms"),
}
Convert = Callable[[Any], Any]


def arrow_type(type_: sql.SqlType) -> pa.DataType:
    """The Arrow type that a column of a type has."""
    match type_:
        case sql.DecimalType(precision, scale):
            return pa.decimal128(precision, scale) if precision <= _DECIMAL_DIGITS_MAX else pa.float64()
        case sql.ArrayType(item):
            return pa.large_list(arrow_type(item))
        case sql.MapType(key, value):
            return pa.map_(arrow_type(key), arrow_type(value))
        case sql.StructType(fields):
            return pa.struct([(name, arrow_type(field)) for name, field in fields])
    return _SCALARS[type(type_)]


def arrow_table(columns: Sequence[tuple[str, sql.SqlType]], rows: Sequence[Sequence[Any]]) -> pa.Table:
    """Rows as a table."""
    arrays = []
    for place, (_, type_) in enumerate(columns):
        convert, values = _for_arrow(type_), [row[place] for row in rows]
        converted = values if convert is None else [_converted(convert, value) for value in values]
        arrays.append(pa.array(converted, arrow_type(type_)))
    return pa.Table.from_arrays(arrays, names=[name for name, _ in columns])


def _for_arrow(type_: sql.SqlType) -> Convert | None:
    """What makes a value, which is not null, one that Arrow takes for the type; `None`: it is one."""
    match type_:
        case sql.DecimalType(precision, _):
            return None if precision <= _DECIMAL_DIGITS_MAX else float
        case sql.ArrayType(item):
            of_item = _for_arrow(item)
            return None if of_item is None else lambda items: [_converted(of_item, each) for each in items]
        case sql.MapType(key, item):
            of_key, of_value = _for_arrow(key), _for_arrow(item)
            return lambda value: [
                (_converted(of_key, name), _converted(of_value, each)) for name, each in value.items()
            ]
        case sql.StructType(fields):
            parts = [(name, _for_arrow(field)) for name, field in fields]
            return lambda value: {name: _converted(convert, value.get(name)) for name, convert in parts}
    return None


def sql_type(type_: pa.DataType) -> tuple[sql.SqlType, Convert | None]:
    """The SQL type of a result's column, and what converts its values, which are not null, from those of Arrow."""
    types = pa.types
    if types.is_boolean(type_):
        return sql.BOOLEAN, None
    if types.is_integer(type_):
        return (sql.INTEGER if type_.bit_width <= _INTEGER_BITS else sql.BIGINT), None
    if types.is_floating(type_):
        return sql.DOUBLE, float
    if types.is_decimal(type_):
        return sql.DecimalType(type_.precision, type_.scale), None
    if types.is_binary(type_) or types.is_large_binary(type_):
        return sql.BYTES, None
    if types.is_date(type_):
        return sql.DATE, lambda day: day.toordinal() - _EPOCH_DAY
    if types.is_time(type_):
        return sql.TIME, _milliseconds_of_day
    if types.is_timestamp(type_):
        return sql.TIMESTAMP, lambda instant: (instant.replace(tzinfo=UTC) - _EPOCH) // _MILLISECOND
    return _nested(type_)


def _nested(type_: pa.DataType) -> tuple[sql.SqlType, Convert | None]:
    types = pa.types
    if types.is_map(type_):
        key, _ = sql_type(type_.key_type)
        value, convert = sql_type(type_.item_type)
        return sql.MapType(key, value), lambda pairs: {name: _converted(convert, item) for name, item in pairs}
    if types.is_list(type_) or types.is_large_list(type_):
        item, convert = sql_type(type_.value_type)
        return sql.ArrayType(item), lambda items: [_converted(convert, each) for each in items]
    if types.is_struct(type_):
        parts = [(type_.field(place).name, *sql_type(type_.field(place).type)) for place in range(type_.num_fields)]
        made = sql.StructType(tuple((name, field) for name, field, _ in parts))
        return made, lambda value: {name: _converted(convert, value[name]) for name, _, convert in parts}
    return sql.STRING, str


def _converted(convert: Convert | None, value: Any) -> Any:
    return value if value is None or convert is None else convert(value)


def _milliseconds_of_day(value: time) -> int:
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000


def result_rows(batch: pa.RecordBatch, converters: Sequence[Convert | None]) -> list[list[Any]]:
    """The rows of a batch of a result."""
    columns = []
    for place, convert in enumerate(converters):
        values = batch.column(place).to_pylist()
        columns.append(values if convert is None else [_converted(convert, value) for value in values])
    return [list(row) for row in zip(*columns, strict=True)] if columns else []
