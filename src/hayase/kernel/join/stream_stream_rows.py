"""Joining each record of a stream with those of another stream that are near in time."""

from __future__ import annotations

from hayase.core.metrics import DROPPED_RECORDS
from hayase.core.records import Record
from hayase.kernel.frame.row_functions import KeyAndValue, row_joiner
from hayase.kernel.frame.stream_time import stream_time
from hayase.kernel.join.stream_join_window import join_window
from hayase.kernel.join.unmatched_rows import OTHER, Unmatched
from hayase.kernel.node.row_node import OperatorRows, RowContext
from hayase.serde.faults import is_fault
from hayase.serde.protocol import Schema, Serde
from hayase.state.stores.spec import StoreSpec
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import JoinSide, StreamStreamJoin


class StreamStreamJoinRows(OperatorRows[StreamStreamJoin]):
    """StreamStreamJoin in row form: one of the two nodes of a join.

    A record of an outer side that finds no match waits in the store of both sides until the stream time of both is
    beyond its window and grace; what is due comes out when the next record arrives on either side, before that record
    is joined, with that record's headers. A record whose window and grace are over already comes out at once.
    """

    def __init__(self, node: ProcessorNode, operator: StreamStreamJoin, ctx: RowContext) -> None:
        super().__init__(node, operator, ctx)
        env = ctx.env
        windows = operator.windows
        own, other = env.store_spec(operator.store), env.store_spec(operator.other_store)
        self._specs: dict[JoinSide, StoreSpec] = {"left": own, "right": other}
        self._before_ms, self._after_ms = windows.before_ms, windows.after_ms
        self._other_side = OTHER[operator.side]
        if operator.side == "right":
            self._specs = {"left": other, "right": own}
            self._before_ms, self._after_ms = self._after_ms, self._before_ms
        self._key_bytes = own.key_serde.serialize
        self._other = join_window(self.name, operator.other_store, env)
        self._other_value = other.value_serde.from_bytes
        left = KeyAndValue(_schema(own.key_serde), _schema(self._specs["left"].value_serde))
        self._join = row_joiner(self.name, operator.joiner, left, _schema(self._specs["right"].value_serde))
        self._unmatched = None
        if operator.unmatched is not None:
            self._unmatched = Unmatched(env.byte_store(operator.unmatched), env.clocks, operator.unmatched)

    def process(self, record: Record) -> None:
        """Join one record with those of the other side that are there now, by their time, then by arrival."""
        operator, env, time_ms = self._operator, self.ctx.env, record.timestamp_ms
        stream_time_ms = stream_time(env.clocks, operator.clock, time_ms)
        if record.value is None or (record.key is None and not operator.outer):
            env.metrics.add(DROPPED_RECORDS, self.name)
            return
        key = self._key_bytes(record.key)
        if key is None:
            self._send(record, record.value, None, time_ms)
            return
        if self._unmatched is not None:
            self._send_due(record, self._unmatched, stream_time_ms)
        met = False
        self._other.refresh()
        for other_ms, data in self._other.fetch(key, time_ms - self._before_ms, time_ms + self._after_ms):
            met = True
            if self._unmatched is not None:
                self._unmatched.remove(other_ms, self._other_side, key)
            self._send(record, record.value, self._other_value(data), max(time_ms, other_ms))
        if met or not operator.outer or self._unmatched is None:
            return
        if time_ms + self._after_ms + operator.windows.grace_ms < stream_time_ms:
            self._send(record, record.value, None, time_ms)
            return
        value = self._specs[operator.side].value_serde.to_bytes(record.value)
        self._unmatched.add(time_ms, operator.side, key, value)

    def _send(self, record: Record, mine: object, others: object, time_ms: int) -> None:
        """Join values of this side and the other one."""
        left, right = (mine, others) if self._operator.side == "left" else (others, mine)
        self._send_joined(Record(record.key, left, time_ms, record.headers), right)

    def _send_joined(self, left: Record, right: object) -> None:
        self.ctx.forward(left.with_value(self._join(left, right)))

    def _send_due(self, record: Record, unmatched: Unmatched, stream_time_ms: int) -> None:
        """Records of both sides whose window and grace are over. One on which the joiner fails is not tried again."""
        windows = self._operator.windows
        open_ms = stream_time_ms - windows.grace_ms
        closed: dict[JoinSide, int] = {"left": open_ms - windows.after_ms, "right": open_ms - windows.before_ms}
        for waiting in unmatched.take(closed):
            key_of = self._specs[waiting.side].key_serde.from_bytes
            value_of = self._specs[waiting.side].value_serde.from_bytes
            for data in waiting.values:
                value = value_of(data)
                left, right = (value, None) if waiting.side == "left" else (None, value)
                alone = Record(key_of(waiting.key), left, waiting.timestamp_ms, record.headers)
                try:
                    self._send_joined(alone, right)
                except Exception as error:  # the joiner may raise anything; the current record must not suffer for it
                    if not is_fault(error):
                        raise
                    self.ctx.env.processing_failed(self.name, error)


def _schema(serde: Serde) -> Schema | None:
    """Fields and types of what is kept, if the serde knows them."""
    codec = serde.columns
    return None if codec is None else codec.schema
