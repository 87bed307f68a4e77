"""Aggregating a grouped stream per key and time window."""

from __future__ import annotations

from typing import Any

from hayase.core.metrics import DROPPED_RECORDS, LATE_RECORDS
from hayase.core.records import Record, Windowed
from hayase.kernel.aggregate_rows import AggregateRows
from hayase.kernel.row_aggregation import row_aggregation
from hayase.kernel.rows import RowContext, RowEnvironment, RowNode, TableEmitter, TableRows
from hayase.state.window_bytes import WindowBytes
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import StreamWindowedAggregate


class StreamWindowedAggregateRows(RowNode):
    """StreamWindowedAggregate in row form. The operator's stream time is the clock of its name."""

    def __init__(self, node: ProcessorNode, operator: StreamWindowedAggregate) -> None:
        super().__init__(node.name)
        self._parent = node.parents[0]
        self._operator = operator

    def open(self, ctx: RowContext) -> None:
        """Start of an epoch."""
        super().open(ctx)
        operator = self._operator
        spec = ctx.env.store_spec(operator.store)
        self._key_bytes = spec.key_serde.to_bytes
        self._emitter = TableEmitter(ctx, caching=spec.caching, key_bytes=self._place)
        aggregation = row_aggregation(self.name, operator.aggregation, spec.value_serde, ctx.schemas.get(self._parent))
        self._aggregation = aggregation
        self._rows = AggregateRows(
            window_bytes(self.name, operator, ctx.env),
            aggregation,
            self._emitter,
            caching=spec.caching,
            old_values=operator.old_values,
        )

    def process(self, record: Record[Any, Any]) -> None:
        """Take one record into each of its windows that is not closed, by start."""
        env, windows = self.ctx.env, self._operator.windows
        key, timestamp_ms = record.key, record.timestamp_ms
        if key is None:
            env.metrics.add(DROPPED_RECORDS, self.name)
            return
        now_ms = env.clocks.get(self.name)
        if timestamp_ms > now_ms:
            now_ms = timestamp_ms
            env.clocks.set(self.name, now_ms)
        found = windows.windows_for(timestamp_ms)
        open_windows = [window for window in found if now_ms < window.end_ms + windows.grace_ms]
        late = len(found) - len(open_windows)
        env.metrics.add(DROPPED_RECORDS, self.name, late)
        env.metrics.add(LATE_RECORDS, self.name, late)
        if not open_windows:
            return
        inputs = self._aggregation.inputs(record)
        data = self._key_bytes(key)
        for window in open_windows:
            self._rows.update((data, window.start_ms), record.with_key(Windowed(key, window)), inputs)

    def flush(self) -> None:
        """Send on what the cache holds."""
        self._emitter.flush()

    def table_rows(self) -> TableRows:
        """The rows of the store, by windowed key."""
        return self

    def get(self, key: Any) -> tuple[Any, int] | None:
        """Value and timestamp of the row of a windowed key; see TableRows."""
        return None if key is None else self._rows.get(self._place(key))

    def _place(self, key: Windowed[Any]) -> tuple[bytes, int]:
        return self._key_bytes(key.key), key.window.start_ms


def window_bytes(node: str, operator: StreamWindowedAggregate, env: RowEnvironment) -> WindowBytes:
    """The operator's window store."""
    spec = env.store_spec(operator.store)
    retention_ms = spec.retention_ms if spec.retention_ms is not None else operator.windows.retention_ms
    return WindowBytes(
        env.byte_store(operator.store), retention_ms, lambda count: env.metrics.add(DROPPED_RECORDS, node, count)
    )
