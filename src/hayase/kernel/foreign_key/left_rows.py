"""The left side of a foreign-key join in row form: asks for right rows, and joins the answers."""

from __future__ import annotations

import hashlib
from typing import Any

from hayase.core.metrics import DROPPED_RECORDS
from hayase.core.records import Record
from hayase.kernel.foreign_key.asked_rows import Asked, AskedRows
from hayase.kernel.frame.row_functions import row_joiner, row_mapper
from hayase.kernel.node.row_node import OperatorRows, RowContext
from hayase.serde.protocol import Serde
from hayase.serde.subscription_columns import AnswerSchema
from hayase.serde.subscriptions import Instruction, Subscription
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import ForeignKeyResolve, ForeignKeySubscribe


class ForeignKeySubscribeRows(OperatorRows[ForeignKeySubscribe]):
    """ForeignKeySubscribe in row form."""

    def __init__(self, node: ProcessorNode, operator: ForeignKeySubscribe, ctx: RowContext) -> None:
        super().__init__(node, operator, ctx)
        self._extract = row_mapper(self.name, self._operator.extractor, self.edge)
        self._keys, self._values = self._operator.serdes.key, self._operator.serdes.value
        self._partition = ctx.env.partition
        self._left_keys = ctx.env.store_spec(operator.asked_rows).key_serde
        self._asked = AskedRows(ctx.env.byte_store(operator.asked_rows))

    def process(self, record: Record) -> None:
        """Subscribe for the new row, and take the subscription of the old one back.

        What came out of order is dropped.
        """
        change = record.value
        if not change.is_latest:
            self.ctx.env.metrics.add(DROPPED_RECORDS, self.name)
            return
        if change.new is None and change.old is None:
            return
        new, old = self._foreign_key(record, change.new), self._foreign_key(record, change.old)
        digest = value_digest(self._values, change.new)
        key = self._left_keys.to_bytes(record.key)
        asked = self._asked.get(key)
        # Of a row that is there something is kept, unless its checkpoint is older than that store.
        has_result = asked.has_result if asked is not None else change.old is not None
        self._asked.put(key, Asked(digest, has_result))
        if self._operator.left:
            self._left(record, digest, new, old)
        else:
            self._inner(record, digest, new, old, has_result=has_result)

    def _left(self, record: Record, digest: bytes | None, new: object, old: object) -> None:
        """Each update is answered, also one without a foreign key.

        A row is joined with nothing, a delete is passed on.
        """
        if old is not None and not self._same(new, old):
            self._send(record, digest, old, Instruction.UNSUBSCRIBE)
        self._send(record, digest, new, Instruction.ANSWER_ALWAYS)

    def _inner(self, record: Record, digest: bytes | None, new: object, old: object, *, has_result: bool) -> None:
        """An update without a right row is not answered, unless it takes the right row away, or there is a result.

        If such a row has lost its right row, the answer that says so is dropped because of this update.
        """
        if new is None and record.value.new is not None:
            self.ctx.env.metrics.add(DROPPED_RECORDS, self.name)
        if old is None or (new is not None and self._same(new, old)):
            if has_result:
                self._send(record, digest, new, Instruction.ANSWER_ALWAYS)
            elif new is not None:
                self._send(record, digest, new, Instruction.ANSWER_IF_THERE)
        elif new is None:
            self._send(record, digest, old, Instruction.UNSUBSCRIBE_AND_ANSWER)
        else:  # what the old foreign key gave must go, even if the new one gives nothing
            self._send(record, digest, old, Instruction.UNSUBSCRIBE)
            self._send(record, digest, new, Instruction.ANSWER_ALWAYS)

    def _foreign_key(self, record: Record, value: object) -> Any:
        return None if value is None else self._extract(record.with_value(value))

    def _same(self, this: object, other: object) -> bool:
        return self._keys.serialize(this) == self._keys.serialize(other)

    def _send(self, record: Record, digest: bytes | None, foreign_key: object, instruction: Instruction) -> None:
        asked = Subscription(instruction, digest, self._partition, record.key)
        self.ctx.forward(Record(foreign_key, asked, record.timestamp_ms, record.headers))


class ForeignKeyResolveRows(OperatorRows[ForeignKeyResolve]):
    """ForeignKeyResolve in row form. Sends updates for the table of results; answers out of date are counted.

    So are those about a row whose deletion a cache has not passed on: that one asks again.
    """

    def __init__(self, node: ProcessorNode, operator: ForeignKeyResolve, ctx: RowContext) -> None:
        super().__init__(node, operator, ctx)
        self._table = ctx.table(operator.table)
        edge = self.edge
        right = edge.value.right if edge is not None and isinstance(edge.value, AnswerSchema) else None
        self._left_keys = ctx.env.store_spec(operator.asked_rows).key_serde
        self._asked = AskedRows(ctx.env.byte_store(operator.asked_rows))
        self._join = row_joiner(self.name, operator.joiner, ctx.schemas.get(operator.table), right)

    def process(self, record: Record) -> None:
        """Take one answer."""
        operator, answer = self._operator, record.value
        left = self._table.get(record.key)
        value = None if left is None else left[0]
        key = self._left_keys.to_bytes(record.key)
        asked = self._asked.get(key)
        digest = value_digest(operator.serdes.value, value) if asked is None else asked.digest
        if digest is None:
            value = None  # what a cache holds has not asked yet
        if answer.digest != digest or (value is None and answer.value is not None):
            self.ctx.env.metrics.add(DROPPED_RECORDS, self.name)
            return
        nothing = answer.value is None and (value is None or not operator.left)
        result = None if nothing else self._join(record.with_value(value), answer.value)
        now = Asked(digest, has_result=not nothing)
        if now != asked:
            self._asked.put(key, now)
        self.ctx.forward(record.with_value(result))


def value_digest(serde: Serde, value: object) -> bytes | None:
    """By which a left row recognizes the answers to its current value; `None` of no value."""
    return digest_of(serde.serialize(value))


def digest_of(data: bytes | None) -> bytes | None:
    """The same of the value's bytes."""
    return None if data is None else hashlib.blake2b(data, digest_size=16).digest()
