"""Columns that expressions can see besides the fields of the value (which are plain `pl.col("amount")`)."""

from __future__ import annotations

import polars as pl

from hayase.serde.protocol import BARE_FIELD


def key(field: str | None = None) -> pl.Expr:
    """The record's key, or one field of a composite key. Its output name is `key`, or the field's.

    Example:
        stream.map_values({"customer": key(), "amount": "amount"})
    """
    column = pl.col("__key")
    return column.alias("key") if field is None else column.struct.field(field).alias(field)


def timestamp() -> pl.Expr:
    """The record's event time: milliseconds since the epoch (UTC), Int64. Its output name is `timestamp`."""
    return pl.col("__ts").alias("timestamp")


def left(field: str | None = None) -> pl.Expr:
    """In a joiner: a field of the left value, or the left value itself if it is a bare one.

    Example:
        orders.join(users, {"id": left("id"), "city": right("city")})
    """
    return _side("__left", field)


def right(field: str | None = None) -> pl.Expr:
    """In a joiner: a field of the right value (of the table), or the right value itself if it is a bare one.

    In a left join without a matching row it is null.
    """
    return _side("__right", field)


def _side(prefix: str, field: str | None) -> pl.Expr:
    name = BARE_FIELD if field is None else field
    return pl.col(f"{prefix}.{name}").alias(name)
