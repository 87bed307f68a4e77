"""Columns of structs in JSON: whole columns are checked at once, and read value by value where that is not enough."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType

from hayase.connect.columns import Column, ReadColumn
from hayase.connect.converters.json_values import JsonValues
from hayase.connect.logical_types import decoder
from hayase.connect.schema import ConnectSchema, SchemaType

_BITS = {SchemaType.INT8: 8, SchemaType.INT16: 16, SchemaType.INT32: 32, SchemaType.INT64: 64}
_CLASSES: Mapping[SchemaType, type] = {
    **dict.fromkeys(_BITS, int),
    SchemaType.FLOAT64: float,
    SchemaType.BOOLEAN: bool,
    SchemaType.STRING: str,
}
"""Types whose values in JSON are those of Connect, where their class is this one."""


def column_reader(values: JsonValues, schema: ConnectSchema | None) -> ReadColumn:
    """What reads a column of JSON as values of a schema; without one they stay as they are."""
    if schema is None:
        return lambda column: column
    read, kind = values.reader(schema), _CLASSES.get(schema.type)
    if kind is None or decoder(schema) is not None:
        return lambda column: [read(value) for value in column]
    bound = 1 << (_BITS.get(schema.type, 1) - 1)
    integers, nulls = kind is int, schema.optional and schema.default is None

    def read_column(column: Column) -> Column:
        kinds = set(map(type, column))
        if nulls:
            kinds.discard(NoneType)
        if kinds <= {kind} and (not integers or _within(column, bound)):
            return column
        return [read(value) for value in column]

    return read_column


def _within(column: Column, bound: int) -> bool:
    """Whether integers fit into so many bits; null does."""
    numbers: list[int] = [value for value in column if value is not None]  # type: ignore[misc]  # they are integers
    return not numbers or (-bound <= min(numbers) and max(numbers) < bound)
