"""Holding back updates of a table."""

from __future__ import annotations

from typing import Any, Protocol

from hayase.core.errors import StateError
from hayase.core.metrics import SUPPRESSION_BYTES, SUPPRESSION_EMITTED, SUPPRESSION_ROWS, Metrics
from hayase.core.records import Change, Record, Windowed
from hayase.kernel.node.row_node import OperatorRows, RowContext, TableRows
from hayase.kernel.table.suppress_buffer_rows import Held, SuppressBuffer
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import TableSuppress


class TableSuppressRows(OperatorRows[TableSuppress]):
    """TableSuppress in row form.

    Its clock is the largest timestamp of the updates that reached it. Readers of the table see what was sent last, as
    far as that is known: of a row that is held back the value before, else the parent's row.
    """

    def __init__(self, node: ProcessorNode, operator: TableSuppress, ctx: RowContext) -> None:
        super().__init__(node, operator, ctx)
        self._keys, self._values = operator.serdes.key, operator.serdes.value
        self._buffer = SuppressBuffer(ctx.env.byte_store(operator.store))
        self._sent = 0
        self._parent_rows = ctx.table(self._parent)

    def process(self, record: Record) -> None:
        """Hold back one update of the parent, send what is due."""
        operator, clocks, buffer = self._operator, self.ctx.env.clocks, self._buffer
        now_ms = max(clocks.get(self.name), record.timestamp_ms)
        clocks.set(self.name, now_ms)
        change = record.value
        key = self._keys.to_bytes(record.key)
        new, old = self._values.serialize(change.new), self._values.serialize(change.old)
        buffer.put(self._time(record), key, Held(record.timestamp_ms, new, old, record.headers))
        for key, held in buffer.due(now_ms - operator.wait_ms):
            self._send(key, held)
        if not self._too_full():
            return
        if operator.when_full == "shutdown":
            raise buffer_full(self.name, operator, buffer.count, buffer.size_bytes)
        for key, held in buffer.oldest_while(self._too_full):
            self._send(key, held)

    def _time(self, record: Record) -> int:
        if not self._operator.until_window_closes:
            return record.timestamp_ms
        assert isinstance(record.key, Windowed)
        return record.key.window.end_ms

    def _too_full(self) -> bool:
        return is_too_full(self._operator, self._buffer.count, self._buffer.size_bytes)

    def _send(self, key: bytes, held: Held) -> None:
        if held.new is None and self._operator.until_window_closes:
            return  # nothing of this window was ever sent
        read = self._values.deserialize
        old = read(held.prior) if self._operator.old_values else None
        self._sent += 1
        change = Change(read(held.new), old)
        self.ctx.forward(Record(self._keys.from_bytes(key), change, held.timestamp_ms, held.headers))

    def flush(self) -> None:
        """Save how much is held."""
        buffer = self._buffer
        buffer.save()
        measure_buffer(self.ctx.env.metrics, self.name, self._operator.store, self._sent, buffer)

    def table_rows(self) -> TableRows:
        """The rows that were sent."""
        return self

    def get(self, key: Any) -> tuple[Any, int] | None:
        """Value and timestamp of the row of a key; see TableRows.

        The time of a row that is held back is not known, -1.
        """
        if key is None:
            return None
        held, prior = self._buffer.prior(self._keys.to_bytes(key))
        if not held:
            return self._parent_rows.get(key)
        return None if prior is None else (self._values.from_bytes(prior), -1)


class Totals(Protocol):
    """How much a buffer holds."""

    count: int
    size_bytes: int


def measure_buffer(metrics: Metrics, node: str, store: str, sent: int, buffer: Totals) -> None:
    """At the end of an epoch: what the node has sent in it, and what its buffer holds."""
    metrics.add(SUPPRESSION_EMITTED, node, sent)
    metrics.measure_one(SUPPRESSION_ROWS, store, buffer.count)
    metrics.measure_one(SUPPRESSION_BYTES, store, buffer.size_bytes)


def is_too_full(operator: TableSuppress, count: int, size_bytes: int) -> bool:
    """Whether a buffer with so many rows and bytes holds more than it may."""
    return (operator.max_records is not None and count > operator.max_records) or (
        operator.max_bytes is not None and size_bytes > operator.max_bytes
    )


def buffer_full(node: str, operator: TableSuppress, count: int, size_bytes: int) -> StateError:
    """The error of a buffer that may not send early."""
    return StateError(
        "SUPPRESSION_BUFFER_FULL",
        f"the buffer holds {count} rows and {size_bytes} bytes; allowed are {_shown(operator.max_records)} rows and "
        f"{_shown(operator.max_bytes)} bytes. Give it more by BufferConfig, or let it send early with "
        "emit_early_when_full()",
        node=node,
    )


def _shown(limit: int | None) -> str:
    return "any number of" if limit is None else str(limit)
