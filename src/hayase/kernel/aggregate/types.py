"""Types of built-in aggregates in columns: inputs from the edge's schema, results from the functions."""

from __future__ import annotations

import polars as pl

from hayase.kernel.aggregate.built_ins import built_ins
from hayase.kernel.frame.compiled_expressions import result_type, visible
from hayase.kernel.node.edge import EdgeSchema
from hayase.serde.protocol import BARE_FIELD, Schema
from hayase.topology.operators import BuiltInAggregate


def input_types(node: str, aggregation: BuiltInAggregate, edge: EdgeSchema) -> list[pl.DataType | None]:
    """Type of each field's input on an edge with a known schema; `None` where there is no input.

    Raises:
        TopologyError: an input names a field that is not there, or does not fit the types.
    """
    types = visible(edge)
    return [None if field.input is None else result_type(node, field.input, types) for field in aggregation.fields]


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
