"""The built-in aggregates: which class does which, and the types of their inputs and results."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import polars as pl

from hayase.kernel.aggregate.built_in_collect import ByOffset, Collected
from hayase.kernel.aggregate.built_in_loop import Looped
from hayase.kernel.aggregate.built_in_numbers import Average, BuiltIn, Count, Extreme, Sum
from hayase.kernel.frame.expressions import result_type, visible
from hayase.kernel.node.edge import EdgeSchema
from hayase.serde.protocol import BARE_FIELD, Schema
from hayase.topology.operators import BuiltInAggregate, FieldAggregate

_CLASSES: dict[str, type[BuiltIn]] = {
    "count": Count,
    "sum": Sum,
    "min": Extreme,
    "max": Extreme,
    "avg": Average,
    "earliest": ByOffset,
    "latest": ByOffset,
    "collect_list": Collected,
    "collect_set": Collected,
    "loop": Looped,
}

_KNOWN_TYPES_MAX = 1024
_known_types: dict[tuple[int, int], tuple[BuiltInAggregate, EdgeSchema, list[pl.DataType | None]]] = {}
"""What `input_types` has found: nodes in rows ask again in every epoch. Holds what its keys are the ids of."""
_known_lock = threading.Lock()


def built_ins(aggregation: BuiltInAggregate, types: Sequence[pl.DataType | None] | None = None) -> list[BuiltIn]:
    """The fields of an aggregate, made ready.

    Args:
        aggregation: the fields.
        types: type of each field's input, `None` where it is unknown or there is no input.

    Raises:
        TopologyError: `INVALID_AGGREGATE`: a function does not take this type.
    """
    known = types if types is not None else [None] * len(aggregation.fields)
    return [_class_of(field)(field, dtype) for field, dtype in zip(aggregation.fields, known, strict=True)]


def _class_of(field: FieldAggregate) -> type[BuiltIn]:
    kind = _CLASSES[field.function]
    return Collected if kind is ByOffset and field.size is not None else kind


def input_types(node: str, aggregation: BuiltInAggregate, edge: EdgeSchema) -> list[pl.DataType | None]:
    """Type of each field's input on an edge with a known schema; `None` where there is no input.

    Raises:
        TopologyError: an input names a field that is not there, or does not fit the types.
    """
    key = (id(aggregation), id(edge))
    known = _known_types.get(key)
    if known is None:
        types = visible(edge)
        found = [None if field.input is None else result_type(node, field.input, types) for field in aggregation.fields]
        with _known_lock:
            while len(_known_types) >= _KNOWN_TYPES_MAX:
                del _known_types[next(iter(_known_types))]
            known = _known_types[key] = (aggregation, edge, found)
    return known[2]


def result_schema(aggregation: BuiltInAggregate, types: list[pl.DataType | None]) -> Schema:
    """Schema of the values of the aggregate's table.

    Args:
        aggregation: whose results they are.
        types: what `input_types` gave.

    Raises:
        TopologyError: `INVALID_AGGREGATE`: a function does not take its input's type.
    """
    parts = built_ins(aggregation, types)
    if aggregation.bare:
        return Schema(((BARE_FIELD, parts[0].result_type),), bare=True)
    return Schema(tuple((part.name, part.result_type) for part in parts), python_type=dict)
