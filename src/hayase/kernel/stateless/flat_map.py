"""Zero or more records, with keys of their own, from each key and value."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from hayase.core.errors import TopologyError
from hayase.core.records import Record
from hayase.kernel.frame.callables import call_each, repeated, with_pairs
from hayase.kernel.frame.expressions import carried, instance, result_type, schema_of_type, visible
from hayase.kernel.frame.pairs import pairs_of
from hayase.kernel.frame.python_values import has_python_records, has_python_values, record_keys, record_values
from hayase.kernel.frame.row_functions import row_mapper
from hayase.kernel.node.column_node import KEY, NULL, ColumnContext, ColumnNode, CompileContext, evaluate
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.node.row_node import OperatorRows, RowContext
from hayase.kernel.stateless.flat_map_values import ITEMS, exploded, listed
from hayase.serde.protocol import BARE_FIELD, Schema
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import FlatMap

PAIR = ("key", "value")
"""Fields of the structs in an expression's list."""


class FlatMapRows(OperatorRows[FlatMap]):
    """FlatMap in row form.

    All pairs of a record are taken from the mapper before the first is passed on, so an error leaves none of them. An
    expression that gives null gives no records; a null in its list is a record without key and value.
    """

    def __init__(self, node: ProcessorNode, operator: FlatMap, ctx: RowContext) -> None:
        super().__init__(node, operator, ctx)
        mapper = row_mapper(self.name, self._operator.mapper, self.edge)
        if isinstance(self._operator.mapper, pl.Expr):
            self._map: Callable[[Record], Any] = lambda record: map(_pair_of, listed(mapper(record), "flat_map"))
        else:
            function = self._operator.mapper
            self._map = lambda record: pairs_of(mapper(record), function, "flat_map")

    def process(self, record: Record) -> None:
        """Pass on one record per pair, in order."""
        for key, value in [(key, value) for key, value in self._map(record)]:
            self.ctx.forward(Record(key, value, record.timestamp_ms, record.headers))


def _pair_of(item: Any) -> tuple[Any, Any]:
    return (None, None) if item is None else (item["key"], item["value"])


class FlatMapExpression(ColumnNode):
    """FlatMap in column form, by an expression that gives a list of structs of key and value."""

    def __init__(self, name: str, output: EdgeSchema, items: pl.Expr) -> None:
        super().__init__(name, output)
        self._items = items

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """One row per pair."""
        rows = exploded(evaluate(inputs[0], self._listed, ctx))
        item = pl.col(ITEMS).struct
        rows = rows.select(
            item.field("key").alias(KEY),
            pl.all().exclude(ITEMS),
            item.field("value").alias(ITEMS),
        ).with_columns(pl.col(ITEMS).is_null().alias(NULL))
        return rows.rename({ITEMS: BARE_FIELD}) if self.output.value.bare else rows.unnest(ITEMS)

    def _listed(self, frame: pl.DataFrame) -> pl.DataFrame:
        return frame.select(*carried(frame, key=False, windows=False), self._items.alias(ITEMS))


class FlatMapCalls(ColumnNode):
    """FlatMap in column form, by a callable whose keys and values have schemas."""

    def __init__(
        self, name: str, edge: EdgeSchema, mapper: Callable[[Any, Any], Any], key: Schema, value: Schema
    ) -> None:
        super().__init__(name, dataclasses.replace(edge, key=key, value=value, windowed=False))
        self._edge = edge
        self._mapper = mapper
        self._key = key
        self._value = value

    def _pairs(self, key: object, value: object) -> list[tuple[Any, Any]]:
        return pairs_of(self._mapper(key, value), self._mapper, "flat_map")

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """One row per pair."""
        frame = inputs[0]
        arguments = record_keys(frame, self._edge), record_values(frame, self._edge)
        kept = carried(frame, key=False, windows=False)
        frame, pairs = call_each(frame.select(kept), arguments, self._pairs, ctx)
        every = [pair for some in pairs for pair in some]
        return with_pairs(repeated(frame, pairs), every, self._key, self._value, ctx)


def flat_map_columns(node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext) -> ColumnNode | None:
    """The column form; a callable has one if the schemas of its keys and values are known."""
    operator, (edge,) = node.operator, inputs
    assert isinstance(operator, FlatMap)
    if isinstance(operator.mapper, pl.Expr):
        key, value = _pair_schemas(node.name, operator.mapper, edge)
        output = dataclasses.replace(edge, key=key, value=value, windowed=False)
        return FlatMapExpression(node.name, output, operator.mapper)
    key_schema, value_schema = operator.key_schema, operator.value_schema
    if key_schema is None or value_schema is None or not has_python_records(edge):
        return None
    if not has_python_values(key_schema) or not has_python_values(value_schema):
        return None
    return FlatMapCalls(node.name, edge, operator.mapper, key_schema, value_schema)


def _pair_schemas(node: str, mapper: pl.Expr, edge: EdgeSchema) -> tuple[Schema, Schema]:
    dtype = result_type(node, mapper, visible(edge))
    item = instance(dtype.inner) if isinstance(dtype, pl.List) else None
    types = {field.name: instance(field.dtype) for field in item.fields} if isinstance(item, pl.Struct) else {}
    if tuple(sorted(types)) != PAIR:
        raise TopologyError(
            "INVALID_EXPRESSION",
            f"{mapper} gives {dtype}; flat_map needs an expression that gives a list of structs with the fields key "
            "and value",
            node=node,
        )
    return schema_of_type(types["key"]), schema_of_type(types["value"])
