"""The types that columns of SQL types have in Polars."""

from __future__ import annotations

from functools import lru_cache

import polars as pl

from hayase.sql.types import sql_types as sql

MAX_DIGITS = 38
"""Digits of the largest DECIMAL that has columns."""

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


@lru_cache(maxsize=4096)  # a statement may have thousands of parts of a STRUCT with thousands of fields
def dtype_of(type_: sql.SqlType | None) -> pl.DataType | None:
    """The Polars type of a SQL type; `None`: NULL, MAP, DECIMAL of more than 38 digits and what has them inside."""
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
    return None if type_ is None else _DTYPES.get(type(type_))
