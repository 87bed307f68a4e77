"""The rows of a table with new values."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import polars as pl

from hayase.core.records import Change, Record
from hayase.kernel.columns import ColumnContext, ColumnNode, CompileContext, EdgeSchema, TableColumns
from hayase.kernel.compiled import compile_value, known, visible
from hayase.kernel.functions import row_mapper
from hayase.kernel.python_values import has_python_records, has_python_values
from hayase.kernel.rows import RowContext, RowNode, TableEmitter, TableRows
from hayase.kernel.stored_columns import StoredTable
from hayase.kernel.table import ComputedRows, StoredRows
from hayase.kernel.table_step import MapStep, TableStep, stepped
from hayase.kernel.table_view import view_over
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import TableMapValues


class TableMapValuesRows(RowNode):
    """TableMapValues in row form. Every update of the parent is sent on, deletes as deletes."""

    def __init__(self, node: ProcessorNode, operator: TableMapValues) -> None:
        super().__init__(node.name)
        self._operator = operator
        self._rows: StoredRows | None = None
        self._view: TableRows | None = None

    def open(self, ctx: RowContext) -> None:
        """Start of an epoch."""
        super().open(ctx)
        operator = self._operator
        self._map = row_mapper(self.name, operator.mapper, ctx.schemas.get(operator.parent))
        if operator.store is not None:
            self._rows = self._view = StoredRows.of(ctx.env, operator.store)
            caching = ctx.env.store_spec(operator.store).caching
            self._reads_old = caching or operator.old_values
            self._emitter = TableEmitter(ctx, caching=caching, key_bytes=self._rows.key_bytes)
        elif operator.parent in ctx.tables:
            self._view = ComputedRows(ctx.table(operator.parent), self._compute)

    def _compute(self, key: Any, value: Any, timestamp_ms: int) -> Any:
        return None if value is None else self._map(Record(key, value, timestamp_ms))

    def process(self, record: Record[Any, Any]) -> None:
        """Take one update of the parent."""
        key, change = record.key, record.value
        new = self._compute(key, change.new, record.timestamp_ms)
        if self._rows is None:
            old = self._compute(key, change.old, record.timestamp_ms) if self._operator.old_values else None
            self.ctx.forward(record.with_value(Change(new, old)))
            return
        old = self._rows.value(key) if self._reads_old else None
        self._rows.put(key, new, record.timestamp_ms)
        self._emitter.emit(record.with_value(Change(new, old)))

    def flush(self) -> None:
        """Send on what the cache holds."""
        if self._rows is not None:
            self._emitter.flush()

    def table_rows(self) -> TableRows | None:
        """The rows of the store, or the parent's with new values."""
        return self._view


class TableMapValuesColumns(ColumnNode):
    """TableMapValues in column form; `table` is `None` if it has no store."""

    def __init__(
        self, name: str, output: EdgeSchema, operator: TableMapValues, step: TableStep, table: StoredTable | None
    ) -> None:
        super().__init__(name, output)
        self._operator = operator
        self._step = step
        self._table = table
        self._rows: TableColumns | None = None

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """The updates."""
        operator = self._operator
        if self._table is not None:
            updates = stepped(self._step, inputs[0], ctx, old_values=False)
            sent, self._rows = self._table.run(updates, ctx)
            return sent
        self._rows = view_over(operator.parent, self._step, ctx)
        return stepped(self._step, inputs[0], ctx, old_values=operator.old_values)

    def table_columns(self) -> TableColumns | None:
        """The rows of the store, or the parent's with new values."""
        return self._rows


def table_map_values_columns(
    node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext
) -> ColumnNode | None:
    """The column form; a callable has one if the schema of its results is known, a store if that of its serdes is."""
    operator, (edge,) = node.operator, inputs
    assert isinstance(operator, TableMapValues)
    if not known(edge) or (operator.old_values and operator.store is None and not edge.old_values):
        return None
    if isinstance(operator.mapper, pl.Expr | tuple):
        value = compile_value(node.name, operator.mapper, visible(edge))
        step = MapStep(edge, value, value.schema)
    elif operator.schema is not None and has_python_values(operator.schema) and has_python_records(edge):
        step = MapStep(edge, operator.mapper, operator.schema)
    else:
        return None
    output = dataclasses.replace(edge, value=step.schema, old_values=operator.old_values)
    if operator.store is None:
        return TableMapValuesColumns(node.name, output, operator, step, None)
    table = StoredTable.compile(node.name, operator.store, output, ctx, old_values=operator.old_values)
    return None if table is None else TableMapValuesColumns(node.name, output, operator, step, table)
