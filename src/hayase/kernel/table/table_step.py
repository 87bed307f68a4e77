"""Nodes that change a table's rows one by one (filter, map_values).

With a store of their own, or computed when read.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, TypeVar

import polars as pl

from hayase.core.records import Change, Record
from hayase.kernel.frame.stored_columns import StoredTable
from hayase.kernel.node.column_node import NULL, OLD_NULL, ColumnContext, ColumnNode, CompileContext, TableColumns
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.node.row_node import OperatorRows, RowContext, TableEmitter, TableRows
from hayase.kernel.table.table_rows import ComputedRows, StoredRows
from hayase.kernel.table.table_step_columns import TableStep, stepped
from hayase.kernel.table.versioned_rows import VersionedRows, rows_of
from hayase.kernel.table.view_columns import view_over
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import TableFilter, TableMapValues, TableTransformValues

StepOperator = TypeVar("StepOperator", bound=TableFilter | TableMapValues | TableTransformValues)


class TableStepRows(OperatorRows[StepOperator]):
    """The row form. `suppress`: a delete of what is known not to have been there is not sent."""

    suppress = False

    def __init__(self, node: ProcessorNode, operator: StepOperator, ctx: RowContext) -> None:
        super().__init__(node, operator, ctx)
        self._rows: StoredRows | VersionedRows | None = None
        self._view: TableRows | None = None
        if operator.store is not None:
            self._rows = self._view = rows_of(ctx.env, operator.store, self.name)
            caching = ctx.env.store_spec(operator.store).caching
            self._reads_old = caching or operator.old_values
            self._emitter = TableEmitter(ctx, caching=caching, key_bytes=self._rows.key_bytes)
        elif operator.parent in ctx.tables:
            self._view = ComputedRows(ctx.table(operator.parent), self.compute)

    @abstractmethod
    def compute(self, key: object, value: object, timestamp_ms: int) -> Any:
        """The row's new value; `None` is no row."""

    def process(self, record: Record) -> None:
        """Take one update of the parent."""
        key, change, known = record.key, record.value, self._operator.old_values
        new = self.compute(key, change.new, record.timestamp_ms)
        if self._rows is not None:
            old = self._rows.value(key) if self._reads_old else None
        else:
            old = self.compute(key, change.old, record.timestamp_ms) if known else None
        if self.suppress and known and old is None and new is None:
            return
        if self._rows is None:
            self.ctx.forward(record.with_value(Change(new, old, change.is_latest)))
            return
        is_latest = self._rows.put(key, new, record.timestamp_ms)
        if is_latest is not None:
            self._emitter.emit(record.with_value(Change(new, old, is_latest)))

    def flush(self) -> None:
        """Send on what the cache holds."""
        if self._rows is not None:
            self._emitter.flush()

    def table_rows(self) -> TableRows | None:
        """The rows of the store, or the parent's with the step done."""
        return self._view


class TableStepColumns(ColumnNode):
    """The column form; `table` is `None` if there is no store.

    `suppress` as in the row form; a store does it by itself.
    """

    def __init__(
        self,
        name: str,
        output: EdgeSchema,
        parent: str,
        step: TableStep,
        table: StoredTable | None,
        *,
        suppress: bool,
    ) -> None:
        super().__init__(name, output)
        self._parent = parent
        self._step = step
        self._table = table
        self._suppress = suppress
        self._rows: TableColumns | None = None

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """The updates."""
        if self._table is not None:
            updates = stepped(self._step, inputs[0], ctx, old_values=False)
            sent, self._rows = self._table.run(updates, ctx)
            return sent
        self._rows = view_over(self._parent, self._step, ctx)
        updates = stepped(self._step, inputs[0], ctx, old_values=self.output.old_values)
        return updates.filter(~(pl.col(NULL) & pl.col(OLD_NULL))) if self._suppress else updates

    def table_columns(self) -> TableColumns | None:
        """The rows of the store, or the parent's with the step done."""
        return self._rows


def old_values_missing(operator: TableFilter | TableMapValues, edge: EdgeSchema) -> bool:
    """Whether old values are wanted that neither a store nor the parent gives."""
    return operator.old_values and operator.store is None and not edge.old_values


def table_step_columns(
    node: ProcessorNode, step: TableStep, output: EdgeSchema, ctx: CompileContext, *, suppress: bool
) -> ColumnNode | None:
    """The column form of a step; `None` if its store has none."""
    operator = node.operator
    assert isinstance(operator, TableFilter | TableMapValues)
    table: StoredTable | None = None
    if operator.store is not None:
        table = StoredTable.compile(
            node.name, operator.store, output, ctx, old_values=operator.old_values, suppress=suppress
        )
        if table is None:
            return None
    return TableStepColumns(node.name, output, operator.parent, step, table, suppress=suppress)
