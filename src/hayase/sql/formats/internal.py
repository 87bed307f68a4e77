"""Rows in stores and internal topics: MessagePack without names, exact, equal bytes for equal rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import msgspec

from hayase.core.decoding import making_decoder
from hayase.serde.bare import refuse, refuse_bytes
from hayase.serde.protocol import ColumnCodec, Serde
from hayase.sql.formats.columns import Column
from hayase.sql.formats.internal_columns import InternalCodec
from hayase.sql.formats.packing import Convert, packed_forms, packer, unpacker
from hayase.sql.formats.row_columns import column_schema, key_column_schema
from hayase.sql.types import sql_types as sql

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder()


def internal_key_serde(columns: Sequence[Column]) -> Serde[Any]:
    """Keys: without columns always null, one column bare, several as dict."""
    return InternalSerde(columns, bare=len(columns) == 1)


def internal_value_serde(columns: Sequence[Column], packed: frozenset[str] = frozenset()) -> Serde[dict[str, Any]]:
    """Dicts of all the columns; those at the end that a row was written without are null.

    Args:
        columns: names and types.
        packed: names of the columns that are packed in column form whatever their types; the bytes are the same.
    """
    return InternalSerde(columns, bare=False, packed=packed)


class InternalSerde(Serde[Any]):
    """Rows of columns, or the value of a bare column.

    Args:
        columns: names and types; what a value has beyond them is not kept.
        bare: the values are those of the only column.
        packed: see `internal_value_serde`.
    """

    def __init__(self, columns: Sequence[Column], *, bare: bool, packed: frozenset[str] = frozenset()) -> None:
        self._parts = (tuple(columns), bare, packed)
        fields = tuple((column.name, column.type) for column in columns)
        type_ = columns[0].type if bare else sql.StructType(fields)
        self._pack = packer(type_)
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
        columns, bare, names = self._parts
        schema = key_column_schema(columns) if bare else column_schema(columns, names)
        if schema is None:
            return None
        types = [column.type for column in columns]
        packed = {} if bare else packed_forms(columns, names)
        decode, attributes = (None, []) if bare else _record_decoder([column.name for column in columns], packed)
        packers, unpackers = list(map(packer, types)), list(map(unpacker, types))
        return InternalCodec(self, schema, packers, unpackers, decode, attributes, packed)

    def _named(self) -> str:
        return ", ".join(f"{column.name} {column.type}" for column in self._parts[0])


def _internal_serde(columns: Sequence[Column], bare: bool, packed: frozenset[str] = frozenset()) -> InternalSerde:
    return InternalSerde(columns, bare=bare, packed=packed)


def _reader(type_: sql.SqlType) -> Convert:
    """What makes a value of bytes; rows through a struct where the names allow it, which is several times faster."""
    if isinstance(type_, sql.StructType):
        decode, attributes = _record_decoder([name for name, _ in type_.fields])
        named = attributes == [name for name, _ in type_.fields]
        unpackers = [(name, unpacker(each)) for name, each in type_.fields]
        needed = [(name, each) for name, each in unpackers if each is not None]
        names = None if named else [name for name, _ in type_.fields]
        return partial(_read_row, decode, names, needed)
    unpack = unpacker(type_)
    return _DECODER.decode if unpack is None else partial(_read_value, unpack)


def _record_decoder(names: list[str], raw: Collection[str] = ()) -> tuple[Callable[[bytes], Any], list[str]]:
    """What decodes a row into a struct, and the names of that one's fields: those of the columns where they can be.

    Args:
        names: of the columns.
        raw: of those that stay bytes.
    """
    attributes = names if all(map(_can_be_named, names)) else [f"f{index}" for index in range(len(names))]
    fields = [
        (attribute, msgspec.Raw if name in raw else Any, None)
        for name, attribute in zip(names, attributes, strict=True)
    ]
    twin = msgspec.defstruct("Row", fields, array_like=True, forbid_unknown_fields=True, gc=False)
    with making_decoder():
        return msgspec.msgpack.Decoder(twin).decode, attributes


def _can_be_named(name: str) -> bool:
    return name.isidentifier() and not name.startswith("__")


def _read_value(unpack: Convert, data: bytes) -> Any:
    value = _DECODER.decode(data)
    return None if value is None else unpack(value)


def _read_row(
    decode: Convert, names: list[str] | None, unpackers: list[tuple[str, Convert]], data: bytes
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
