"""The rows of a table with new values."""

from __future__ import annotations

from typing import Any

from hayase.core.records import Change, Record
from hayase.kernel.functions import row_mapper
from hayase.kernel.rows import RowContext, RowNode, TableEmitter, TableRows
from hayase.kernel.table import ComputedRows, StoredRows
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
