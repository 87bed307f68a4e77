"""Keeping one side of a join of two streams for records of the other side that come later."""

from __future__ import annotations

from typing import Any

from hayase.core.metrics import DROPPED_RECORDS
from hayase.core.records import Record
from hayase.kernel.rows import OperatorRows, RowContext, RowEnvironment
from hayase.state.window_bytes import WindowBytes, window_bytes
from hayase.topology.operators import StreamJoinWindow


class StreamJoinWindowRows(OperatorRows[StreamJoinWindow]):
    """StreamJoinWindow in row form. The record is joined first: it can meet itself on the other side only (self-join)."""

    def open(self, ctx: RowContext) -> None:
        """Start of an epoch."""
        super().open(ctx)
        spec = ctx.env.store_spec(self._operator.store)
        self._key_bytes = spec.key_serde.serialize
        self._value_bytes = spec.value_serde.serialize
        self._window = join_window(self.name, self._operator.store, ctx.env)

    def process(self, record: Record[Any, Any]) -> None:
        """Pass one record on, then keep it."""
        self.ctx.forward(record)
        if record.value is None:
            return
        key = self._key_bytes(record.key)
        if key is not None:
            self._window.put(key, record.timestamp_ms, self._value_bytes(record.value))


def join_window(node: str, store: str, env: RowEnvironment) -> WindowBytes:
    """The window store of one side; what it refuses because it has expired is counted for the node."""
    spec = env.store_spec(store)
    assert spec.retention_ms is not None
    return window_bytes(
        env.byte_store(store),
        spec.retention_ms,
        lambda count: env.metrics.add(DROPPED_RECORDS, node, count),
        retain_duplicates=spec.retain_duplicates,
    )
