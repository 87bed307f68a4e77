"""Updates of a table as bytes, with the old value beside the new one: what crosses a repartition of a grouped table."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import polars as pl
import pyarrow as pa

from hayase.core.errors import SerializationError
from hayase.core.records import Change
from hayase.serde.protocol import ColumnCodec, Decoded, Schema, Serde, Side

V = TypeVar("V")
"""Type of the values."""

OLD = "__old."
"""What the columns of old values begin with."""
OLD_NULL = "__old_null"
"""Column that says where there is no old value."""

_HEAD = struct.Struct(">ii")
_ABSENT = -1


class ChangeCodec(ColumnCodec):
    """The column form of updates: the fields are those of the new value, beside them `__old.<field>` and `__old_null`.

    Args:
        inner: the column form of the values.
    """

    def __init__(self, inner: ColumnCodec) -> None:
        self._inner = inner

    @property
    def schema(self) -> Schema:
        """Of the values."""
        return self._inner.schema

    @property
    def names(self) -> list[str]:
        """The columns that `encode` looks at."""
        names = self.schema.names
        return [*names, *(OLD + name for name in names), OLD_NULL]

    def decode(self, data: pa.Array, fields: frozenset[str] | None = None) -> Decoded:
        """See ColumnCodec."""
        return self.decode_list(data.to_pylist(), fields)

    def decode_list(self, values: Sequence[bytes | None], fields: frozenset[str] | None = None) -> Decoded:
        """See ColumnCodec; `null` says where the new value is null."""
        bad: dict[int, Exception] = {}
        pairs: list[tuple[bytes | None, bytes | None]] = []
        for row, data in enumerate(values):
            try:
                pairs.append((None, None) if data is None else _split(data))
            except SerializationError as error:
                bad[row] = error
                pairs.append((None, None))
        new = self._inner.decode_list([pair[0] for pair in pairs], fields)
        old = self._inner.decode_list([pair[1] for pair in pairs], fields)
        bad = {**dict(old.bad), **dict(new.bad), **bad}  # the new value is read first
        frame = new.frame.with_columns(old.frame.select(pl.all().name.prefix(OLD)).get_columns())
        null = new.null.scatter(list(bad), values=False) if bad else new.null
        return Decoded(frame.with_columns(old.null.alias(OLD_NULL)), null, sorted(bad.items()))

    def encode(self, frame: pl.DataFrame, null: pl.Series | None = None) -> list[bytes | None]:
        """See ColumnCodec."""
        names = self.schema.names
        new = self._inner.encode(frame.select(names), null)
        old = self._inner.encode(frame.select(pl.col(OLD + name).alias(name) for name in names), frame[OLD_NULL])
        return list(map(_joined, new, old))

    def to_python(self, frame: pl.DataFrame, null: pl.Series | None = None) -> list[object]:
        """Updates as `Change`."""
        names = self.schema.names
        new = self._inner.to_python(frame.select(names), null)
        old = self._inner.to_python(frame.select(pl.col(OLD + name).alias(name) for name in names), frame[OLD_NULL])
        return [Change(new_value, old_value) for new_value, old_value in zip(new, old, strict=True)]

    def from_python(self, values: Sequence[Any]) -> tuple[pl.DataFrame, pl.Series]:
        """See ColumnCodec."""
        frame, null = self._inner.from_python([value.new for value in values])
        old, old_null = self._inner.from_python([value.old for value in values])
        return frame.with_columns(*old.select(pl.all().name.prefix(OLD)), old_null.alias(OLD_NULL)), null


def _joined(new: bytes | None, old: bytes | None) -> bytes:
    lengths = (_ABSENT if data is None else len(data) for data in (new, old))
    return _HEAD.pack(*lengths) + (new or b"") + (old or b"")


def _split(data: bytes) -> tuple[bytes | None, bytes | None]:
    if len(data) < _HEAD.size:
        raise SerializationError("VALUE_NOT_DESERIALIZABLE", f"no update of a table: {data[:40]!r}")
    new, old = _HEAD.unpack_from(data)
    middle = _HEAD.size + max(new, 0)
    if min(new, old) < _ABSENT or middle + max(old, 0) != len(data):
        raise SerializationError("VALUE_NOT_DESERIALIZABLE", f"no update of a table: {data[:40]!r}")
    return None if new == _ABSENT else data[_HEAD.size : middle], None if old == _ABSENT else data[middle:]


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

    def map_inner(self, replace: Callable[[Serde], Serde]) -> ChangeSerde[V]:
        """See Serde."""
        return ChangeSerde(replace(self._inner))

    def for_topic(self, topic: str, side: Side, settings: Mapping[str, object]) -> ChangeSerde[V]:
        """The serde with the inner serde for that topic."""
        return ChangeSerde(self._inner.for_topic(topic, side, settings))

    def to_bytes(self, value: Change[V]) -> bytes:
        """Both values; raises SerializationError."""
        return _joined(self._inner.serialize(value.new), self._inner.serialize(value.old))

    def from_bytes(self, data: bytes) -> Change[V]:
        """Both values; raises SerializationError."""
        new, old = _split(data)
        return Change(self._inner.deserialize(new), self._inner.deserialize(old))

    @property
    def columns(self) -> ChangeCodec | None:
        """The column form; `None` if values have none."""
        inner = self._inner.columns
        return None if inner is None else ChangeCodec(inner)
