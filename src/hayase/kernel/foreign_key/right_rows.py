"""The right side of a foreign-key join in row form: keeps who asked, answers, and answers again when a row changes."""

from __future__ import annotations

import struct

from hayase.core.metrics import DROPPED_RECORDS
from hayase.core.records import Record
from hayase.kernel.node.row_node import OperatorRows, RowContext
from hayase.serde.subscriptions import Answer, CombinedKeySerde, Instruction, Subscription
from hayase.state.stores.key_value import behind_prefix
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import ForeignKeyFanOut, ForeignKeyLookUp, ForeignKeyReceive

_TIMESTAMP = struct.Struct(">q")
REMEMBERED = (Instruction.ANSWER_ALWAYS, Instruction.ANSWER_IF_THERE)


class ForeignKeyReceiveRows(OperatorRows[ForeignKeyReceive]):
    """ForeignKeyReceive in row form: remembers the subscription, or forgets it, and passes it on."""

    def __init__(self, node: ProcessorNode, operator: ForeignKeyReceive, ctx: RowContext) -> None:
        super().__init__(node, operator, ctx)
        self._store = ctx.env.byte_store(self._operator.store)
        spec = ctx.env.store_spec(self._operator.store)
        self._keys, self._values = spec.key_serde, spec.value_serde

    def process(self, record: Record) -> None:
        """Take one subscription; one without a foreign key is only there to be answered."""
        asked = record.value
        if record.key is not None:
            data = None
            if asked.instruction in REMEMBERED:
                # what was asked first is over: how the foreign key came to be this one must not show in the store
                kept = asked._replace(instruction=Instruction.ANSWER_ALWAYS)
                data = _TIMESTAMP.pack(record.timestamp_ms) + self._values.to_bytes(kept)
            self._store.put(self._keys.to_bytes((record.key, asked.primary_key)), data)
        elif asked.instruction is not Instruction.ANSWER_ALWAYS:
            self.ctx.env.metrics.add(DROPPED_RECORDS, self.name)
            return
        self.ctx.forward(record)


class ForeignKeyLookUpRows(OperatorRows[ForeignKeyLookUp]):
    """ForeignKeyLookUp in row form: answers with the right row as it is now."""

    def __init__(self, node: ProcessorNode, operator: ForeignKeyLookUp, ctx: RowContext) -> None:
        super().__init__(node, operator, ctx)
        self._table = ctx.table(self._operator.table)

    def process(self, record: Record) -> None:
        """Answer one subscription as it says."""
        asked: Subscription = record.value
        if asked.instruction is Instruction.UNSUBSCRIBE:
            return
        right = None if record.key is None else self._table.get(record.key)
        if right is None and asked.instruction is Instruction.ANSWER_IF_THERE:
            return
        timestamp_ms = record.timestamp_ms if right is None else max(record.timestamp_ms, right[1])
        gone = right is None or asked.instruction is Instruction.UNSUBSCRIBE_AND_ANSWER
        answer = Answer(asked.digest, asked.partition, None if gone or right is None else right[0])
        self.ctx.forward(Record(asked.primary_key, answer, timestamp_ms, record.headers))


class ForeignKeyFanOutRows(OperatorRows[ForeignKeyFanOut]):
    """ForeignKeyFanOut in row form.

    Answers every subscription for the row's key, in the order of the primary keys' bytes.
    """

    def __init__(self, node: ProcessorNode, operator: ForeignKeyFanOut, ctx: RowContext) -> None:
        super().__init__(node, operator, ctx)
        self._store = ctx.env.byte_store(self._operator.store)
        spec = ctx.env.store_spec(self._operator.store)
        assert isinstance(spec.key_serde, CombinedKeySerde)
        self._keys, self._values = spec.key_serde, spec.value_serde

    def process(self, record: Record) -> None:
        """Take one update of the right table.

        One that came out of order, of a versioned table, is dropped and counted.
        """
        if record.key is None or not record.value.is_latest:
            self.ctx.env.metrics.add(DROPPED_RECORDS, self.name)
            return
        prefix = self._keys.prefix(record.key)
        for _, data in self._store.range(prefix, behind_prefix(prefix)):
            asked: Subscription = self._values.from_bytes(data[_TIMESTAMP.size :])
            answer = Answer(asked.digest, asked.partition, record.value.new)
            self.ctx.forward(Record(asked.primary_key, answer, record.timestamp_ms, record.headers))
