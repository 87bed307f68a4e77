"""From frames to the row form's values and back, by schema."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import polars as pl

from hayase.core.errors import SerializationError
from hayase.core.records import Window, Windowed
from hayase.kernel.frame.expressions import struct_type
from hayase.kernel.frame.row_functions import plain
from hayase.kernel.node.column_node import KEY, NULL, WINDOW_END, WINDOW_START
from hayase.kernel.node.edge import EdgeSchema
from hayase.serde.protocol import BARE_FIELD, Packing, Schema
from hayase.serde.shapes import Shape, shape_of_type


def has_python_values(schema: Schema | None) -> bool:
    """Whether values of the schema can be made and read here."""
    if schema is None:
        return False
    return schema.bare or schema.python_type is dict or _shape(schema.python_type) is not None


def _shape(python_type: object) -> Shape | None:
    return _shapes(python_type)


@lru_cache(maxsize=256)
def _shapes(python_type: Hashable) -> Shape | None:
    return shape_of_type(python_type)


def values_of(frame: pl.DataFrame, schema: Schema, null: pl.Series | None = None) -> list[object]:
    """The row form's value of each row of the schema's fields; `None` where `null` is true."""
    if schema.bare:
        return frame[BARE_FIELD].to_list()  # null where the value is
    if schema.python_type is not dict:
        shape = _shape(schema.python_type)
        assert shape is not None
        return shape.to_python(frame.select(schema.names), null)
    names = schema.names
    packings = dict(schema.packings)
    columns = [
        packings[name].unpack_all(frame[name].to_list()) if name in packings else frame[name].to_list()
        for name in names
    ]
    rows: list[Any] = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    if null is not None and null.any():
        return [None if gone else row for row, gone in zip(rows, null.to_list(), strict=True)]
    return rows


def record_values(frame: pl.DataFrame, edge: EdgeSchema) -> list[object]:
    """The value of each row of an edge's frame."""
    return values_of(frame, edge.value, frame[NULL])


def record_keys(frame: pl.DataFrame, edge: EdgeSchema) -> list[object]:
    """The key of each row of an edge's frame; `Windowed` ones if the edge carries windows."""
    keys = key_values(frame[KEY], edge.key)
    if not edge.windowed:
        return keys
    bounds = zip(frame[WINDOW_START].to_list(), frame[WINDOW_END].to_list(), strict=True)
    return [Windowed(key, Window(start, end)) for key, (start, end) in zip(keys, bounds, strict=True)]


def key_values(keys: pl.Series, schema: Schema) -> list[object]:
    """The row form's keys of a key column."""
    if schema.bare or schema.python_type is dict:
        return keys.to_list()
    return values_of(keys.struct.unnest(), schema, keys.is_null())


def frame_of(values: Sequence[object], schema: Schema) -> tuple[pl.DataFrame, pl.Series]:
    """Fields and null flags of values of the row form.

    Raises:
        SerializationError: a value does not fit the schema.
    """
    null = pl.Series(NULL, [value is None for value in values], dtype=pl.Boolean)
    if not schema.bare and schema.python_type is not dict:
        shape = _shape(schema.python_type)
        assert shape is not None
        return shape.from_python(values)[0], null
    try:
        if schema.bare:
            return _column(BARE_FIELD, [plain(value) for value in values], schema.fields[0][1]).to_frame(), null
        rows = [_fields(value) for value in values]
        packings = dict(schema.packings)
        columns = [_packed(name, [row.get(name) for row in rows], dtype, packings) for name, dtype in schema.fields]
        return pl.DataFrame(columns, height=len(values)), null
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
        fields = ", ".join(f"{name}: {dtype}" for name, dtype in schema.fields)
        raise SerializationError(
            "VALUE_NOT_OF_SCHEMA", f"the function's result does not fit {fields}: {error}"
        ) from error


def keys_of(values: Sequence[object], schema: Schema) -> pl.Series:
    """A key column of keys of the row form; raises SerializationError."""
    frame, null = frame_of(values, schema)
    if schema.bare:
        return frame.to_series().alias(KEY)
    return pl.select(pl.when(~null).then(frame.to_struct()).cast(struct_type(schema)).alias(KEY)).to_series()


def _column(name: str, values: list[object], dtype: pl.DataType) -> pl.Series:
    return pl.Series(name, values, dtype=dtype, strict=True)


def _packed(name: str, values: list[object], dtype: pl.DataType, packings: Mapping[str, Packing]) -> pl.Series:
    return _column(name, list(packings[name].pack_all(values)) if name in packings else values, dtype)


def _fields(value: object) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TypeError(f"{value!r:.200} is no dict")
    fields = plain(value)
    assert isinstance(fields, Mapping)
    return fields


def has_python_records(edge: EdgeSchema) -> bool:
    """Whether keys and values of an edge's frames can be handed to a callable."""
    return has_python_values(edge.key) and has_python_values(edge.value)
