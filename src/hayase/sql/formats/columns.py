"""A column: a name with a type, and the type of its values in Polars."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from hayase.sql.types import sql_types as sql
from hayase.sql.types.column_types import dtype_of


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a key, a value or a stored row.

    Attributes:
        name: as it is in the bytes, case included.
        type: its SQL type.
    """

    name: str
    type: sql.SqlType


def column_dtype(type_: sql.SqlType) -> pl.DataType:
    """The Polars type of columns of a type: its own, or that of packed values (see `packing`)."""
    return dtype_of(type_) or pl.Binary()


def is_packed(type_: sql.SqlType) -> bool:
    """Whether the values of columns of a type are packed: bytes that only loops look into."""
    return dtype_of(type_) is None


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
