"""Keeping one side of a join of two streams for records of the other side that come later."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from hayase.core.metrics import DROPPED_RECORDS
from hayase.core.records import Record
from hayase.kernel.frame.stored_columns import StoreCodec
from hayase.kernel.node.column_node import ColumnContext, ColumnNode, CompileContext
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.node.row_node import OperatorRows, RowContext, RowEnvironment
from hayase.state.stores.window_bytes import WindowBytes, window_bytes
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import StreamJoinWindow


class StreamJoinWindowRows(OperatorRows[StreamJoinWindow]):
    """StreamJoinWindow in row form.

    The record is joined first: it can meet itself on the other side only (self-join).
    """

    def __init__(self, node: ProcessorNode, operator: StreamJoinWindow, ctx: RowContext) -> None:
        super().__init__(node, operator, ctx)
        spec = ctx.env.store_spec(self._operator.store)
        self._key_bytes = spec.key_serde.serialize
        self._value_bytes = spec.value_serde.serialize
        self._window = join_window(self.name, self._operator.store, ctx.env)

    def process(self, record: Record) -> None:
        """Pass one record on, then keep it."""
        self.ctx.forward(record)
        if record.value is None:
            return
        key = self._key_bytes(record.key)
        if key is not None:
            self._window.put(key, record.timestamp_ms, self._value_bytes(record.value))


class StreamJoinWindowColumns(ColumnNode):
    """StreamJoinWindow in column form.

    The join keeps the records of both sides when it has joined them (`join_epoch`).
    """

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """The records."""
        return inputs[0]


def stream_join_window_columns(
    node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext
) -> ColumnNode | None:
    """The column form; it needs a store whose serdes have one."""
    operator, (edge,) = node.operator, inputs
    assert isinstance(operator, StreamJoinWindow)
    codec = StoreCodec.of(ctx.stores[operator.store])
    if codec is None or edge.windowed or not codec.fits(edge):
        return None
    return StreamJoinWindowColumns(node.name, edge)


def join_window(node: str, store: str, env: RowEnvironment | ColumnContext) -> WindowBytes:
    """The window store of one side; what it refuses because it has expired is counted for the node."""
    spec = env.store_spec(store)
    assert spec.retention_ms is not None
    return window_bytes(
        env.byte_store(store),
        spec.retention_ms,
        lambda count: env.metrics.add(DROPPED_RECORDS, node, count),
        retain_duplicates=spec.retain_duplicates,
    )
