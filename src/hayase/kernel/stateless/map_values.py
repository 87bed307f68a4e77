"""New values from keys and values."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import polars as pl

from hayase.core.records import Record
from hayase.kernel.frame.callables import with_values
from hayase.kernel.frame.expressions import CompiledValue, carried, compile_value, visible
from hayase.kernel.frame.vectorized import results_of, with_new_values
from hayase.kernel.node.column_node import ColumnContext, ColumnNode, CompileContext, evaluate
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.stateless.mapper import MapperCalls, MapperRows, called_schema
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import MapValues, VectorizedFunction


class MapValuesRows(MapperRows):
    """MapValues in row form. Called for null values too."""

    def process(self, record: Record) -> None:
        """Pass the record on with its new value."""
        self.ctx.forward(Record(record.key, self._map(record), record.timestamp_ms, record.headers))


class MapValuesExpressions(ColumnNode):
    """MapValues in column form, by expressions."""

    def __init__(self, name: str, output: EdgeSchema, value: CompiledValue) -> None:
        super().__init__(name, output)
        self._value = value

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """The same rows with new values."""
        return evaluate(inputs[0], lambda frame: self._value.on(frame, carried(frame)), ctx)


class MapValuesCalls(MapperCalls):
    """MapValues in column form, by a callable whose results have a schema."""

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """The same rows with new values."""
        frame, results = self.called(inputs[0], carried(inputs[0]), ctx)
        return with_values(frame, results, self._schema, ctx)


class MapValuesVectorized(ColumnNode):
    """MapValues in column form, by the column form of a function."""

    def __init__(self, name: str, output: EdgeSchema, mapper: VectorizedFunction) -> None:
        super().__init__(name, output)
        self._mapper = mapper

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """The same rows with new values."""
        frame = inputs[0]
        return with_new_values(frame, carried(frame), results_of(self._mapper, self.name, ctx, frame))


def map_values_columns(node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext) -> ColumnNode | None:
    """The column form; a callable has one if the schema of its results is known."""
    operator, (edge,) = node.operator, inputs
    assert isinstance(operator, MapValues)
    if isinstance(operator.mapper, pl.Expr | tuple):
        value = compile_value(node.name, operator.mapper, visible(edge))
        return MapValuesExpressions(node.name, dataclasses.replace(edge, value=value.schema), value)
    if isinstance(operator.mapper, VectorizedFunction):
        output = dataclasses.replace(edge, value=operator.mapper.schema)
        return MapValuesVectorized(node.name, output, operator.mapper)
    schema = called_schema(operator, edge)
    if schema is None:
        return None
    return MapValuesCalls(node.name, edge, dataclasses.replace(edge, value=schema), operator.mapper, schema)
