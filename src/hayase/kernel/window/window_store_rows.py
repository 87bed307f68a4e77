"""What aggregates that keep their rows in a window store have in common."""

from __future__ import annotations

from typing import Any, TypeVar

from hayase.core.metrics import DROPPED_RECORDS
from hayase.core.records import Windowed
from hayase.core.windows import window_from
from hayase.kernel.aggregate.aggregate_node_rows import AggregateNode, WindowedNode
from hayase.kernel.aggregate.stored_row import RowStore
from hayase.kernel.node.column_node import ColumnContext
from hayase.kernel.node.row_node import RowContext, RowEnvironment
from hayase.kernel.window.window_close import ClosingResults
from hayase.state.stores.spec import StoreSpec
from hayase.state.stores.window_bytes import WindowBytes
from hayase.topology.operators import StreamSlidingAggregate, StreamWindowedAggregate

InWindows = TypeVar("InWindows", bound=StreamWindowedAggregate | StreamSlidingAggregate)


class WindowStoreNode(WindowedNode[InWindows]):
    """An aggregate whose rows are windows of a window store.

    A place is the record key's bytes and the window's start.
    """

    _windows: WindowBytes

    def places(self) -> RowStore:
        """The window store."""
        other = self.shared()
        self._windows = window_bytes(self.name, self._operator, self.ctx.env) if other is None else other._windows
        return self._windows

    def place(self, key: Windowed) -> tuple[Any, ...]:
        """The record key's bytes and the window's start."""
        return self._key_bytes(key.key), key.window.start_ms


def closing_windows(node: AggregateNode[Any], ctx: RowContext, spec: StoreSpec, size_ms: int) -> ClosingResults:
    """Sends the results of windows when they close: by start, then by the bytes of the key."""

    def result(key: bytes, rank: tuple[int, ...]) -> tuple[Any, Any, int] | None:
        stored = node.stored((key, *rank))
        return (
            None
            if stored is None
            else (Windowed(spec.key_serde.from_bytes(key), window_from(rank[0], size_ms)), *stored)
        )

    return ClosingResults(ctx, ctx.env.byte_store(spec.name), lambda place: place[1:], result, times=1)


def window_bytes(
    node: str, operator: StreamWindowedAggregate | StreamSlidingAggregate, env: RowEnvironment | ColumnContext
) -> WindowBytes:
    """The operator's window store."""
    spec = env.store_spec(operator.store)
    retention_ms = spec.retention_ms if spec.retention_ms is not None else operator.windows.retention_ms
    return WindowBytes(
        env.byte_store(operator.store), retention_ms, lambda count: env.metrics.add(DROPPED_RECORDS, node, count)
    )
