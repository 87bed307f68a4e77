"""New keys and values from keys and values."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from hayase.core.records import Record
from hayase.kernel.frame.callables import call_each, with_pairs
from hayase.kernel.frame.expressions import (
    CompiledValue,
    carried,
    compile_value,
    result_type,
    schema_of_type,
    visible,
)
from hayase.kernel.frame.pairs import pair_of
from hayase.kernel.frame.python_values import has_python_records, has_python_values, record_keys, record_values
from hayase.kernel.frame.row_functions import RecordFunction, row_mapper
from hayase.kernel.frame.vectorized import results_of, with_new_values
from hayase.kernel.node.column_node import (
    KEY,
    TS,
    WINDOW_END,
    WINDOW_START,
    ColumnContext,
    ColumnNode,
    CompileContext,
    evaluate,
)
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.node.row_node import OperatorRows, RowContext
from hayase.serde.protocol import Schema
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import Map, VectorizedFunction


class MapRows(OperatorRows[Map]):
    """Map in row form; timestamp and headers stay."""

    def __init__(self, node: ProcessorNode, operator: Map, ctx: RowContext) -> None:
        super().__init__(node, operator, ctx)
        edge = self.edge
        self._key: RecordFunction = lambda record: record.key
        self._value: RecordFunction = lambda record: record.value
        if operator.key is not None:
            self._key = row_mapper(self.name, operator.key, edge)
        if operator.value is not None:
            self._value = row_mapper(self.name, operator.value, edge)

    def process(self, record: Record) -> None:
        """Pass on the record that the mapper makes."""
        mapper = self._operator.mapper
        if mapper is not None:
            key, value = pair_of(mapper(record.key, record.value), mapper, "map")
        else:
            key, value = self._key(record), self._value(record)
        self.ctx.forward(Record(key, value, record.timestamp_ms, record.headers))


class MapExpressions(ColumnNode):
    """Map in column form, by expressions for the key, the value or both."""

    def __init__(self, name: str, output: EdgeSchema, key: pl.Expr | None, value: CompiledValue | None) -> None:
        super().__init__(name, output)
        self._key = key
        self._value = value

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """The same rows with new keys and values, both computed from the old ones."""
        return evaluate(inputs[0], self._mapped, ctx)

    def _mapped(self, frame: pl.DataFrame) -> pl.DataFrame:
        if self._key is None:
            return frame if self._value is None else self._value.on(frame, carried(frame))
        if self._value is None:
            return frame.drop(WINDOW_START, WINDOW_END, strict=False).with_columns(self._key.alias(KEY))
        key = frame.select(pl.col(TS), self._key.alias(KEY))[KEY]  # with a column beside it a literal has all rows
        return self._value.on(frame, carried(frame, key=False, windows=False)).with_columns(key)


class MapCalls(ColumnNode):
    """Map in column form, by a callable whose keys and values have schemas."""

    def __init__(
        self, name: str, edge: EdgeSchema, mapper: Callable[[Any, Any], Any], key: Schema, value: Schema
    ) -> None:
        super().__init__(name, dataclasses.replace(edge, key=key, value=value, windowed=False))
        self._edge = edge
        self._mapper = mapper
        self._key = key
        self._value = value

    def _pair(self, key: object, value: object) -> tuple[Any, Any]:
        return pair_of(self._mapper(key, value), self._mapper, "map")

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """The same rows with new keys and values."""
        frame = inputs[0]
        arguments = record_keys(frame, self._edge), record_values(frame, self._edge)
        kept = carried(frame, key=False, windows=False)
        frame, pairs = call_each(frame.select(kept), arguments, self._pair, ctx)
        return with_pairs(frame, pairs, self._key, self._value, ctx)


class MapVectorized(ColumnNode):
    """Map in column form, by the column form of a function that makes pairs."""

    def __init__(self, name: str, output: EdgeSchema, mapper: VectorizedFunction) -> None:
        super().__init__(name, output)
        self._mapper = mapper

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """The same rows with new keys and values."""
        frame = inputs[0]
        kept = carried(frame, key=False, windows=False)
        return with_new_values(frame, kept, results_of(self._mapper, self.name, ctx, frame))


def map_columns(node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext) -> ColumnNode | None:
    """The column form; a callable has one if the schemas of its keys and values are known."""
    operator, (edge,) = node.operator, inputs
    assert isinstance(operator, Map)
    if operator.mapper is None:
        return _expressions(node.name, operator, edge)
    if isinstance(operator.mapper, VectorizedFunction):
        pairs = operator.mapper
        assert pairs.key_schema is not None
        output = dataclasses.replace(edge, key=pairs.key_schema, value=pairs.schema, windowed=False)
        return MapVectorized(node.name, output, pairs)
    key, value = operator.key_schema, operator.value_schema
    if key is None or value is None or not (has_python_values(key) and has_python_values(value)):
        return None
    return MapCalls(node.name, edge, operator.mapper, key, value) if has_python_records(edge) else None


def _expressions(name: str, operator: Map, edge: EdgeSchema) -> ColumnNode:
    types, output, value = visible(edge), edge, None
    if operator.value is not None:
        value = compile_value(name, operator.value, types)
        output = dataclasses.replace(output, value=value.schema)
    if operator.key is not None:
        output = dataclasses.replace(output, key=schema_of_type(result_type(name, operator.key, types)), windowed=False)
    return MapExpressions(name, output, operator.key, value)
