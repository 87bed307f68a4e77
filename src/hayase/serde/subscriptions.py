"""What travels between the two sides of a foreign-key join, as values and as bytes (KIP-213).

Internal: these bytes are in shuffles, journals, stores and internal topics of one application.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from hayase.core.errors import SerializationError
from hayase.serde.protocol import ColumnCodec, Serde, Side

_HEAD = struct.Struct(">BiB")
_LENGTH = struct.Struct(">I")


class Instruction(IntEnum):
    """What the right side does with a subscription."""

    UNSUBSCRIBE = 0
    """Forget it; answer nothing."""
    UNSUBSCRIBE_AND_ANSWER = 1
    """Forget it; answer that there is no right row."""
    ANSWER_ALWAYS = 2
    """Remember it; answer with the right row, or that there is none."""
    ANSWER_IF_THERE = 3
    """Remember it; answer if there is a right row."""


class Subscription(NamedTuple):
    """A left row that asks for the right row of its foreign key.

    Attributes:
        instruction: what is to be done.
        digest: of the left row's value, by which it recognizes answers that are out of date; `None` if it is deleted.
        partition: of the task that holds the left row.
        primary_key: of the left row.
    """

    instruction: Instruction
    digest: bytes | None
    partition: int
    primary_key: Any


class Answer(NamedTuple):
    """The right row for a left row; see Subscription. `value` is `None` if there is no right row."""

    digest: bytes | None
    partition: int
    value: Any


def packed(number: int, partition: int, digest: bytes | None, rest: bytes | None) -> bytes:
    """The bytes of a subscription or an answer; `rest` is the primary key, or the right value."""
    flag = b"" if rest is None else b"\x01" + rest
    return _HEAD.pack(number, partition, 0 if digest is None else len(digest)) + (digest or b"") + flag


def unpacked(data: bytes) -> tuple[int, int, bytes | None, bytes | None]:
    """What `packed` was given; raises SerializationError."""
    try:
        number, partition, length = _HEAD.unpack_from(data)
    except struct.error as error:
        raise SerializationError("VALUE_NOT_DESERIALIZABLE", f"nothing of a foreign-key join: {data[:40]!r}") from error
    middle = _HEAD.size + length
    if number > Instruction.ANSWER_IF_THERE or middle > len(data):
        raise SerializationError("VALUE_NOT_DESERIALIZABLE", f"nothing of a foreign-key join: {data[:40]!r}")
    digest = data[_HEAD.size : middle] if length else None
    return number, partition, digest, data[middle + 1 :] if len(data) > middle else None


class _Wrapper(Serde):
    def __init__(self, inner: Serde) -> None:
        self._inner = inner

    @property
    def inner(self) -> Serde:
        """The serde of primary keys, or of right values."""
        return self._inner

    def map_inner(self, replace: Callable[[Serde], Serde]) -> Serde:
        """See Serde."""
        return type(self)(replace(self._inner))

    def for_topic(self, topic: str, side: Side, settings: Mapping[str, object]) -> Serde:
        """The serde with the inner serde for that topic."""
        return type(self)(self._inner.for_topic(topic, side, settings))

    def _pack(self, number: int, partition: int, digest: bytes | None, rest: bytes | None) -> bytes:
        return packed(number, partition, digest, rest)

    def _unpack(self, data: bytes) -> tuple[int, int, bytes | None, bytes | None]:
        return unpacked(data)


class SubscriptionSerde(_Wrapper):
    """Subscriptions; `inner` is the serde of primary keys."""

    def to_bytes(self, value: Subscription) -> bytes:
        """Raises SerializationError."""
        return self._pack(value.instruction, value.partition, value.digest, self._inner.serialize(value.primary_key))

    def from_bytes(self, data: bytes) -> Subscription:
        """Raises SerializationError."""
        number, partition, digest, key = self._unpack(data)
        return Subscription(Instruction(number), digest, partition, self._inner.deserialize(key))

    @property
    def columns(self) -> ColumnCodec | None:
        """The column form; `None` if keys have none."""
        from hayase.serde.subscription_columns import SubscriptionCodec

        inner = self._inner.columns
        return None if inner is None else SubscriptionCodec(inner)


class AnswerSerde(_Wrapper):
    """Answers; `inner` is the serde of right values."""

    def to_bytes(self, value: Answer) -> bytes:
        """Raises SerializationError."""
        return self._pack(0, value.partition, value.digest, self._inner.serialize(value.value))

    def from_bytes(self, data: bytes) -> Answer:
        """Raises SerializationError."""
        _, partition, digest, value = self._unpack(data)
        return Answer(digest, partition, self._inner.deserialize(value))

    @property
    def columns(self) -> ColumnCodec | None:
        """The column form; `None` if values have none."""
        from hayase.serde.subscription_columns import AnswerCodec

        inner = self._inner.columns
        return None if inner is None else AnswerCodec(inner)


def prefix_of(foreign: bytes) -> bytes:
    """What the bytes of all pairs with a foreign key begin with, by its bytes."""
    return _LENGTH.pack(len(foreign)) + foreign


class CombinedKeySerde(Serde[tuple[object, object]]):
    r"""Pairs of foreign and primary key: length of the foreign key (4 bytes, big-endian), it, the primary key.

    All pairs with one foreign key are neighbours, in the order of the bytes of the primary key.

    Example:
        >>> from hayase.serde import StringSerde
        >>> CombinedKeySerde(StringSerde(), StringSerde()).serialize(("right", "left"))
        b'\x00\x00\x00\x05rightleft'
    """

    def __init__(self, foreign: Serde, primary: Serde) -> None:
        self._foreign = foreign
        self._primary = primary

    @property
    def foreign(self) -> Serde:
        """The serde of foreign keys."""
        return self._foreign

    @property
    def primary(self) -> Serde:
        """The serde of primary keys."""
        return self._primary

    def map_inner(self, replace: Callable[[Serde], Serde]) -> CombinedKeySerde:
        """See Serde."""
        return CombinedKeySerde(replace(self._foreign), replace(self._primary))

    def for_topic(self, topic: str, side: Side, settings: Mapping[str, object]) -> CombinedKeySerde:
        """With the inner serdes for that topic."""
        return CombinedKeySerde(
            self._foreign.for_topic(topic, side, settings), self._primary.for_topic(topic, side, settings)
        )

    def prefix(self, foreign_key: object) -> bytes:
        """What the bytes of all pairs with a foreign key begin with, and no others."""
        return prefix_of(self._foreign.to_bytes(foreign_key))

    def to_bytes(self, value: tuple[object, object]) -> bytes:
        """Both keys; raises SerializationError."""
        return self.prefix(value[0]) + self._primary.to_bytes(value[1])

    def from_bytes(self, data: bytes) -> tuple[object, object]:
        """Both keys; raises SerializationError."""
        if len(data) < _LENGTH.size:
            raise SerializationError("VALUE_NOT_DESERIALIZABLE", f"no pair of keys: {data[:40]!r}")
        end = _LENGTH.size + _LENGTH.unpack_from(data)[0]
        if end > len(data):
            raise SerializationError("VALUE_NOT_DESERIALIZABLE", f"no pair of keys: {data[:40]!r}")
        return self._foreign.from_bytes(data[_LENGTH.size : end]), self._primary.from_bytes(data[end:])
