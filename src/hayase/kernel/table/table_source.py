"""A stream of upserts becomes a table."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import polars as pl

from hayase.core.metrics import DROPPED_RECORDS
from hayase.core.records import Change, Record
from hayase.kernel.frame.stored_columns import StoredTable
from hayase.kernel.node.column_node import KEY, ColumnContext, ColumnNode, CompileContext, TableColumns
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.node.row_node import RowContext, RowNode, TableEmitter, TableRows
from hayase.kernel.table.table_rows import StoredRows
from hayase.kernel.table.unavailable_columns import completed, no_row_before
from hayase.kernel.table.versioned_rows import VersionedRows, rows_of
from hayase.serde.unavailable import unavailable_fields, with_fields_of
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import TableSource


class TableSourceRows(RowNode):
    """TableSource in row form.

    The record that comes later wins, whatever its timestamp, unless the table is versioned. Every update is sent on,
    one that changes nothing and a delete of an absent row included; with a cache the last one of each key, and no
    delete of what was not there. Of a versioned table those that came out of order are sent, too, and say so.
    """

    def __init__(self, node: ProcessorNode, operator: TableSource, ctx: RowContext) -> None:
        super().__init__(ctx)
        self._rows: StoredRows | VersionedRows | None = None
        self._completes = operator.completes
        store = operator.store
        if store is None:
            return
        self._rows = rows_of(ctx.env, store, self.name)
        caching = ctx.env.store_spec(store).caching
        self._reads_old = caching or operator.old_values
        self._emitter = TableEmitter(ctx, caching=caching, key_bytes=self._rows.key_bytes)

    def process(self, record: Record) -> None:
        """Take one upsert or delete."""
        key, value = record.key, record.value
        if key is None:
            self.ctx.env.metrics.add(DROPPED_RECORDS, self.name)
            return
        if self._completes and value is not None and (names := unavailable_fields(value)):
            before = None if self._rows is None else self._rows.value(key)
            if before is None:
                raise no_row_before()
            value = with_fields_of(value, before, names)
            record = record.with_value(value)
        if self._rows is None:
            self.ctx.forward(record.with_value(Change(value)))
            return
        old = self._rows.value(key) if self._reads_old else None
        is_latest = self._rows.put(key, value, record.timestamp_ms)
        if is_latest is not None:
            self._emitter.emit(record.with_value(Change(value, old, is_latest)))

    def flush(self) -> None:
        """Send on what the cache holds."""
        if self._rows is not None:
            self._emitter.flush()

    def table_rows(self) -> TableRows | None:
        """The rows of the store."""
        return self._rows


class TableSourceColumns(ColumnNode):
    """TableSource in column form; `table` is `None` if the rows are not needed."""

    def __init__(self, name: str, output: EdgeSchema, table: StoredTable | None, *, completes: bool = False) -> None:
        super().__init__(name, output)
        self._table = table
        self._completes = completes
        self._rows: TableColumns | None = None

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """The updates; null keys are dropped and counted."""
        frame = inputs[0]
        dropped = frame[KEY].null_count()
        if dropped:
            ctx.metrics.add(DROPPED_RECORDS, self.name, dropped)
            frame = frame.filter(pl.col(KEY).is_not_null())
        if self._completes:
            frame = completed(frame, self.output.value, self._table, ctx)
        if self._table is None:
            return frame
        sent, self._rows = self._table.run(frame, ctx)
        return sent

    def table_columns(self) -> TableColumns | None:
        """The rows of the store."""
        return self._rows


def table_source_columns(node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext) -> ColumnNode | None:
    """The column form; it needs a store whose serdes have one."""
    operator, (edge,) = node.operator, inputs
    assert isinstance(operator, TableSource)
    if edge.windowed:
        return None
    old_values = operator.old_values and operator.store is not None
    output = dataclasses.replace(edge, table=True, old_values=old_values)
    if operator.store is None:
        return TableSourceColumns(node.name, output, None, completes=operator.completes)
    table = StoredTable.compile(node.name, operator.store, edge, ctx, old_values=old_values)
    return None if table is None else TableSourceColumns(node.name, output, table, completes=operator.completes)
