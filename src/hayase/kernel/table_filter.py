"""The rows of a table for which a predicate holds."""

from __future__ import annotations

from typing import Any

from hayase.core.records import Change, Record
from hayase.kernel.functions import row_predicate
from hayase.kernel.rows import RowContext, RowNode, TableEmitter, TableRows
from hayase.kernel.table import ComputedRows, StoredRows
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
