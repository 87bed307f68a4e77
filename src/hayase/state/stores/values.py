"""Values as stores keep them: plain, or with the timestamp of the record they came from."""

from __future__ import annotations

import struct
from typing import Generic, NamedTuple, Protocol

from hayase.core.errors import SerializationError
from hayase.core.type_variables import K, V
from hayase.serde.protocol import Serde

_TIME = struct.Struct(">q")


class ValueAndTimestamp(NamedTuple, Generic[V]):
    """A value of a timestamped store and the event time of the update it came from, milliseconds (UTC)."""

    value: V
    timestamp_ms: int


class KeyValue(NamedTuple, Generic[K, V]):
    """One row of a store, as iterators of processors' stores give it (Kafka Streams' `KeyValue`): a pair with names.

    Rows of `StreamsApp.store()` have `key` and `value` as well, and their timestamp.
    """

    key: K
    value: V


class ValueCodec(Protocol[V]):
    """Bytes of a store's values and back."""

    def to_bytes(self, value: V | None) -> bytes | None:
        """What is stored; `None` deletes."""
        ...

    def from_bytes(self, data: bytes) -> V:
        """What was stored."""
        ...


class PlainValues(Generic[V]):
    """Values as their serde writes them."""

    def __init__(self, serde: Serde[V]) -> None:
        self.to_bytes = serde.serialize  # without a call between: each record has several of them
        self.from_bytes = serde.from_bytes


class TimestampedValues(Generic[V]):
    """8 bytes of timestamp (big-endian), then the value as its serde writes it."""

    def __init__(self, serde: Serde[V]) -> None:
        self._serde = serde

    def to_bytes(self, value: ValueAndTimestamp[V] | None) -> bytes | None:
        """The bytes of timestamp and value; `None` for no value."""
        if value is None:
            return None
        data = self._serde.serialize(value.value)
        return None if data is None else _TIME.pack(value.timestamp_ms) + data

    def from_bytes(self, data: bytes) -> ValueAndTimestamp[V]:
        """Timestamp and value of the bytes."""
        if len(data) < _TIME.size:
            raise SerializationError(
                "VALUE_NOT_DESERIALIZABLE", f"a value with a timestamp has at least {_TIME.size} bytes, not {len(data)}"
            )
        return ValueAndTimestamp(self._serde.from_bytes(data[_TIME.size :]), _TIME.unpack_from(data)[0])


def key_bytes(serde: Serde, key: object) -> bytes:
    """The bytes of a key.

    Raises:
        SerializationError: it is not one the serde can write; `NULL_KEY`: it is null, which no store takes.
    """
    data = serde.serialize(key)
    if data is None:
        raise SerializationError("NULL_KEY", "A store has no null keys; drop records without a key, or give them one.")
    return data
