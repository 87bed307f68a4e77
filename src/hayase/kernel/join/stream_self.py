"""The join of a stream with itself: one window store instead of two (KIP-862)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

import polars as pl

from hayase.core.metrics import DROPPED_RECORDS
from hayase.core.records import Record
from hayase.kernel.frame.order import MergeOrder, RecordOrder
from hayase.kernel.frame.row_functions import KeyAndValue, row_joiner
from hayase.kernel.frame.stored_columns import StoreCodec
from hayase.kernel.join.joiner_columns import compile_joiner
from hayase.kernel.join.stream_join_window import join_window
from hayase.kernel.join.stream_stream_columns import join_epoch
from hayase.kernel.join.stream_stream_sides_columns import JoinPlan
from hayase.kernel.node.column_node import KEY, NULL, ColumnContext, ColumnNode, CompileContext, order_columns
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.node.row_node import OperatorRows, RowContext
from hayase.serde.faults import is_fault
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import StreamSelfJoin

_RIGHT = 1 << 45
"""The results of a record as the right side come behind those as the left side."""


class StreamSelfJoinRows(OperatorRows[StreamSelfJoin]):
    """StreamSelfJoin in row form.

    It sends what the two nodes of a join with two stores send, in their order: a joiner that fails on the record as the
    left side does not keep it from being joined as the right side, and a record too old to be kept does not meet
    itself.
    """

    def __init__(self, node: ProcessorNode, operator: StreamSelfJoin, ctx: RowContext) -> None:
        super().__init__(node, operator, ctx)
        env = ctx.env
        spec = env.store_spec(operator.store)
        self._key_bytes = spec.key_serde.serialize
        self._value_bytes, self._value_of = spec.value_serde.to_bytes, spec.value_serde.from_bytes
        self._window = join_window(self.name, operator.store, env)
        self._retention_ms = self._window.observed_ms - self._window.hidden_until_ms
        codecs = spec.key_serde.columns, spec.value_serde.columns
        key, value = (None if codec is None else codec.schema for codec in codecs)
        self._join = row_joiner(self.name, operator.joiner, KeyAndValue(key, value), value)

    def process(self, record: Record) -> None:
        """Join one record with those that came before it, on both sides, and with itself.

        By their time, then by arrival.
        """
        key = None if record.key is None or record.value is None else self._key_bytes(record.key)
        if key is None:
            self.ctx.env.metrics.add(DROPPED_RECORDS, self.name)
            return
        windows, time_ms = self._operator.windows, record.timestamp_ms
        reach_ms = max(windows.before_ms, windows.after_ms)
        self._window.refresh()
        near = list(self._window.fetch(key, time_ms - reach_ms, time_ms + reach_ms))
        self._each(record, near, self._as_left)
        hidden_ms = max(self._window.observed_ms, time_ms) - self._retention_ms
        entries: list[tuple[int, bytes | None]] = [entry for entry in near if entry[0] > hidden_ms]
        if time_ms > hidden_ms:
            entries.insert(bisect_right(entries, time_ms, key=lambda entry: entry[0]), (time_ms, None))
        self._each(record, entries, self._as_right)

    def _each(
        self,
        record: Record,
        entries: Sequence[tuple[int, bytes | None]],
        join: Callable[[Record, int, bytes | None], None],
    ) -> None:
        try:
            for other_ms, data in entries:
                join(record, other_ms, data)
        except Exception as error:  # the joiner may raise anything; the handler decides
            if not is_fault(error):
                raise
            self.ctx.env.processing_failed(self.name, error)

    def _as_left(self, record: Record, other_ms: int, data: bytes | None) -> None:
        windows, time_ms = self._operator.windows, record.timestamp_ms
        if data is not None and -windows.before_ms <= other_ms - time_ms <= windows.after_ms:
            self._send(record, record.value, self._value_of(data), max(time_ms, other_ms))

    def _as_right(self, record: Record, other_ms: int, data: bytes | None) -> None:
        """`data` is `None` where the record meets itself: as it will be read from the store, too."""
        windows, time_ms = self._operator.windows, record.timestamp_ms
        if -windows.after_ms <= other_ms - time_ms <= windows.before_ms:
            kept = self._value_bytes(record.value) if data is None else data
            self._send(record, self._value_of(kept), record.value, max(time_ms, other_ms))

    def _send(self, record: Record, left: object, right: object, time_ms: int) -> None:
        joined = Record(record.key, left, time_ms, record.headers)
        self.ctx.forward(joined.with_value(self._join(joined, right)))


class StreamSelfJoinColumns(ColumnNode):
    """StreamSelfJoin in column form: a join of two streams (`join_epoch`) that are the same one."""

    def __init__(self, name: str, output: EdgeSchema, plan: JoinPlan) -> None:
        super().__init__(name, output)
        self._plan = plan

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """The results of each record as the left side, then as the right side.

        Null keys and null values are dropped.
        """
        frame = inputs[0]
        dropped = frame[NULL] | frame[KEY].is_null()
        ctx.metrics.add(DROPPED_RECORDS, self.name, int(dropped.sum()))
        joined = join_epoch(self._plan, {"left": frame, "right": frame}, ctx)
        left, right = joined["left"], joined["right"]
        failures = [*left.failures, *(((*order[:-1], order[-1] + _RIGHT), error) for order, error in right.failures)]
        for order, error in sorted(failures, key=lambda each: each[0]):
            ctx.processing_failed(order, error)
        columns = order_columns(left.frame)
        later = right.frame.with_columns(pl.col(columns[-1]) + _RIGHT)
        return pl.concat([left.frame, later], how="vertical_relaxed").sort(columns)


def stream_self_join_columns(
    node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext
) -> ColumnNode | None:
    """The column form; it needs a store whose serdes have one."""
    operator = node.operator
    assert isinstance(operator, StreamSelfJoin)
    codec = StoreCodec.of(ctx.stores[operator.store])
    if codec is None:
        return None
    key, value = codec.key.schema, codec.value.schema
    joiner = compile_joiner(node.name, operator.joiner, EdgeSchema(key, value), value, operator.schema)
    if joiner is None:
        return None
    columns = len(RecordOrder(ctx.nodes, ctx.stores, caching=ctx.caching).sent(operator.window))
    plan = JoinPlan(
        windows=operator.windows,
        nodes={"left": operator.window, "right": operator.window},
        stores={"left": operator.store, "right": operator.store},
        codecs={"left": codec, "right": codec},
        outer=frozenset(),
        unmatched=None,
        clock=None,
        order=MergeOrder(columns, (0, 1), columns),
        values=joiner,
    )
    return StreamSelfJoinColumns(node.name, EdgeSchema(key, joiner.schema), plan)
