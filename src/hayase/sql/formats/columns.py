"""A column: a name with a type, and the type of its values in Polars."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from hayase.sql.types import sql_types as sql


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a key, a value or a stored row.

    Attributes:
        name: as it is in the bytes, case included.
        type: its SQL type.
    """

    name: str
    type: sql.SqlType


_DTYPES: dict[type[sql.SqlType], pl.DataType] = {
    sql.BooleanType: pl.Boolean(),
    sql.IntegerType: pl.Int32(),
    sql.BigintType: pl.Int64(),
    sql.DoubleType: pl.Float64(),
    sql.StringType: pl.String(),
    sql.BytesType: pl.Binary(),
    sql.DateType: pl.Int32(),
    sql.TimeType: pl.Int32(),
    sql.TimestampType: pl.Int64(),
}


MAX_DIGITS = 38
"""Digits of the largest DECIMAL that has columns."""


def column_dtype(type_: sql.SqlType) -> pl.DataType:
    """The Polars type of columns of a type: its own, or that of packed values (see `packing`)."""
    return dtype_of(type_) or pl.Binary()


def is_packed(type_: sql.SqlType) -> bool:
    """Whether the values of columns of a type are packed: bytes that only loops look into."""
    return dtype_of(type_) is None


def dtype_of(type_: sql.SqlType) -> pl.DataType | None:
    """The Polars type of a type's own; `None`: MAP, DECIMAL of more than 38 digits and what has them inside."""
    match type_:
        case sql.DecimalType(precision, scale):
            return pl.Decimal(precision, scale) if precision <= MAX_DIGITS else None
        case sql.ArrayType(item):
            dtype = dtype_of(item)
            return None if dtype is None else pl.List(dtype)
        case sql.StructType(fields):
            dtypes = {name: dtype_of(field) for name, field in fields}
            present = {name: dtype for name, dtype in dtypes.items() if dtype is not None}
            return pl.Struct(present) if present and len(present) == len(fields) else None
    return _DTYPES.get(type(type_))


def types_in(type_: sql.SqlType) -> Iterator[sql.SqlType]:
    """A type and all that it is made of."""
    yield type_
    match type_:
        case sql.ArrayType(item):
            yield from types_in(item)
        case sql.MapType(key, value):
            yield from types_in(key)
            yield from types_in(value)
        case sql.StructType(fields):
            for _, field in fields:
                yield from types_in(field)
