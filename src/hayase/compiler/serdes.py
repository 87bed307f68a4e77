"""Serdes that were not named: by the type of the value, or by the schema of the column."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import msgspec
import polars as pl

from hayase.core.errors import SerializationError
from hayase.core.records import Windowed
from hayase.kernel.frame.expressions import instance
from hayase.kernel.node.edge import EdgeSchema
from hayase.serde import JsonSerde, Serdes, SessionWindowedSerde, TimeWindowedSerde
from hayase.serde.changes import ChangeCodec, ChangeSerde
from hayase.serde.pickled import PickleSerde
from hayase.serde.plain import PlainSerde
from hayase.serde.protocol import ColumnCodec, Schema, Serde
from hayase.serde.pydantic_models import is_model
from hayase.serde.subscription_columns import AnswerCodec, AnswerSchema
from hayase.serde.subscriptions import AnswerSerde
from hayase.topology.defaults import DefaultSerde


class AutoSerde(Serde[Any]):
    """Writes each value by its type.

    Text as UTF-8, bytes as they are, whole numbers and fractions as Kafka's Long and Double, truth values as Boolean,
    all else (dict, list, dataclass, msgspec.Struct, Pydantic model) as JSON. Used by sinks and internal topics for
    which no serde was given and none is configured. It cannot read.
    """

    def to_bytes(self, value: object) -> bytes:
        """Bytes by type."""
        return _by_type(value).to_bytes(value)

    def from_bytes(self, data: bytes) -> Any:
        """Never: bytes do not say their type.

        Raises:
            SerializationError: always.
        """
        raise SerializationError("NO_SERDE", "no serde is known for these bytes; give one where the topic is read")


@functools.cache
def _json_of(model: object) -> Serde:
    return JsonSerde(model)


def _by_type(value: object) -> Serde:
    if isinstance(value, Windowed):
        window = value.window
        return TimeWindowedSerde(_by_type(value.key), window.end_ms - window.start_ms)
    if isinstance(value, str):
        return Serdes.string()
    if isinstance(value, bytes):
        return Serdes.bytes()
    if isinstance(value, bool):
        return Serdes.boolean()
    if isinstance(value, int):
        return Serdes.long()
    if isinstance(value, float):
        return Serdes.double()
    if isinstance(value, dict | list | tuple | msgspec.Struct) or hasattr(type(value), "__dataclass_fields__"):
        return JsonSerde()
    model: Any = type(value)
    if is_model(model):
        return _json_of(model)
    raise SerializationError(
        "NO_SERDE", f"no serde is known for a value of type {type(value).__name__}; give one with Produced.with_(...)"
    )


_BY_DTYPE: tuple[tuple[type[pl.DataType], Serde], ...] = (
    (pl.String, Serdes.string()),
    (pl.Binary, Serdes.bytes()),
    (pl.Boolean, Serdes.boolean()),
    (pl.Int64, Serdes.long()),
    (pl.Float64, Serdes.double()),
)


def schema_serde(schema: Schema) -> Serde | None:
    """The serde that AutoSerde amounts to for values of a schema; `None` if there is none."""
    if not schema.bare:
        if schema.python_type is not None and schema.python_type is not dict:
            return JsonSerde(schema.python_type)
        return JsonSerde(schema=dict(schema.fields))
    dtype = schema.fields[0][1]
    for known, serde in _BY_DTYPE:
        if dtype == known:
            return serde
    if isinstance(dtype, pl.List):
        return JsonSerde()
    return None


def writing_codec(serde: Serde, schema: Schema) -> ColumnCodec | None:
    """The column form of a serde for writing values of a schema; `None` if it has none.

    A serde without a schema of its own (`JsonSerde()`, AutoSerde) takes the values' schema.
    """
    if isinstance(serde, AutoSerde):
        writing = schema_serde(schema)
        return writing.columns if writing is not None else None
    if isinstance(serde, ChangeSerde):
        inner = writing_codec(serde.inner, schema)
        return None if inner is None else ChangeCodec(inner)
    if isinstance(serde, AnswerSerde) and isinstance(schema, AnswerSchema) and schema.right is not None:
        inner = writing_codec(serde.inner, schema.right)
        return None if inner is None else AnswerCodec(inner)
    codec = serde.columns
    if codec is None:
        if isinstance(serde, JsonSerde) and not schema.bare:
            if serde.sorts_fields and any(_has_fields(dtype) for _, dtype in schema.fields):
                return None
            fields = sorted(schema.fields, key=lambda field: field[0]) if serde.sorts_fields else schema.fields
            return JsonSerde(schema=dict(fields)).columns
        return None
    return codec if _fits(codec.schema, schema) else None


def _has_fields(dtype: pl.DataType) -> bool:
    """Whether there are records of fields in values of the type."""
    if isinstance(dtype, pl.List):
        return _has_fields(instance(dtype.inner))
    return isinstance(dtype, pl.Struct)


def _fits(written: Schema, given: Schema) -> bool:
    if written.bare != given.bare:
        return False
    types = dict(given.fields)
    return all(types.get(name) == dtype for name, dtype in written.fields)


def key_writing_codec(serde: Serde, edge: EdgeSchema) -> ColumnCodec | None:
    """The same for keys; of a windowed key, the codec of the record key."""
    if edge.windowed and isinstance(serde, TimeWindowedSerde | SessionWindowedSerde):
        serde = serde.inner
    elif edge.windowed and (edge.sessions or not isinstance(serde, AutoSerde)):
        return None
    return writing_codec(serde, edge.key)


def reading_serde(serde: Serde, schema: Schema | None) -> Serde:
    """The serde that reads what `serde` writes of values of a schema; bytes where nothing more is known."""
    if isinstance(serde, AutoSerde):
        return (schema_serde(schema) if schema is not None else None) or Serdes.bytes()
    if isinstance(serde, JsonSerde) and serde.columns is None and schema is not None and not schema.bare:
        return JsonSerde(schema=dict(schema.fields))
    return serde


class LocalPickleSerde(PickleSerde):
    """Any Python value, in what only this application writes: rows between its tasks, and its stores.

    Never in a topic.
    """


def without_pickle(serde: Serde) -> Serde:
    """The serde for a topic: values of which nothing is known are written as PlainSerde writes them."""
    if isinstance(serde, LocalPickleSerde):
        return PlainSerde()
    if isinstance(serde, DefaultSerde):
        fallback = None if serde.fallback is None else without_pickle(serde.fallback)
        return dataclasses.replace(serde, fallback=fallback)
    return serde.map_inner(without_pickle)
