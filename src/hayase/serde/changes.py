"""Updates of a table as bytes, with the old value beside the new one: what crosses a repartition of a grouped table."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from hayase.core.errors import SerializationError
from hayase.core.records import Change
from hayase.serde.protocol import Serde, Side

V = TypeVar("V")
"""Type of the values."""

_HEAD = struct.Struct(">ii")
_ABSENT = -1


class ChangeSerde(Serde[Change[V]]):
    r"""Two lengths (4 bytes each, big-endian; -1: there is no such value), the new value, the old value.

    Internal: these bytes are in shuffles and journals of one application and in no topic.

    Args:
        inner: the serde of the values.

    Example:
        >>> from hayase.serde import StringSerde
        >>> ChangeSerde(StringSerde()).serialize(Change("b", "a"))
        b'\x00\x00\x00\x01\x00\x00\x00\x01ba'
    """

    def __init__(self, inner: Serde[V]) -> None:
        self._inner = inner

    @property
    def inner(self) -> Serde[V]:
        """The serde of the values."""
        return self._inner

    def map_inner(self, replace: Callable[[Serde[Any]], Serde[Any]]) -> ChangeSerde[V]:
        """See Serde."""
        return ChangeSerde(replace(self._inner))

    def for_topic(self, topic: str, side: Side, settings: Mapping[str, Any]) -> ChangeSerde[V]:
        """With the inner serde for that topic."""
        return ChangeSerde(self._inner.for_topic(topic, side, settings))

    def to_bytes(self, value: Change[V]) -> bytes:
        """Both values; raises SerializationError."""
        new, old = self._inner.serialize(value.new), self._inner.serialize(value.old)
        lengths = (_ABSENT if data is None else len(data) for data in (new, old))
        return _HEAD.pack(*lengths) + (new or b"") + (old or b"")

    def from_bytes(self, data: bytes) -> Change[V]:
        """Both values; raises SerializationError."""
        if len(data) < _HEAD.size:
            raise SerializationError("VALUE_NOT_DESERIALIZABLE", f"no update of a table: {data[:40]!r}")
        new, old = _HEAD.unpack_from(data)
        middle = _HEAD.size + max(new, 0)
        read = self._inner.deserialize
        return Change(
            None if new == _ABSENT else read(data[_HEAD.size : middle]),
            None if old == _ABSENT else read(data[middle:]),
        )
