"""Zero or more values from each key and value."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import polars as pl

from hayase.core.errors import TopologyError
from hayase.core.records import Record
from hayase.kernel.frame.callables import repeated, with_values
from hayase.kernel.frame.expressions import carried, instance, result_type, schema_of_type, visible
from hayase.kernel.frame.pairs import items_of
from hayase.kernel.frame.vectorized import results_of
from hayase.kernel.node.column_node import (
    NULL,
    ORDER,
    ColumnContext,
    ColumnNode,
    CompileContext,
    evaluate,
    order_columns,
)
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.node.row_node import RowContext
from hayase.kernel.stateless.mapper import MapperCalls, MapperRows, called_schema
from hayase.serde.protocol import BARE_FIELD
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import ROW, FlatMapValues, VectorizedFunction

ITEMS = "__items"


class FlatMapValuesRows(MapperRows):
    """FlatMapValues in row form.

    All values of a record are taken from the mapper before the first is passed on, so an error leaves none of them. An
    expression that gives null gives no values.
    """

    def __init__(self, node: ProcessorNode, operator: FlatMapValues, ctx: RowContext) -> None:
        super().__init__(node, operator, ctx)
        if isinstance(operator.mapper, pl.Expr):
            mapper = self._map
            self._map = lambda record: listed(mapper(record), "flat_map_values")
        else:
            called, function = self._map, operator.mapper
            self._map = lambda record: items_of(called(record), function, "flat_map_values")

    def process(self, record: Record) -> None:
        """Pass on one record per value, in order."""
        for value in self._map(record):
            self.ctx.forward(record.with_value(value))


def listed(result: object, what: str) -> list[Any]:
    """What an expression gave, if it is a list; null is none."""
    if result is None:
        return []
    if not isinstance(result, list):
        raise TypeError(f"{what} needs an expression that gives a list; it gives {result!r}")
    return result


class FlatMapValuesExpression(ColumnNode):
    """FlatMapValues in column form, by an expression that gives a list."""

    def __init__(self, name: str, output: EdgeSchema, items: pl.Expr) -> None:
        super().__init__(name, output)
        self._items = items

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """One row per item."""
        rows = exploded(evaluate(inputs[0], self._listed, ctx))
        rows = rows.with_columns(pl.col(ITEMS).is_null().alias(NULL))
        return rows.rename({ITEMS: BARE_FIELD}) if self.output.value.bare else rows.unnest(ITEMS)

    def _listed(self, frame: pl.DataFrame) -> pl.DataFrame:
        return frame.select(*carried(frame), self._items.alias(ITEMS))


class FlatMapValuesCalls(MapperCalls):
    """FlatMapValues in column form, by a callable that gives lists of items with a schema."""

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """One row per item."""
        frame, items = self.called(inputs[0], carried(inputs[0]), ctx)
        return with_values(repeated(frame, items), [item for some in items for item in some], self._schema, ctx)


class FlatMapValuesVectorized(ColumnNode):
    """FlatMapValues in column form, by the column form of a function; `__row` says which row each result is of."""

    def __init__(self, name: str, output: EdgeSchema, mapper: VectorizedFunction) -> None:
        super().__init__(name, output)
        self._mapper = mapper

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """One row per result."""
        frame = inputs[0]
        results = results_of(self._mapper, self.name, ctx, frame)
        kept = frame.select(pl.col(carried(frame)).gather(results[ROW]))
        order = pl.int_range(pl.len(), dtype=pl.Int64).over(ROW).alias(f"{ORDER}{len(order_columns(frame))}")
        numbered = results.with_columns(order).drop(ROW)
        return kept.with_columns(numbered.get_columns())


def exploded(frame: pl.DataFrame) -> pl.DataFrame:
    """One row per item of the lists in `__items`, numbered by one more order column."""
    order = f"{ORDER}{len(order_columns(frame))}"
    return (
        frame.filter(pl.col(ITEMS).list.len() > 0)
        .with_columns(pl.int_ranges(pl.col(ITEMS).list.len(), dtype=pl.Int64).alias(order))
        .explode(ITEMS, order)
    )


def flat_map_values_columns(
    node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext
) -> ColumnNode | None:
    """The column form; a callable has one if the schema of its items is known."""
    operator, (edge,) = node.operator, inputs
    assert isinstance(operator, FlatMapValues)
    if isinstance(operator.mapper, pl.Expr):
        dtype = result_type(node.name, operator.mapper, visible(edge))
        if not isinstance(dtype, pl.List):
            raise TopologyError(
                "INVALID_EXPRESSION",
                f"{operator.mapper} gives {dtype}; flat_map_values needs an expression that gives a list",
                node=node.name,
            )
        schema = schema_of_type(instance(dtype.inner))
        return FlatMapValuesExpression(node.name, dataclasses.replace(edge, value=schema), operator.mapper)
    if isinstance(operator.mapper, VectorizedFunction):
        output = dataclasses.replace(edge, value=operator.mapper.schema)
        return FlatMapValuesVectorized(node.name, output, operator.mapper)
    called, mapper = called_schema(operator, edge), operator.mapper
    if called is None:
        return None
    output = dataclasses.replace(edge, value=called)
    return FlatMapValuesCalls(
        node.name, edge, output, lambda key, value: items_of(mapper(key, value), mapper, "flat_map_values"), called
    )
