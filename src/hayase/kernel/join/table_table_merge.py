"""Where the results of both sides of a join of tables become one table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from hayase.core.records import Change, Record
from hayase.kernel.frame.order import MergeOrder, RecordOrder
from hayase.kernel.frame.stored_columns import StoredTable
from hayase.kernel.join.joined_tables_columns import JoinedTables
from hayase.kernel.join.table_reader_columns import JoinedView
from hayase.kernel.join.table_table import JoinedRow
from hayase.kernel.node.column_node import ColumnContext, ColumnNode, CompileContext, TableColumns
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.node.row_node import RowContext, RowNode, TableEmitter, TableRows
from hayase.kernel.stateless.merge import merge_in_order
from hayase.kernel.table.table_rows import StoredRows
from hayase.kernel.table.versioned_rows import VersionedRows, rows_of
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import TableJoinMerge


class TableJoinMergeRows(RowNode):
    """TableJoinMerge in row form; `table_rows` are those of the store, or computed from the two tables."""

    def __init__(self, node: ProcessorNode, operator: TableJoinMerge, ctx: RowContext) -> None:
        super().__init__(ctx)
        self._rows: StoredRows | VersionedRows | None = None
        if operator.store is None:
            joined = JoinedRow(ctx, operator.joiner, operator.left, operator.right)
            self._view: TableRows = _JoinedRows(ctx.table(operator.left), ctx.table(operator.right), joined)
            return
        self._rows = self._view = rows_of(ctx.env, operator.store, self.name)
        caching = ctx.env.store_spec(operator.store).caching
        self._reads_old = caching or operator.old_values
        self._emitter = TableEmitter(ctx, caching=caching, key_bytes=self._rows.key_bytes)

    def process(self, record: Record) -> None:
        """Take one update of either side."""
        rows = self._rows
        if rows is None:
            self.ctx.forward(record)
            return
        new = record.value.new
        old = rows.value(record.key) if self._reads_old else None
        is_latest = rows.put(record.key, new, record.timestamp_ms)
        if is_latest is not None:
            self._emitter.emit(record.with_value(Change(new, old, is_latest)))

    def flush(self) -> None:
        """Send on what the cache holds."""
        if self._rows is not None:
            self._emitter.flush()

    def table_rows(self) -> TableRows:
        """The joined rows."""
        return self._view


class _JoinedRows:
    """Rows of a join without a store."""

    def __init__(self, left: TableRows, right: TableRows, joined: JoinedRow) -> None:
        self._left, self._right, self._joined = left, right, joined

    def get(self, key: Any) -> tuple[Any, int] | None:
        """Value and timestamp of the row; `None` if there is none."""
        left, right = self._left.get(key), self._right.get(key)
        timestamp_ms = max(row[1] if row is not None else -1 for row in (left, right))
        value = self._joined(Record(key, None, timestamp_ms), left and left[0], right and right[0])
        return None if value is None else (value, timestamp_ms)


class TableJoinMergeColumns(ColumnNode):
    """TableJoinMerge in column form.

    Args:
        order: how the updates of both sides are merged.
        table: the table with a store, if it has one.
        view: the table without.
    """

    def __init__(
        self, name: str, output: EdgeSchema, order: MergeOrder, table: StoredTable | None, view: JoinedView | None
    ) -> None:
        super().__init__(name, output)
        self._order = order
        self._table = table
        self._rows: TableColumns | None = view

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """The updates of both sides, in the order in which the row form would see them."""
        updates = merge_in_order(inputs, self._order)
        if self._table is None:
            return updates
        sent, self._rows = self._table.run(updates, ctx)
        return sent

    def table_columns(self) -> TableColumns | None:
        """The joined rows."""
        return self._rows


def table_join_merge_columns(
    node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext
) -> ColumnNode | None:
    """The column form; it needs a topology whose order columns tell the order, and a store whose serdes have one."""
    operator, first = node.operator, inputs[0]
    assert isinstance(operator, TableJoinMerge)
    if not all(edge == first for edge in inputs):
        return None
    edges = [(parent, node.name) for parent in node.parents]
    order = RecordOrder(ctx.nodes, ctx.stores, caching=ctx.caching).merge(edges)
    left, right = ctx.tables.get(operator.left), ctx.tables.get(operator.right)
    if order is None or left is None or right is None:
        return None
    output = EdgeSchema(first.key, first.value, table=True, old_values=operator.old_values)
    if operator.store is None:
        joined = JoinedTables.compile(node.name, operator.joiner, left, right)
        if joined is None or first.old_values != operator.old_values:
            return None
        return TableJoinMergeColumns(node.name, output, order, None, JoinedView(joined))
    table = StoredTable.compile(node.name, operator.store, first, ctx, old_values=operator.old_values)
    return None if table is None else TableJoinMergeColumns(node.name, output, order, table, None)
