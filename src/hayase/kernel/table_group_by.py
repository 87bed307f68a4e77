"""A table's updates under new keys."""

from __future__ import annotations

from typing import Any

from hayase.core.records import Change, Record
from hayase.kernel.functions import RecordFunction, row_mapper
from hayase.kernel.rows import OperatorRows, RowContext
from hayase.topology.operators import TableGroupBy


class TableGroupByRows(OperatorRows[TableGroupBy]):
    """TableGroupBy in row form; timestamp and headers stay."""

    def open(self, ctx: RowContext) -> None:
        """Start of an epoch."""
        super().open(ctx)
        operator, edge = self._operator, self.edge
        self._value: RecordFunction = lambda record: record.value
        if operator.key is not None:
            self._key = row_mapper(self.name, operator.key, edge)
        if operator.value is not None:
            self._value = row_mapper(self.name, operator.value, edge)

    def process(self, record: Record[Any, Any]) -> None:
        """Send the old row and the new one to the groups that they belong to; one that went into the history is in none."""
        change = record.value
        if not change.is_latest:
            return
        new, old = self._grouped(record, change.new), self._grouped(record, change.old)
        if new is not None and old is not None and _same(new[0], old[0]):
            self._send(record, new[0], Change(new[1], old[1]))
            return
        if old is not None:
            self._send(record, old[0], Change(None, old[1]))
        if new is not None:
            self._send(record, new[0], Change(new[1]))

    def _grouped(self, record: Record[Any, Any], value: Any) -> tuple[Any, Any] | None:
        """The group and what goes into it; `None` if nothing does."""
        if value is None:
            return None
        mapper = self._operator.mapper
        if mapper is not None:
            group, kept = mapper(record.key, value)
        else:
            row = record.with_value(value)
            group, kept = self._key(row), self._value(row)
        return None if group is None or kept is None else (group, kept)

    def _send(self, record: Record[Any, Any], group: Any, change: Change[Any]) -> None:
        self.ctx.forward(Record(group, change, record.timestamp_ms, record.headers))


def _same(one: Any, other: Any) -> bool:
    """Whether two keys are one: 1, 1.0 and True are equal in Python, but other bytes, which decide in a store."""
    if type(one) is str:
        return bool(one == other)
    return bool(one == other) and repr(one) == repr(other)
