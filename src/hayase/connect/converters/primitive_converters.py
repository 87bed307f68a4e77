"""Converters of bytes, numbers and truth values, in the formats of Kafka's own serializers."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import ClassVar

from hayase.connect.columns import SingleColumn
from hayase.connect.contracts import Converter, HeaderConverter
from hayase.connect.exceptions import DataError
from hayase.connect.model import ConnectHeaders
from hayase.connect.schema import (
    OPTIONAL_BOOLEAN_SCHEMA,
    OPTIONAL_BYTES_SCHEMA,
    OPTIONAL_FLOAT32_SCHEMA,
    OPTIONAL_FLOAT64_SCHEMA,
    OPTIONAL_INT16_SCHEMA,
    OPTIONAL_INT32_SCHEMA,
    OPTIONAL_INT64_SCHEMA,
    ConnectSchema,
    SchemaAndValue,
    SchemaType,
)
from hayase.core.records import Headers


class _Primitive(Converter, HeaderConverter):
    """What the converters of this module have in common."""

    _schema: ClassVar[ConnectSchema]

    def configure(self, props: Mapping[str, object], is_key: bool = False) -> None:
        """Nothing to configure."""

    def from_connect_header(self, topic: str, name: str, schema: ConnectSchema | None, value: object) -> bytes | None:
        """The bytes of a header's value."""
        return self.from_connect_data(topic, (), schema, value)

    def to_connect_header(self, topic: str, name: str, data: bytes | None) -> SchemaAndValue:
        """The value of a header."""
        return self.to_connect_data(topic, (), data)

    def from_connect_data(
        self, topic: str, headers: ConnectHeaders, schema: ConnectSchema | None, value: object
    ) -> bytes | None:
        """The bytes of a value."""
        self._check(schema)
        return None if value is None else self._write(value)

    def to_connect_data(self, topic: str, headers: Headers, data: bytes | None) -> SchemaAndValue:
        """The value that bytes hold."""
        return SchemaAndValue(self._schema, None if data is None else self._read(data))

    def to_connect_columns(self, topic: str, data: Sequence[bytes | None]) -> SingleColumn | None:
        """See `Converter.to_connect_columns`."""
        read = self._read
        try:
            return SingleColumn([None if each is None else read(each) for each in data], self._schema)
        except DataError:  # said where the record is read by itself
            return None

    def _check(self, schema: ConnectSchema | None) -> None:
        if schema is not None and schema.type is not self._schema.type:
            raise DataError(
                "INVALID_SCHEMA",
                f"Invalid schema type for {type(self).__name__}: {schema.type.name}",
                schema=schema.name,
            )

    def _write(self, value: object) -> bytes:
        raise AssertionError("each converter has its own")

    def _read(self, data: bytes) -> object:
        raise AssertionError("each converter has its own")


class ByteArrayConverter(_Primitive):
    """Bytes as they are."""

    _schema = OPTIONAL_BYTES_SCHEMA

    def _write(self, value: object) -> bytes:
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise DataError("INVALID_VALUE", f"ByteArrayConverter is not compatible with {type(value).__name__}")
        return bytes(value)

    def _read(self, data: bytes) -> object:
        return data


class _Number(_Primitive):
    """A number of a fixed size, big-endian."""

    _layout: ClassVar[struct.Struct]

    def _write(self, value: object) -> bytes:
        kind = float if self._schema.type in (SchemaType.FLOAT32, SchemaType.FLOAT64) else int
        if not isinstance(value, kind) or isinstance(value, bool):
            raise DataError("INVALID_VALUE", f"{type(self).__name__} is not compatible with {type(value).__name__}")
        try:
            return self._layout.pack(value)
        except (struct.error, OverflowError):
            raise DataError("INVALID_VALUE", f"{value!r} does not fit {self._schema.type.name}") from None

    def _read(self, data: bytes) -> object:
        if len(data) != self._layout.size:
            what = f"Size of data received by {type(self).__name__} is not {self._layout.size} but {len(data)}"
            raise DataError("INVALID_VALUE", what)
        return self._layout.unpack(data)[0]


class ShortConverter(_Number):
    """Whole numbers of 16 bits."""

    _schema = OPTIONAL_INT16_SCHEMA
    _layout = struct.Struct("!h")


class IntegerConverter(_Number):
    """Whole numbers of 32 bits.

    Example:
        >>> IntegerConverter().from_connect_data("orders", (), None, 7).hex()
        '00000007'
    """

    _schema = OPTIONAL_INT32_SCHEMA
    _layout = struct.Struct("!i")


class LongConverter(_Number):
    """Whole numbers of 64 bits."""

    _schema = OPTIONAL_INT64_SCHEMA
    _layout = struct.Struct("!q")


class FloatConverter(_Number):
    """Floating-point numbers of 32 bits."""

    _schema = OPTIONAL_FLOAT32_SCHEMA
    _layout = struct.Struct("!f")


class DoubleConverter(_Number):
    """Floating-point numbers of 64 bits."""

    _schema = OPTIONAL_FLOAT64_SCHEMA
    _layout = struct.Struct("!d")


class BooleanConverter(_Primitive):
    """A byte: 1 is true, 0 is false."""

    _schema = OPTIONAL_BOOLEAN_SCHEMA

    def _write(self, value: object) -> bytes:
        if not isinstance(value, bool):
            raise DataError("INVALID_VALUE", f"BooleanConverter is not compatible with {type(value).__name__}")
        return b"\1" if value else b"\0"

    def _read(self, data: bytes) -> object:
        if data not in (b"\0", b"\1"):
            raise DataError("INVALID_VALUE", f"BooleanConverter reads one byte, 0 or 1, but got {data[:20]!r}")
        return data == b"\1"
