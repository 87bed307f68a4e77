"""A compact form of records of fields for stored aggregates; internal, no other system reads it.

Numbers and truth values only: a bitmap of the null fields (bit 0 of byte 0 is the first field), then the
fields in order, little-endian, zero where null. With any text, bytes, list or record among the fields:
the fields in order as a msgpack array.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa

from hayase.core.decoding import making_decoder
from hayase.core.errors import ConfigError, SerializationError
from hayase.serde.arrow_bytes import U8, fixed_width_bytes, split_fixed_width
from hayase.serde.bare import READ_ERRORS, read_each, refuse_bytes
from hayase.serde.faults import unreadable
from hayase.serde.numbers import spread
from hayase.serde.protocol import BARE_FIELD, ColumnCodec, Decoded, Schema, Serde
from hayase.serde.shapes import Shape, shape_of_schema, shape_of_type

_CODES: dict[type[pl.DataType], tuple[str, str]] = {
    pl.Int8: ("b", "<i1"),
    pl.Int16: ("h", "<i2"),
    pl.Int32: ("i", "<i4"),
    pl.Int64: ("q", "<i8"),
    pl.UInt8: ("B", "<u1"),
    pl.UInt16: ("H", "<u2"),
    pl.UInt32: ("I", "<u4"),
    pl.Float64: ("d", "<f8"),
    pl.Boolean: ("?", "<u1"),
}


class StructSerde(Serde):
    """Records of fields in a compact binary form, fast in columns if all fields have a fixed width.

    Args:
        schema: Polars types by field name (values are dicts; a missing field is `None`), a dataclass or
            msgspec.Struct type (values are instances), or a Schema; if that is bare, the value is the field.

    Raises:
        ConfigError: no fields, or one that has no form here: allowed are signed integers, unsigned ones up to
            32 bits, Float64, Boolean, String, Binary, and List and Struct of these.

    Example:
        >>> serde = StructSerde({"n": pl.Int64, "total": pl.Float64})
        >>> serde.deserialize(serde.serialize({"n": 1, "total": None}))
        {'n': 1, 'total': None}
        >>> len(serde.serialize({"n": 1, "total": 2.5}))
        17
    """

    def __init__(self, schema: Mapping[str, object] | Schema | type[object]) -> None:
        self._source = schema
        self._bare = isinstance(schema, Schema) and schema.bare
        self._shape = _shape_of(schema)
        types = [dtype for _, dtype in self._shape.schema.fields]
        if not types:
            raise ConfigError("INVALID_SERDE", "StructSerde needs at least one field")
        self._layout = _FixedLayout(types, self._shape.nullable) if all(type(t) in _CODES for t in types) else None
        self._packed, self._decoder = _msgpack_form(self._shape)

    def __reduce__(self) -> tuple[object, ...]:
        return (StructSerde, (self._source,))

    def to_bytes(self, value: object) -> bytes:
        """Raises SerializationError for what does not fit the schema."""
        twin = self._shape.check({BARE_FIELD: value} if self._bare else value)
        return self.pack(msgspec.structs.astuple(twin))

    def pack(self, fields: tuple[object, ...]) -> bytes:
        """Bytes of the fields in order, already checked."""
        if self._layout is not None:
            return self._layout.pack(fields)
        try:
            return msgspec.msgpack.encode(fields)
        except READ_ERRORS as error:
            raise SerializationError("VALUE_NOT_SERIALIZABLE", f"{fields!r:.200}: {error}") from error

    def unpack(self, data: bytes) -> Sequence[object]:
        """The fields of the bytes in order; raises SerializationError."""
        try:
            if self._layout is not None:
                return self._layout.unpack(data)
            return msgspec.structs.astuple(self._decoder.decode(data))
        except READ_ERRORS as error:
            raise refuse_bytes(self, data, f"what it wrote ({error})") from error

    def unpack_struct(self, data: bytes | None) -> msgspec.Struct | None:
        """The fields of the bytes as a struct; `None` for null; raises SerializationError."""
        return None if data is None else self._packed(*self.unpack(data))

    def from_bytes(self, data: bytes) -> Any:
        """Raises SerializationError for bytes of another schema, as far as that shows."""
        value = self._shape.make_of(self.unpack(data))
        return value[BARE_FIELD] if self._bare and isinstance(value, dict) else value

    @property
    def columns(self) -> ColumnCodec:
        """One column per field."""
        return _StructCodec(self, self._shape, self._layout, self._bare)


class _FixedLayout:
    """Bitmap of nulls, then the fields, for one record and for many."""

    def __init__(self, types: Sequence[pl.DataType], nullable: Sequence[bool]) -> None:
        size = (len(types) + 7) // 8
        codes = [_CODES[type(dtype)] for dtype in types]
        self._no_nulls = bytes(size)
        self._never_null = sum(1 << at for at, allowed in enumerate(nullable) if not allowed)
        self._boolean = [type(dtype) is pl.Boolean for dtype in types]
        self._packer = struct.Struct(f"<{size}s" + "".join(code for code, _ in codes))
        self._rows = np.dtype([("nulls", "u1", (size,)), *((f"f{at}", code) for at, (_, code) in enumerate(codes))])
        self.width = self._packer.size

    def pack(self, fields: Sequence[object]) -> bytes:
        if None not in fields:
            return self._packer.pack(self._no_nulls, *fields)
        nulls = sum(1 << at for at, value in enumerate(fields) if value is None)
        bitmap = nulls.to_bytes(len(self._no_nulls), "little")
        return self._packer.pack(bitmap, *(0 if value is None else value for value in fields))

    def unpack(self, data: bytes) -> Sequence[object]:
        """Raises struct.error for another width, ValueError for a null that is not allowed."""
        bitmap, *fields = self._packer.unpack(data)
        if bitmap == self._no_nulls:
            return fields
        nulls = int.from_bytes(bitmap, "little")
        if nulls & self._never_null:
            raise ValueError("null in a field that is never null")
        return [None if nulls >> at & 1 else value for at, value in enumerate(fields)]

    def pack_columns(self, columns: Sequence[pl.Series]) -> list[bytes]:
        rows = np.zeros(len(columns[0]), dtype=self._rows)
        for at, column in enumerate(columns):
            if column.null_count():
                rows["nulls"][:, at // 8] |= column.is_null().to_numpy().astype(np.uint8) << np.uint8(at % 8)
                column = column.fill_null(False if self._boolean[at] else 0)
            rows[f"f{at}"] = column.to_numpy()
        return split_fixed_width(rows.tobytes(), self.width)

    def unpack_columns(self, block: U8) -> list[pl.Series]:
        rows = np.frombuffer(block, self._rows)
        columns = []
        for at, boolean in enumerate(self._boolean):
            values = np.ascontiguousarray(rows[f"f{at}"])
            column = pl.Series(values != 0 if boolean else values)
            null = (rows["nulls"][:, at // 8] >> np.uint8(at % 8)) & 1
            if null.any():
                column = pl.select(pl.when(pl.Series(null == 0)).then(column)).to_series()
            columns.append(column)
        return columns


class _StructCodec(ColumnCodec):
    def __init__(self, serde: StructSerde, shape: Shape, layout: _FixedLayout | None, bare: bool) -> None:
        self._serde = serde
        self._shape = shape
        self._layout = layout
        self._bare = bare

    def __reduce__(self) -> tuple[object, ...]:
        return (_codec_of, (self._serde,))

    @property
    def schema(self) -> Schema:
        return Schema(self._shape.schema.fields, bare=True) if self._bare else self._shape.schema

    def decode(self, data: pa.Array, fields: frozenset[str] | None = None) -> Decoded:
        null = pl.Series(data.is_null().to_numpy(zero_copy_only=False))
        frame = None if self._layout is None else self._decode_block(data, ~null, self._layout)
        if frame is not None:
            return Decoded(frame, null, [])
        rows, bad = read_each(
            self._serde.unpack_struct, data.to_pylist(), lambda item, error: unreadable(error, self._serde, item)
        )
        frame, _ = self._shape.frame(rows)
        return Decoded(frame, null, bad)

    def _decode_block(self, data: pa.Array, valid: pl.Series, layout: _FixedLayout) -> pl.DataFrame | None:
        block = fixed_width_bytes(data, layout.width)
        if block is None:
            return None
        columns = layout.unpack_columns(block)
        for column, nullable in zip(columns, self._shape.nullable, strict=True):
            if column.null_count() and not nullable:
                return None
        if data.null_count:
            columns = [spread(column, valid) for column in columns]
        fields = zip(columns, self._shape.schema.names, strict=True)
        return pl.DataFrame([column.alias(name) for column, name in fields])

    def encode(self, frame: pl.DataFrame, null: pl.Series | None = None) -> list[bytes | None]:
        null = self._nulls(frame, null)
        if null is not None and null.any():
            present = iter(self.encode(frame.filter(~null)))
            return [None if gone else next(present) for gone in null.to_list()]
        if self._layout is None:
            return [self._serde.pack(msgspec.structs.astuple(row)) for row in self._shape.rows(frame)]
        columns = self._shape.columns(frame)
        self._shape.refuse_nulls(columns)
        return list(self._layout.pack_columns(columns))

    def _nulls(self, frame: pl.DataFrame, null: pl.Series | None) -> pl.Series | None:
        """A bare value whose field is null is null."""
        if not self._bare:
            return null
        missing = frame[BARE_FIELD].is_null()
        return missing if null is None else missing | null

    def to_python(self, frame: pl.DataFrame, null: pl.Series | None = None) -> list[object]:
        if not self._bare:
            return self._shape.to_python(frame, null)
        rows = self._shape.to_python(frame, self._nulls(frame, null))
        return [row[BARE_FIELD] if isinstance(row, dict) else None for row in rows]

    def from_python(self, values: Sequence[object]) -> tuple[pl.DataFrame, pl.Series]:
        if self._bare:
            values = [None if value is None else {BARE_FIELD: value} for value in values]
        return self._shape.from_python(values)


def _codec_of(serde: StructSerde) -> ColumnCodec:
    return serde.columns


def _shape_of(schema: Mapping[str, object] | Schema | type[object]) -> Shape:
    python_type = schema.python_type if isinstance(schema, Schema) else schema
    if isinstance(python_type, type) and python_type is not dict:
        shape = shape_of_type(python_type)
        if shape is None:
            raise ConfigError("INVALID_SERDE", f"{python_type!r} has fields or rules that have no column form")
        return shape
    fields = schema.fields if isinstance(schema, Schema) else schema
    return shape_of_schema(dict(fields), binary=True)  # type: ignore[arg-type] # the only class is `dict`, refused here


def _msgpack_form(shape: Shape) -> tuple[type[msgspec.Struct], msgspec.msgpack.Decoder[msgspec.Struct]]:
    packed = msgspec.defstruct("Packed", shape.hints, array_like=True, forbid_unknown_fields=True, gc=False, eq=False)
    with making_decoder():
        return packed, msgspec.msgpack.Decoder(packed)
