"""Types of Polars and schemas of Connect."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

import polars as pl

from hayase.connect.exceptions import DataError
from hayase.connect.logical_types import scale_of
from hayase.connect.schema import (
    BOOLEAN_SCHEMA,
    BYTES_SCHEMA,
    DATE_NAME,
    DATE_SCHEMA,
    DECIMAL_NAME,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT8_SCHEMA,
    INT16_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    TIME_NAME,
    TIME_SCHEMA,
    TIMESTAMP_NAME,
    TIMESTAMP_SCHEMA,
    ConnectSchema,
    SchemaType,
    array_schema,
    decimal_schema,
    struct_schema,
)

_PRECISION = 38
_TYPES: Mapping[SchemaType, pl.DataType] = {
    SchemaType.INT8: pl.Int8(),
    SchemaType.INT16: pl.Int16(),
    SchemaType.INT32: pl.Int32(),
    SchemaType.INT64: pl.Int64(),
    SchemaType.FLOAT32: pl.Float32(),
    SchemaType.FLOAT64: pl.Float64(),
    SchemaType.BOOLEAN: pl.Boolean(),
    SchemaType.STRING: pl.String(),
    SchemaType.BYTES: pl.Binary(),
}
_LOGICAL: Mapping[str, pl.DataType] = {
    DATE_NAME: pl.Date(),
    TIME_NAME: pl.Time(),
    TIMESTAMP_NAME: pl.Datetime("us", "UTC"),
}
_SCHEMAS: Mapping[type[pl.DataType], ConnectSchema] = {
    pl.Int8: INT8_SCHEMA,
    pl.Int16: INT16_SCHEMA,
    pl.Int32: INT32_SCHEMA,
    pl.Int64: INT64_SCHEMA,
    pl.UInt8: INT16_SCHEMA,
    pl.UInt16: INT32_SCHEMA,
    pl.UInt32: INT64_SCHEMA,
    pl.UInt64: INT64_SCHEMA,
    pl.Float32: FLOAT32_SCHEMA,
    pl.Float64: FLOAT64_SCHEMA,
    pl.Boolean: BOOLEAN_SCHEMA,
    pl.String: STRING_SCHEMA,
    pl.Categorical: STRING_SCHEMA,
    pl.Enum: STRING_SCHEMA,
    pl.Null: STRING_SCHEMA,
    pl.Binary: BYTES_SCHEMA,
    pl.Date: DATE_SCHEMA,
    pl.Time: TIME_SCHEMA,
    pl.Datetime: TIMESTAMP_SCHEMA,
}


def polars_fields(schema: ConnectSchema) -> dict[str, pl.DataType]:
    """The fields of a struct that expressions can name, with their types; maps are none of them."""
    found = {field.name: _polars_type(field.schema) for field in schema.fields}
    return {name: dtype for name, dtype in found.items() if dtype is not None}


def _polars_type(schema: ConnectSchema) -> pl.DataType | None:
    if schema.name == DECIMAL_NAME:
        return pl.Decimal(_PRECISION, scale_of(schema))
    if (logical := _LOGICAL.get(schema.name or "")) is not None:
        return logical
    if schema.type is SchemaType.ARRAY:
        inner = None if schema.value_schema is None else _polars_type(schema.value_schema)
        return None if inner is None else pl.List(inner)
    if schema.type is SchemaType.STRUCT:
        return pl.Struct(polars_fields(schema))
    return _TYPES.get(schema.type)


def connect_schema(name: str, dtype: pl.DataType) -> ConnectSchema:
    """The schema of what an expression gives.

    Args:
        name: of the field, for errors.
        dtype: of the expression.

    Raises:
        DataError: `INVALID_SCHEMA`: Connect has no such type.

    Example:
        >>> connect_schema("total", pl.UInt32()).type
        <SchemaType.INT64: 'int64'>
    """
    if isinstance(dtype, pl.Decimal):
        return decimal_schema(dtype.scale)
    if isinstance(dtype, (pl.List, pl.Array)):
        return array_schema(_inner(name, dtype.inner))
    if isinstance(dtype, pl.Struct):
        return struct_schema({each.name: _inner(name, each.dtype) for each in dtype.fields})
    found = _SCHEMAS.get(type(dtype))
    if found is None:
        raise DataError(
            "INVALID_SCHEMA", f"field {name!r}: Connect has no type for {dtype}; cast the expression", field=name
        )
    return found


def _inner(name: str, dtype: pl.DataType | pl.datatypes.DataTypeClass) -> ConnectSchema:
    return connect_schema(name, dtype if isinstance(dtype, pl.DataType) else dtype()).as_optional()


def connect_value(value: object) -> object:
    """What an expression gives as a value of the schema: a time without a zone is of UTC."""
    if isinstance(value, dt.datetime) and value.tzinfo is None:
        return value.replace(tzinfo=dt.UTC)
    if isinstance(value, list):
        return [connect_value(each) for each in value]
    return {name: connect_value(each) for name, each in value.items()} if isinstance(value, dict) else value
