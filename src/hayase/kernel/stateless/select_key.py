"""New keys from keys and values."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import polars as pl

from hayase.core.records import Record
from hayase.kernel.frame.callables import with_keys
from hayase.kernel.frame.expressions import result_type, schema_of_type, visible
from hayase.kernel.frame.vectorized import keys_of, results_of
from hayase.kernel.node.column_node import (
    KEY,
    WINDOW_END,
    WINDOW_START,
    ColumnContext,
    ColumnNode,
    CompileContext,
    evaluate,
)
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.stateless.mapper import MapperCalls, MapperRows, called_schema
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import SelectKey, VectorizedFunction


class SelectKeyRows(MapperRows):
    """SelectKey in row form; the new key may be null."""

    def process(self, record: Record) -> None:
        """Pass the record on under its new key."""
        self.ctx.forward(record.with_key(self._map(record)))


class SelectKeyExpression(ColumnNode):
    """SelectKey in column form, by an expression."""

    def __init__(self, name: str, output: EdgeSchema, key: pl.Expr) -> None:
        super().__init__(name, output)
        self._key = key

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """The same rows under new keys."""
        frame = inputs[0].drop(WINDOW_START, WINDOW_END, strict=False)
        return evaluate(frame, lambda part: part.with_columns(self._key.alias(KEY)), ctx)


class SelectKeyCalls(MapperCalls):
    """SelectKey in column form, by a callable whose results have a schema."""

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """The same rows under new keys."""
        frame, results = self.called(inputs[0], inputs[0].columns, ctx)
        return with_keys(frame.drop(WINDOW_START, WINDOW_END, strict=False), results, self._schema, ctx)


class SelectKeyVectorized(ColumnNode):
    """SelectKey in column form, by the column form of a function."""

    def __init__(self, name: str, output: EdgeSchema, mapper: VectorizedFunction) -> None:
        super().__init__(name, output)
        self._mapper = mapper

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """The same rows under new keys."""
        results = results_of(self._mapper, self.name, ctx, inputs[0])
        frame = inputs[0].drop(WINDOW_START, WINDOW_END, strict=False)
        return frame.with_columns(keys_of(results, self._mapper.schema))


def select_key_columns(node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext) -> ColumnNode | None:
    """The column form; a callable has one if the schema of its results is known."""
    operator, (edge,) = node.operator, inputs
    assert isinstance(operator, SelectKey)
    if isinstance(operator.mapper, pl.Expr):
        schema = schema_of_type(result_type(node.name, operator.mapper, visible(edge)))
        return SelectKeyExpression(node.name, dataclasses.replace(edge, key=schema, windowed=False), operator.mapper)
    if isinstance(operator.mapper, VectorizedFunction):
        output = dataclasses.replace(edge, key=operator.mapper.schema, windowed=False)
        return SelectKeyVectorized(node.name, output, operator.mapper)
    called = called_schema(operator, edge)
    if called is None:
        return None
    output = dataclasses.replace(edge, key=called, windowed=False)
    return SelectKeyCalls(node.name, edge, output, operator.mapper, called)
