"""New keys from keys and values."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from hayase.core.records import Record
from hayase.kernel.calls import call_each, with_keys
from hayase.kernel.columns import (
    KEY,
    WINDOW_END,
    WINDOW_START,
    ColumnContext,
    ColumnNode,
    CompileContext,
    EdgeSchema,
    evaluate,
)
from hayase.kernel.compiled import known, result_type, schema_of_type, visible
from hayase.kernel.functions import row_mapper
from hayase.kernel.python_values import has_python_records, has_python_values, record_keys, record_values
from hayase.kernel.rows import RowContext, RowNode
from hayase.serde.protocol import Schema
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import SelectKey


class SelectKeyRows(RowNode):
    """SelectKey in row form; the new key may be null."""

    def __init__(self, node: ProcessorNode, operator: SelectKey) -> None:
        super().__init__(node.name)
        self._parent = node.parents[0]
        self._operator = operator

    def open(self, ctx: RowContext) -> None:
        """Start of an epoch."""
        super().open(ctx)
        self._map = row_mapper(self.name, self._operator.mapper, ctx.schemas.get(self._parent))

    def process(self, record: Record[Any, Any]) -> None:
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


class SelectKeyCalls(ColumnNode):
    """SelectKey in column form, by a callable whose results have a schema."""

    def __init__(self, name: str, edge: EdgeSchema, mapper: Callable[[Any, Any], Any], schema: Schema) -> None:
        super().__init__(name, dataclasses.replace(edge, key=schema, windowed=False))
        self._edge = edge
        self._mapper = mapper
        self._schema = schema

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """The same rows under new keys."""
        frame = inputs[0]
        arguments = record_keys(frame, self._edge), record_values(frame, self._edge)
        frame, results = call_each(frame, arguments, self._mapper, ctx)
        return with_keys(frame.drop(WINDOW_START, WINDOW_END, strict=False), results, self._schema, ctx)


def select_key_columns(node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext) -> ColumnNode | None:
    """The column form; a callable has one if the schema of its results is known."""
    operator, (edge,) = node.operator, inputs
    assert isinstance(operator, SelectKey)
    if not known(edge):
        return None
    if isinstance(operator.mapper, pl.Expr):
        schema = schema_of_type(result_type(node.name, operator.mapper, visible(edge)))
        return SelectKeyExpression(node.name, dataclasses.replace(edge, key=schema, windowed=False), operator.mapper)
    if operator.schema is None or not has_python_values(operator.schema) or not has_python_records(edge):
        return None
    return SelectKeyCalls(node.name, edge, operator.mapper, operator.schema)
