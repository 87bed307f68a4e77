"""New values from keys and values."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from hayase.core.records import Record
from hayase.kernel.calls import call_each, with_values
from hayase.kernel.columns import ColumnContext, ColumnNode, CompileContext, EdgeSchema, evaluate
from hayase.kernel.compiled import CompiledValue, carried, compile_value, known, visible
from hayase.kernel.functions import row_mapper
from hayase.kernel.python_values import has_python_records, has_python_values, record_keys, record_values
from hayase.kernel.rows import RowContext, RowNode
from hayase.serde.protocol import Schema
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import MapValues


class MapValuesRows(RowNode):
    """MapValues in row form. Called for null values too."""

    def __init__(self, node: ProcessorNode, operator: MapValues) -> None:
        super().__init__(node.name)
        self._parent = node.parents[0]
        self._operator = operator

    def open(self, ctx: RowContext) -> None:
        """Start of an epoch."""
        super().open(ctx)
        self._map = row_mapper(self.name, self._operator.mapper, ctx.schemas.get(self._parent))

    def process(self, record: Record[Any, Any]) -> None:
        """Pass the record on with its new value."""
        self.ctx.forward(record.with_value(self._map(record)))


class MapValuesExpressions(ColumnNode):
    """MapValues in column form, by expressions."""

    def __init__(self, name: str, output: EdgeSchema, value: CompiledValue) -> None:
        super().__init__(name, output)
        self._value = value

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """The same rows with new values."""
        return evaluate(inputs[0], lambda frame: self._value.on(frame, carried(frame)), ctx)


class MapValuesCalls(ColumnNode):
    """MapValues in column form, by a callable whose results have a schema."""

    def __init__(self, name: str, edge: EdgeSchema, mapper: Callable[[Any, Any], Any], schema: Schema) -> None:
        super().__init__(name, dataclasses.replace(edge, value=schema))
        self._edge = edge
        self._mapper = mapper
        self._schema = schema

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """The same rows with new values."""
        frame = inputs[0]
        arguments = record_keys(frame, self._edge), record_values(frame, self._edge)
        frame, results = call_each(frame.select(carried(frame)), arguments, self._mapper, ctx)
        return with_values(frame, results, self._schema, ctx)


def map_values_columns(node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext) -> ColumnNode | None:
    """The column form; a callable has one if the schema of its results is known."""
    operator, (edge,) = node.operator, inputs
    assert isinstance(operator, MapValues)
    if not known(edge):
        return None
    if isinstance(operator.mapper, pl.Expr | tuple):
        value = compile_value(node.name, operator.mapper, visible(edge))
        return MapValuesExpressions(node.name, dataclasses.replace(edge, value=value.schema), value)
    if operator.schema is None or not has_python_values(operator.schema) or not has_python_records(edge):
        return None
    return MapValuesCalls(node.name, edge, operator.mapper, operator.schema)
