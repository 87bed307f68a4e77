"""SQL values as what MessagePack takes, and packed values: the bytes that stand for them in columns.

Stored values are canonical: equal ones have equal bytes, whatever the order of a map's entries. Packed values keep that
order, since results may show it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any

import msgspec

from hayase.core.errors import SerializationError
from hayase.sql.formats.columns import Column, is_packed, types_in
from hayase.sql.types import sql_types as sql

Convert = Callable[[Any], Any]
_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder()
NIL = _ENCODER.encode(None)


@dataclass(frozen=True, slots=True)
class PackedForm:
    """How the values of a type are packed; none of the functions is called with None.

    Attributes:
        type: of the values.
        pack: a value as bytes; raises what a value of another type makes it raise.
        unpack: the value of such bytes, or of stored ones.
        stored: packed bytes as stored ones; `None`: they are the same.
    """

    type: sql.SqlType
    pack: Callable[[Any], bytes] = field(compare=False, repr=False)
    unpack: Callable[[bytes], Any] = field(compare=False, repr=False)
    stored: Callable[[bytes], bytes] | None = field(compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return packed_form, (self.type,)

    def pack_all(self, values: Sequence[Any]) -> list[bytes | None]:
        """Values, some of them null, packed."""
        return [None if value is None else self.pack(value) for value in values]

    def unpack_all(self, values: Sequence[bytes | None]) -> list[Any]:
        """The values of packed ones, some of them null."""
        return [None if value is None else self.unpack(value) for value in values]


def packed_form(type_: sql.SqlType) -> PackedForm:
    """How values of a type are packed."""
    pack, unpack = packer(type_, ordered=True), unpacker(type_)
    store = packer(type_)
    stored = partial(_stored, unpack, store) if unpack is not None and store is not None and _has_map(type_) else None
    return PackedForm(
        type_,
        _ENCODER.encode if pack is None else partial(_packed, pack),
        _DECODER.decode if unpack is None else partial(_unpacked, unpack),
        stored,
    )


def packed_forms(columns: Sequence[Column], names: Collection[str] = ()) -> Mapping[str, PackedForm]:
    """Those of the columns whose values are packed, by name: the named ones, and those of types that have to be."""
    return {
        column.name: packed_form(column.type) for column in columns if column.name in names or is_packed(column.type)
    }


def _packed(pack: Convert, value: Any) -> bytes:
    return _ENCODER.encode(pack(value))


def _unpacked(unpack: Convert, data: bytes) -> Any:
    return unpack(_DECODER.decode(data))


def _stored(unpack: Convert, pack: Convert, data: bytes) -> bytes:
    return _ENCODER.encode(pack(unpack(_DECODER.decode(data))))


def _has_map(type_: sql.SqlType) -> bool:
    return any(isinstance(each, sql.MapType) for each in types_in(type_))


def packer(type_: sql.SqlType, *, ordered: bool = False) -> Convert | None:
    """What brings a value, which is not None, into a form that msgspec writes; `None`: it is in it.

    Args:
        type_: of the values.
        ordered: maps keep the order of their entries.
    """
    match type_:
        case sql.DecimalType():
            return str
        case sql.DoubleType():
            return _number
        case sql.ArrayType(item):
            pack = packer(item, ordered=ordered)
            return None if pack is None else partial(_array, pack)
        case sql.MapType(key, value):
            return partial(_pack_map, packer(key, ordered=ordered), packer(value, ordered=ordered), ordered)
        case sql.StructType(fields):
            return partial(_pack_struct, [(name, packer(item, ordered=ordered)) for name, item in fields])
        case _:
            return None


def unpacker(type_: sql.SqlType) -> Convert | None:
    """What makes a value of what was read; `None`: it is one."""
    match type_:
        case sql.DecimalType():
            return Decimal
        case sql.ArrayType(item):
            unpack = unpacker(item)
            return None if unpack is None else partial(_array, unpack)
        case sql.MapType(key, value):
            return partial(_unpack_map, unpacker(key), unpacker(value))
        case sql.StructType(fields):
            return partial(_unpack_struct, [(name, unpacker(item)) for name, item in fields])
        case _:
            return None


def _number(value: float) -> float:
    return math.nan if math.isnan(value) else float(value)  # one NaN for all


def _array(convert: Convert, value: list[Any]) -> list[Any]:
    return [None if item is None else convert(item) for item in value]


def _pack_map(key: Convert | None, convert: Convert | None, ordered: bool, value: dict[Any, Any]) -> list[Any]:
    pairs = [
        [
            each if key is None or each is None else key(each),
            item if convert is None or item is None else convert(item),
        ]
        for each, item in value.items()
    ]
    if ordered:
        return pairs
    return sorted(pairs, key=lambda pair: _ENCODER.encode(pair[0]))  # equal maps have equal bytes


def _unpack_map(key: Convert | None, convert: Convert | None, pairs: list[Any]) -> dict[Any, Any]:
    return {
        each if key is None or each is None else key(each): item if convert is None or item is None else convert(item)
        for each, item in pairs
    }


def _pack_struct(fields: list[tuple[str, Convert | None]], value: dict[str, Any]) -> list[Any]:
    packed = []
    for name, pack in fields:
        item = value[name]
        packed.append(item if pack is None or item is None else pack(item))
    return packed


def _unpack_struct(fields: list[tuple[str, Convert | None]], values: list[Any]) -> dict[str, Any]:
    if len(values) != len(fields):
        raise SerializationError("VALUE_NOT_DESERIALIZABLE", f"{len(values)} values for {len(fields)} columns")
    return {
        name: item if unpack is None or item is None else unpack(item)
        for (name, unpack), item in zip(fields, values, strict=True)
    }
