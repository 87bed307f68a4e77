"""The left side of a foreign-key join in row form: asks for right rows, and joins the answers."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

from hayase.core.metrics import DROPPED_RECORDS
from hayase.core.records import Record
from hayase.kernel.foreign_key.joined_keys import JoinedKeys
from hayase.kernel.frame.row_functions import row_joiner, row_mapper
from hayase.kernel.node.row_node import OperatorRows, RowContext
from hayase.serde.protocol import Serde
from hayase.serde.subscription_columns import AnswerSchema
from hayase.serde.subscriptions import Instruction, Subscription
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import ForeignKeyResolve, ForeignKeySubscribe


class _RowJoinedKeys(NamedTuple):
    serde: Serde
    keys: JoinedKeys

    @classmethod
    def of(cls, store: str | None, ctx: RowContext) -> _RowJoinedKeys | None:
        """Those of an inner join."""
        if store is None:
            return None
        return cls(ctx.env.store_spec(store).key_serde, JoinedKeys(ctx.env.byte_store(store)))


class ForeignKeySubscribeRows(OperatorRows[ForeignKeySubscribe]):
    """ForeignKeySubscribe in row form."""

    def __init__(self, node: ProcessorNode, operator: ForeignKeySubscribe, ctx: RowContext) -> None:
        super().__init__(node, operator, ctx)
        self._extract = row_mapper(self.name, self._operator.extractor, self.edge)
        self._keys, self._values = self._operator.serdes.key, self._operator.serdes.value
        self._partition = ctx.env.partition
        self._joined = _RowJoinedKeys.of(operator.joined_keys, ctx)

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
        if self._operator.left:
            self._left(record, new, old)
        else:
            self._inner(record, new, old)

    def _left(self, record: Record, new: object, old: object) -> None:
        """Each update is answered, also one without a foreign key.

        A row is joined with nothing, a delete is passed on.
        """
        if old is not None and not self._same(new, old):
            self._send(record, old, Instruction.UNSUBSCRIBE)
        self._send(record, new, Instruction.ANSWER_ALWAYS)

    def _inner(self, record: Record, new: object, old: object) -> None:
        """An update without a right row is not answered, unless it takes the row's right row away, or that is joined.

        If a joined row lost its right row, the answer that says so is dropped because of this update.
        """
        if new is None and record.value.new is not None:
            self.ctx.env.metrics.add(DROPPED_RECORDS, self.name)
        if old is None or (new is not None and self._same(new, old)):
            if self._is_joined(record.key):
                self._send(record, new, Instruction.ANSWER_ALWAYS)
            elif new is not None:
                self._send(record, new, Instruction.ANSWER_IF_THERE)
        elif new is None:
            self._send(record, old, Instruction.UNSUBSCRIBE_AND_ANSWER)
        else:  # what the old foreign key gave must go, even if the new one gives nothing
            self._send(record, old, Instruction.UNSUBSCRIBE)
            self._send(record, new, Instruction.ANSWER_ALWAYS)

    def _foreign_key(self, record: Record, value: object) -> Any:
        return None if value is None else self._extract(record.with_value(value))

    def _is_joined(self, key: object) -> bool:
        assert self._joined is not None
        return self._joined.serde.to_bytes(key) in self._joined.keys

    def _same(self, this: object, other: object) -> bool:
        return self._keys.serialize(this) == self._keys.serialize(other)

    def _send(self, record: Record, foreign_key: object, instruction: Instruction) -> None:
        digest = value_digest(self._values, record.value.new)
        asked = Subscription(instruction, digest, self._partition, record.key)
        self.ctx.forward(Record(foreign_key, asked, record.timestamp_ms, record.headers))


class ForeignKeyResolveRows(OperatorRows[ForeignKeyResolve]):
    """ForeignKeyResolve in row form. Sends updates for the table of results; answers out of date are counted."""

    def __init__(self, node: ProcessorNode, operator: ForeignKeyResolve, ctx: RowContext) -> None:
        super().__init__(node, operator, ctx)
        self._table = ctx.table(operator.table)
        edge = self.edge
        right = edge.value.right if edge is not None and isinstance(edge.value, AnswerSchema) else None
        self._joined = _RowJoinedKeys.of(operator.joined_keys, ctx)
        self._join = row_joiner(self.name, operator.joiner, ctx.schemas.get(operator.table), right)

    def process(self, record: Record) -> None:
        """Take one answer."""
        operator, answer = self._operator, record.value
        left = self._table.get(record.key)
        value = None if left is None else left[0]
        if answer.digest != value_digest(operator.serdes.value, value):
            self.ctx.env.metrics.add(DROPPED_RECORDS, self.name)
            return
        nothing = answer.value is None and (value is None or not operator.left)
        result = None if nothing else self._join(record.with_value(value), answer.value)
        if self._joined is not None:
            self._joined.keys.set(self._joined.serde.to_bytes(record.key), joined=not nothing)
        self.ctx.forward(record.with_value(result))


def value_digest(serde: Serde, value: object) -> bytes | None:
    """By which a left row recognizes the answers to its current value; `None` of no value."""
    return digest_of(serde.serialize(value))


def digest_of(data: bytes | None) -> bytes | None:
    """The same of the value's bytes."""
    return None if data is None else hashlib.blake2b(data, digest_size=16).digest()
