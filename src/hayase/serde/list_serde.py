"""Lists of values, as Kafka's own ListSerializer lays them out (KIP-466)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from hayase.core.type_variables import T
from hayase.serde.bare import BareCodec, refuse, refuse_bytes
from hayase.serde.numbers import DoubleSerde, FloatSerde, IntegerSerde, LongSerde, ShortSerde
from hayase.serde.protocol import BARE_FIELD, ColumnCodec, Serde, Side
from hayase.serde.uuid_serde import UuidSerde

_INT = struct.Struct(">i")
_CONSTANT_SIZE, _VARIABLE_SIZE = 0, 1
_NULL_ITEM = -1
_WIDTHS: dict[type[Serde], int] = {
    ShortSerde: 2,
    IntegerSerde: 4,
    FloatSerde: 4,
    LongSerde: 8,
    DoubleSerde: 8,
    UuidSerde: 36,
}


class ListSerde(Serde[list[T]]):
    r"""Lists, the items by an inner serde: Kafka's ListSerializer and ListDeserializer (KIP-466).

    Items of Short, Integer, Float, Long, Double and UUID stand side by side, with the places of nulls in front;
    all others have their length before them. Items may be null. It has a column form, a list column, if the inner serde
    has one for bare values and these are no UUIDs.

    Args:
        inner: the serde of the items.

    Example:
        >>> from hayase.serde import ShortSerde
        >>> ListSerde(ShortSerde()).serialize([5])
        b'\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x05'
    """

    def __init__(self, inner: Serde[T]) -> None:
        self._inner = inner
        self._width = _WIDTHS.get(type(inner))

    @property
    def inner(self) -> Serde[T]:
        """The serde of the items."""
        return self._inner

    def map_inner(self, replace: Callable[[Serde], Serde]) -> ListSerde[T]:
        """The lists with another serde of items."""
        inner = replace(self._inner)
        return self if inner is self._inner else ListSerde(inner)

    def for_topic(self, topic: str, side: Side, settings: Mapping[str, object]) -> ListSerde[T]:
        """The serde with the inner serde for that topic."""
        return ListSerde(self._inner.for_topic(topic, side, settings))

    def to_bytes(self, value: list[T]) -> bytes:
        """Raises SerializationError for what is no list or tuple, or an item the inner serde refuses."""
        if not isinstance(value, list | tuple):
            raise refuse(self, value, "list")
        items = [self._inner.serialize(item) for item in value]
        if self._width is None:
            parts = [bytes((_VARIABLE_SIZE,)), _INT.pack(len(items))]
            for item in items:
                parts += (_INT.pack(_NULL_ITEM),) if item is None else (_INT.pack(len(item)), item)
            return b"".join(parts)
        nulls = [index for index, item in enumerate(items) if item is None]
        head = struct.pack(f">B{len(nulls) + 2}i", _CONSTANT_SIZE, len(nulls), *nulls, len(items))
        return head + b"".join(item for item in items if item is not None)

    def from_bytes(self, data: bytes) -> list[T]:
        """Raises SerializationError for bytes that do not end where the last item ends."""
        try:
            return self._read(data)
        except (struct.error, IndexError) as error:
            raise refuse_bytes(self, data, "a list as Kafka's ListSerializer writes it") from error

    def _read(self, data: bytes) -> list[Any]:
        strategy, at = data[0], 1
        nulls: frozenset[int] = frozenset()
        if strategy != (_VARIABLE_SIZE if self._width is None else _CONSTANT_SIZE):
            raise refuse_bytes(self, data, f"a list of items by {type(self._inner).__name__}")
        if self._width is not None:
            (count,), at = _INT.unpack_from(data, at), at + 4
            nulls = frozenset(struct.unpack_from(f">{count}i", data, at))
            at += 4 * count
        (size,), at = _INT.unpack_from(data, at), at + 4
        if not 0 <= size <= len(data) + len(nulls):  # a damaged size must not make a huge list
            raise refuse_bytes(self, data, "a list with as many items as it says")
        items: list[Any] = []
        for index in range(size):
            width = self._width
            if width is None:
                (width,), at = _INT.unpack_from(data, at), at + 4
            if index in nulls or width == _NULL_ITEM:
                items.append(None)
                continue
            if width < 0 or at + width > len(data):
                raise refuse_bytes(self, data, "a list whose items are all there")
            items.append(self._inner.deserialize(data[at : at + width]))
            at += width
        if at != len(data):
            raise refuse_bytes(self, data, "a list that ends with its last item")
        return items

    @property
    def columns(self) -> ColumnCodec | None:
        """One field of type List; `None` if the items have no column form of their own."""
        inner = self._inner.columns
        if inner is None or not inner.schema.bare or isinstance(self._inner, UuidSerde):
            return None
        return _ListCodec(self, pl.List(inner.schema.fields[0][1]), list)


class _ListCodec(BareCodec):
    """Item by item: lists are short, and each has its own layout."""

    def decode_column(self, data: pa.Array) -> pl.Series | None:
        return pl.Series(BARE_FIELD, [None] * len(data), dtype=self._dtype) if data.null_count == len(data) else None

    def encode_column(self, values: pl.Series) -> list[bytes | None]:
        return [self._serde.serialize(value) for value in values.to_list()]

    def from_python(self, values: Sequence[object]) -> tuple[pl.DataFrame, pl.Series]:
        """See ColumnCodec."""
        return super().from_python([self._serde.deserialize(self._serde.serialize(value)) for value in values])
