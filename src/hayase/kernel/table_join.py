"""Joining two tables by key: the two sides, and where their results become one table."""

from __future__ import annotations

from typing import Any

from hayase.core.metrics import DROPPED_RECORDS
from hayase.core.records import Change, Record
from hayase.kernel.functions import row_joiner
from hayase.kernel.rows import OperatorRows, RowContext, RowNode, TableEmitter, TableRows
from hayase.kernel.table import StoredRows
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import TableJoin, TableJoiner, TableJoinMerge


class JoinedRow:
    """Makes the row of two rows.

    Args:
        ctx: of the node.
        joiner: of the join.
        left: name of the left table.
        right: name of the right table.
    """

    def __init__(self, ctx: RowContext, joiner: TableJoiner, left: str, right: str) -> None:
        edge = ctx.schemas.get(right)
        self._kind = joiner.kind
        self._join = row_joiner(ctx.name, joiner.function, ctx.schemas.get(left), edge.value if edge else None)

    def __call__(self, record: Record[Any, Any], left: Any, right: Any) -> Any:
        """The row's value from the values of the two rows (`None`: there is none), `None` if there is no row."""
        if left is None and (right is None or self._kind != "outer"):
            return None
        if right is None and self._kind == "inner":
            return None
        return self._join(record.with_value(left), right)


class TableJoinRows(OperatorRows[TableJoin]):
    """TableJoin in row form.

    An update is joined with the other table's row as it is now. Nothing is sent where neither the old nor the new row
    could have had a result; else a null result is sent as a delete, whether anything was sent before or not. Updates of a
    versioned table that came out of order are dropped and counted (KIP-914).
    """

    def open(self, ctx: RowContext) -> None:
        """Start of an epoch."""
        super().open(ctx)
        operator = self._operator
        self._table = ctx.table(operator.table)
        tables = (self._parent, operator.table) if operator.is_left else (operator.table, self._parent)
        self._joined = JoinedRow(ctx, operator.joiner, *tables)
        kind = operator.joiner.kind
        self._needs_other = kind == "inner" or (kind == "left" and not operator.is_left)

    def process(self, record: Record[Any, Any]) -> None:
        """Take one update of the parent."""
        if record.key is None:
            self.ctx.env.metrics.add(DROPPED_RECORDS, self.name)
            return
        change = record.value
        if not change.is_latest:
            self.ctx.env.metrics.add(DROPPED_RECORDS, self.name)
            return
        found = self._table.get(record.key)
        if found is None and (self._needs_other or (change.new is None and change.old is None)):
            return
        other, timestamp_ms = (None, record.timestamp_ms) if found is None else found
        at = record.with_timestamp(max(record.timestamp_ms, timestamp_ms))
        new = self._with(at, change.new, other)
        old = self._with(at, change.old, other) if self._operator.old_values else None
        self.ctx.forward(at.with_value(Change(new, old)))

    def _with(self, record: Record[Any, Any], own: Any, other: Any) -> Any:
        return self._joined(record, own, other) if self._operator.is_left else self._joined(record, other, own)


class TableJoinMergeRows(RowNode):
    """TableJoinMerge in row form; `table_rows` are those of the store, or computed from the two tables."""

    def __init__(self, node: ProcessorNode, operator: TableJoinMerge) -> None:
        super().__init__(node.name)
        self._operator = operator
        self._rows: StoredRows | None = None
        self._view: TableRows

    def open(self, ctx: RowContext) -> None:
        """Start of an epoch."""
        super().open(ctx)
        operator = self._operator
        if operator.store is None:
            joined = JoinedRow(ctx, operator.joiner, operator.left, operator.right)
            self._view = _JoinedRows(ctx.table(operator.left), ctx.table(operator.right), joined)
            return
        self._rows = self._view = StoredRows.of(ctx.env, operator.store)
        caching = ctx.env.store_spec(operator.store).caching
        self._reads_old = caching or operator.old_values
        self._emitter = TableEmitter(ctx, caching=caching, key_bytes=self._rows.key_bytes)

    def process(self, record: Record[Any, Any]) -> None:
        """Take one update of either side."""
        rows = self._rows
        if rows is None:
            self.ctx.forward(record)
            return
        new = record.value.new
        old = rows.value(record.key) if self._reads_old else None
        rows.put(record.key, new, record.timestamp_ms)
        self._emitter.emit(record.with_value(Change(new, old)))

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
        timestamp_ms = max(found[1] if found is not None else -1 for found in (left, right))
        value = self._joined(Record(key, None, timestamp_ms), left and left[0], right and right[0])
        return None if value is None else (value, timestamp_ms)
