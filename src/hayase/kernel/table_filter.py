"""The rows of a table for which a predicate holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import polars as pl

from hayase.core.records import Change, Record
from hayase.kernel.columns import NULL, OLD_NULL, ColumnContext, ColumnNode, CompileContext, EdgeSchema, TableColumns
from hayase.kernel.compiled import known, predicate_of, visible
from hayase.kernel.functions import row_predicate
from hayase.kernel.python_values import has_python_records
from hayase.kernel.rows import RowContext, RowNode, TableEmitter, TableRows
from hayase.kernel.stored_columns import StoredTable
from hayase.kernel.table import ComputedRows, StoredRows
from hayase.kernel.table_step import FilterStep, TableStep, stepped
from hayase.kernel.table_view import view_over
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import TableFilter


class TableFilterRows(RowNode):
    """TableFilter in row form.

    A row for which the predicate does not hold is a delete. Where old values are known, a delete of what was not there
    is not sent.
    """

    def __init__(self, node: ProcessorNode, operator: TableFilter) -> None:
        super().__init__(node.name)
        self._operator = operator
        self._rows: StoredRows | None = None
        self._view: TableRows | None = None

    def open(self, ctx: RowContext) -> None:
        """Start of an epoch."""
        super().open(ctx)
        operator = self._operator
        self._holds = row_predicate(self.name, operator.predicate, ctx.schemas.get(operator.parent))
        if operator.store is not None:
            self._rows = self._view = StoredRows.of(ctx.env, operator.store)
            caching = ctx.env.store_spec(operator.store).caching
            self._reads_old = caching or operator.old_values
            self._emitter = TableEmitter(ctx, caching=caching, key_bytes=self._rows.key_bytes)
        elif operator.parent in ctx.tables:
            self._view = ComputedRows(ctx.table(operator.parent), self._compute)

    def _compute(self, key: Any, value: Any, timestamp_ms: int) -> Any:
        if value is None:
            return None
        return value if self._holds(Record(key, value, timestamp_ms)) != self._operator.negate else None

    def process(self, record: Record[Any, Any]) -> None:
        """Take one update of the parent."""
        key, change, known = record.key, record.value, self._operator.old_values
        new = self._compute(key, change.new, record.timestamp_ms)
        if self._rows is not None:
            old = self._rows.value(key) if self._reads_old else None
        else:
            old = self._compute(key, change.old, record.timestamp_ms) if known else None
        if known and old is None and new is None:
            return
        if self._rows is None:
            self.ctx.forward(record.with_value(Change(new, old)))
            return
        self._rows.put(key, new, record.timestamp_ms)
        self._emitter.emit(record.with_value(Change(new, old)))

    def flush(self) -> None:
        """Send on what the cache holds."""
        if self._rows is not None:
            self._emitter.flush()

    def table_rows(self) -> TableRows | None:
        """The rows of the store, or the parent's that pass."""
        return self._view


class TableFilterColumns(ColumnNode):
    """TableFilter in column form; `table` is `None` if it has no store."""

    def __init__(
        self, name: str, output: EdgeSchema, operator: TableFilter, step: TableStep, table: StoredTable | None
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
        updates = stepped(self._step, inputs[0], ctx, old_values=operator.old_values)
        return updates.filter(~(pl.col(NULL) & pl.col(OLD_NULL))) if operator.old_values else updates

    def table_columns(self) -> TableColumns | None:
        """The rows of the store, or the parent's that pass."""
        return self._rows


def table_filter_columns(node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext) -> ColumnNode | None:
    """The column form; a store needs serdes that have one."""
    operator, (edge,) = node.operator, inputs
    assert isinstance(operator, TableFilter)
    if not known(edge) or (operator.old_values and operator.store is None and not edge.old_values):
        return None
    if isinstance(operator.predicate, pl.Expr):
        step = FilterStep(edge, predicate_of(node.name, operator.predicate, visible(edge)), negate=operator.negate)
    elif has_python_records(edge):
        step = FilterStep(edge, operator.predicate, negate=operator.negate)
    else:
        return None
    output = dataclasses.replace(edge, old_values=operator.old_values)
    if operator.store is None:
        return TableFilterColumns(node.name, output, operator, step, None)
    known_old = operator.old_values
    table = StoredTable.compile(node.name, operator.store, edge, ctx, old_values=known_old, suppress=known_old)
    return None if table is None else TableFilterColumns(node.name, output, operator, step, table)
