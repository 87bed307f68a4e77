"""Rows in stores and internal topics: MessagePack without names, exact, equal bytes for equal rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

import msgspec

from hayase.core.errors import SerializationError
from hayase.serde.bare import refuse, refuse_bytes
from hayase.serde.protocol import ColumnCodec, Serde
from hayase.sql.formats.columns import Column
from hayase.sql.formats.internal_columns import InternalCodec
from hayase.sql.formats.row_columns import column_schema, key_column_schema
from hayase.sql.types import sql_types as sql

_Convert = Callable[[Any], Any]
_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder()


def internal_key_serde(columns: Sequence[Column]) -> Serde[Any]:
    """Keys: without columns always null, one column bare, several as dict."""
    return InternalSerde(columns, bare=len(columns) == 1)


def internal_value_serde(columns: Sequence[Column]) -> Serde[dict[str, Any]]:
    """Dicts of all the columns; those at the end that a row was written without are null."""
    return InternalSerde(columns, bare=False)


class InternalSerde(Serde[Any]):
    """Rows of columns, or the value of a bare column.

    Args:
        columns: names and types; what a value has beyond them is not kept.
        bare: the values are those of the only column.
    """

    def __init__(self, columns: Sequence[Column], *, bare: bool) -> None:
        self._parts = (tuple(columns), bare)
        fields = tuple((column.name, column.type) for column in columns)
        type_ = columns[0].type if bare else sql.StructType(fields)
        self._pack = _packer(type_)
        self._read = _reader(type_)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_internal_serde, self._parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InternalSerde) and self._parts == other._parts

    def __hash__(self) -> int:
        return hash(self._parts)

    def to_bytes(self, value: Any) -> bytes:
        """Raises SerializationError for what does not fit the columns."""
        try:
            return _ENCODER.encode(value if self._pack is None else self._pack(value))
        except Exception as error:
            raise refuse(self, value, f"rows of {self._named()}") from error

    def from_bytes(self, data: bytes) -> Any:
        """Raises SerializationError."""
        try:
            return self._read(data)
        except Exception as error:
            raise refuse_bytes(self, data, f"rows of {self._named()}") from error

    @property
    def columns(self) -> ColumnCodec | None:
        """The column form; `None` if a column has none."""
        columns, bare = self._parts
        schema = key_column_schema(columns) if bare else column_schema(columns)
        if schema is None:
            return None
        types = [column.type for column in columns]
        decode, attributes = (None, []) if bare else _record_decoder([column.name for column in columns])
        return InternalCodec(self, schema, list(map(_packer, types)), list(map(_unpacker, types)), decode, attributes)

    def _named(self) -> str:
        return ", ".join(f"{column.name} {column.type}" for column in self._parts[0])


def _internal_serde(columns: Sequence[Column], bare: bool) -> InternalSerde:
    return InternalSerde(columns, bare=bare)


def _reader(type_: sql.SqlType) -> _Convert:
    """What makes a value of bytes; rows through a struct where the names allow it, which is several times faster."""
    if isinstance(type_, sql.StructType):
        decode, attributes = _record_decoder([name for name, _ in type_.fields])
        named = attributes == [name for name, _ in type_.fields]
        unpackers = [(name, _unpacker(each)) for name, each in type_.fields]
        needed = [(name, each) for name, each in unpackers if each is not None]
        names = None if named else [name for name, _ in type_.fields]
        return partial(_read_row, decode, names, needed)
    unpack = _unpacker(type_)
    return _DECODER.decode if unpack is None else partial(_read_value, unpack)


def _record_decoder(names: list[str]) -> tuple[Callable[[bytes], Any], list[str]]:
    """What decodes a row into a struct, and the names of that one's fields: those of the columns where they can be."""
    attributes = names if all(map(_can_be_named, names)) else [f"f{index}" for index in range(len(names))]
    fields = [(name, Any, None) for name in attributes]
    twin = msgspec.defstruct("Row", fields, array_like=True, forbid_unknown_fields=True, gc=False)
    return msgspec.msgpack.Decoder(twin).decode, attributes


def _can_be_named(name: str) -> bool:
    return name.isidentifier() and not name.startswith("__")


def _read_value(unpack: _Convert, data: bytes) -> Any:
    value = _DECODER.decode(data)
    return None if value is None else unpack(value)


def _read_row(
    decode: _Convert, names: list[str] | None, unpackers: list[tuple[str, _Convert]], data: bytes
) -> dict[str, Any]:
    twin = decode(data)
    row = (
        msgspec.structs.asdict(twin) if names is None else dict(zip(names, msgspec.structs.astuple(twin), strict=True))
    )
    for name, unpack in unpackers:
        value = row[name]
        if value is not None:
            row[name] = unpack(value)
    return row


def _packer(type_: sql.SqlType) -> _Convert | None:
    """What brings a value, which is not None, into a form that msgspec writes; `None`: it is in it."""
    match type_:
        case sql.DecimalType():
            return str
        case sql.DoubleType():
            return _number
        case sql.ArrayType(item):
            pack = _packer(item)
            return None if pack is None else partial(_array, pack)
        case sql.MapType(key, value):
            return partial(_pack_map, _packer(key), _packer(value))
        case sql.StructType(fields):
            return partial(_pack_struct, [(name, _packer(item)) for name, item in fields])
        case _:
            return None


def _unpacker(type_: sql.SqlType) -> _Convert | None:
    match type_:
        case sql.DecimalType():
            return Decimal
        case sql.ArrayType(item):
            unpack = _unpacker(item)
            return None if unpack is None else partial(_array, unpack)
        case sql.MapType(key, value):
            return partial(_unpack_map, _unpacker(key), _unpacker(value))
        case sql.StructType(fields):
            return partial(_unpack_struct, [(name, _unpacker(item)) for name, item in fields])
        case _:
            return None


def _number(value: float) -> float:
    return math.nan if math.isnan(value) else float(value)  # one NaN for all


def _array(convert: _Convert, value: list[Any]) -> list[Any]:
    return [None if item is None else convert(item) for item in value]


def _pack_map(key: _Convert | None, convert: _Convert | None, value: dict[Any, Any]) -> list[Any]:
    pairs = [
        [
            each if key is None or each is None else key(each),
            item if convert is None or item is None else convert(item),
        ]
        for each, item in value.items()
    ]
    return sorted(pairs, key=lambda pair: _ENCODER.encode(pair[0]))  # equal maps have equal bytes


def _unpack_map(key: _Convert | None, convert: _Convert | None, pairs: list[Any]) -> dict[Any, Any]:
    return {
        each if key is None or each is None else key(each): item if convert is None or item is None else convert(item)
        for each, item in pairs
    }


def _pack_struct(fields: list[tuple[str, _Convert | None]], value: dict[str, Any]) -> list[Any]:
    packed = []
    for name, pack in fields:
        item = value[name]
        packed.append(item if pack is None or item is None else pack(item))
    return packed


def _unpack_struct(fields: list[tuple[str, _Convert | None]], values: list[Any]) -> dict[str, Any]:
    if len(values) != len(fields):
        raise SerializationError("VALUE_NOT_DESERIALIZABLE", f"{len(values)} values for {len(fields)} columns")
    return {
        name: item if unpack is None or item is None else unpack(item)
        for (name, unpack), item in zip(fields, values, strict=True)
    }
