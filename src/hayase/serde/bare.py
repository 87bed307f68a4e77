"""Column form of values that are one field, and the serdes of text, bytes and nothing."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

import polars as pl
import pyarrow as pa

from hayase.core.errors import SerializationError
from hayase.serde.faults import is_fault, shown, unreadable
from hayase.serde.protocol import BARE_FIELD, ColumnCodec, Decoded, Schema, Serde

T = TypeVar("T")
"""Type of the values."""
Item = TypeVar("Item")
"""Type of what is read."""

READ_ERRORS: tuple[type[Exception], ...] = (Exception,)
"""What is raised for bytes that are no value.

By us and by libraries, and by types of users, which may raise anything.
"""


def refuse(serde: object, value: object, allowed: str) -> SerializationError:
    """The error for a value that the serde cannot write."""
    return SerializationError(
        "VALUE_NOT_SERIALIZABLE",
        f"{type(serde).__name__} writes {allowed}; it was given {shown(value)} ({type(value).__name__})",
    )


def refuse_bytes(serde: object, data: bytes, expected: str) -> SerializationError:
    """The error for bytes that are no value of the serde."""
    return SerializationError(
        "VALUE_NOT_DESERIALIZABLE",
        f"{type(serde).__name__} reads {expected}; it was given {len(data)} bytes: {data[:60]!r}",
    )


class BareCodec(ColumnCodec):
    """The column form of a serde whose values are one field, named `value`.

    A null value is a null in that field. Sub-classes say how whole columns are read and written.

    Args:
        serde: the row form; decides about single values.
        dtype: type of the field.
        python_type: what the row form makes of bytes.
    """

    def __init__(self, serde: Serde, dtype: pl.DataType, python_type: type[object]) -> None:
        self._serde = serde
        self._dtype = dtype
        self._python_type = python_type
        self._schema = Schema(((BARE_FIELD, dtype),), bare=True)

    @property
    def schema(self) -> Schema:
        """One field, `value`."""
        return self._schema

    @abstractmethod
    def decode_column(self, data: pa.Array) -> pl.Series | None:
        """All values at once; `None` if some value is not as expected."""

    @abstractmethod
    def encode_column(self, values: pl.Series) -> list[bytes | None]:
        """Bytes of all values at once, `None` for null ones."""

    def decode(self, data: pa.Array, fields: frozenset[str] | None = None) -> Decoded:
        """See ColumnCodec. A batch with bad values is decoded value by value."""
        bad: list[tuple[int, Exception]] = []
        null: pl.Series | None = None
        column = self.decode_column(data)
        if column is None:
            values, bad = read_each(
                self._serde.deserialize, data.to_pylist(), lambda item, error: unreadable(error, self._serde, item)
            )
            column = self._series(values)
            null = pl.Series(data.is_null().to_numpy(zero_copy_only=False))
        column = column.rename(BARE_FIELD)
        return Decoded(column.to_frame(), column.is_null() if null is None else null, bad)

    def encode(self, frame: pl.DataFrame, null: pl.Series | None = None) -> list[bytes | None]:
        """See ColumnCodec; a null field is a null value too.

        Raises:
            SerializationError: the field's type cannot become the schema's without loss.
        """
        return self.encode_column(self._masked(frame, null))

    def to_python(self, frame: pl.DataFrame, null: pl.Series | None = None) -> list[object]:
        """See ColumnCodec; `None` for null."""
        return self._masked(frame, null).to_list()

    def from_python(self, values: Sequence[object]) -> tuple[pl.DataFrame, pl.Series]:
        """See ColumnCodec."""
        if not set(map(type, values)) <= {self._python_type, type(None)}:
            values = [self._serde.deserialize(self._serde.serialize(value)) for value in values]
        column = self._series(values)
        return column.to_frame(), column.is_null()

    def _series(self, values: Sequence[object]) -> pl.Series:
        try:
            return pl.Series(BARE_FIELD, values, dtype=self._dtype, strict=True)
        except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
            for value in values:
                self._serde.serialize(value)  # names the culprit
            raise refuse(self._serde, values, f"what fits {self._dtype}") from error

    def _masked(self, frame: pl.DataFrame, null: pl.Series | None) -> pl.Series:
        column = cast(self._serde, frame[BARE_FIELD], self._dtype)
        if null is not None and null.any():
            column = pl.select(pl.when(~null).then(column).alias(BARE_FIELD)).to_series()
        return column


def cast(serde: object, column: pl.Series, dtype: pl.DataType) -> pl.Series:
    """The column in the schema's type.

    Integers become wider or, where they fit, narrower ones; numbers become floats; nothing else is converted.

    Raises:
        SerializationError: some value does not fit, or the types have nothing in common.
    """
    given = column.dtype
    if given == dtype:
        return column
    numeric = (given.is_integer() and dtype.is_integer()) or (
        (given.is_integer() or given.is_float()) and dtype.is_float()
    )
    reason = "these types do not convert"
    if numeric or given == pl.Null or dtype.is_nested():
        try:
            converted = column.cast(dtype, strict=True)
        except pl.exceptions.PolarsError as error:
            reason = str(error)
        else:
            if dtype != pl.Float32 or converted.is_infinite().sum() == column.cast(pl.Float64).is_infinite().sum():
                return converted
            reason = "a number is too large"
    name = type(serde).__name__
    raise SerializationError(
        "VALUE_NOT_SERIALIZABLE", f"{name} writes {column.name!r} as {dtype}, the column is {given}: {reason}"
    )


def read_each(
    read: Callable[[Item], T | None], items: Sequence[Item], refuse_item: Callable[[Item, BaseException], Exception]
) -> tuple[list[T | None], list[tuple[int, Exception]]]:
    """What `read` makes of each item, in one C loop as long as nothing is wrong.

    Args:
        read: raises for a bad item; what is no fault of a record is let through.
        items: what to read.
        refuse_item: the error to report for a bad item and what `read` raised.

    Returns:
        Values, `None` where the item is bad; and index and error of the bad ones.
    """
    values: list[T | None] = []
    bad: list[tuple[int, Exception]] = []
    remaining = map(read, items)
    while True:
        try:
            values.extend(remaining)  # what was read before a bad item stays
            return values, bad
        except BaseException as error:
            if not is_fault(error):
                raise
            bad.append((len(values), refuse_item(items[len(values)], error)))
            values.append(None)


class StringSerde(Serde[str]):
    r"""Text as UTF-8. Bytes that are not UTF-8 are refused.

    Example:
        >>> StringSerde().serialize("é"), StringSerde().deserialize(b"ok")
        (b'\xc3\xa9', 'ok')
    """

    def to_bytes(self, value: str) -> bytes:
        """UTF-8; raises SerializationError for what is not text or holds half a surrogate pair."""
        if not isinstance(value, str):
            raise refuse(self, value, "str")
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise refuse(self, value, "text without lone surrogates") from error

    def from_bytes(self, data: bytes) -> str:
        """Text of UTF-8; raises SerializationError."""
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise refuse_bytes(self, data, "UTF-8") from error

    def deserialize_many(self, data: Sequence[bytes | None]) -> list[str | None]:
        """See Serde."""
        if type(self).from_bytes is not StringSerde.from_bytes:
            return super().deserialize_many(data)
        try:
            return [None if item is None else item.decode() for item in data]
        except UnicodeDecodeError as error:
            raise refuse_bytes(self, error.object, "UTF-8") from error

    @property
    def columns(self) -> ColumnCodec:
        """One field of type String."""
        return _TextCodec(self, pl.String(), str)


class _TextCodec(BareCodec):
    def decode_column(self, data: pa.Array) -> pl.Series | None:
        try:
            text = data.cast(pa.large_string())
        except pa.ArrowInvalid:
            return None
        return pl.Series(BARE_FIELD, text, dtype=pl.String)

    def encode_column(self, values: pl.Series) -> list[bytes | None]:
        return values.cast(pl.Binary).to_list()


class BytesSerde(Serde[bytes]):
    r"""Bytes as they are.

    Example:
        >>> BytesSerde().serialize(b"\x00\x01")
        b'\x00\x01'
    """

    def to_bytes(self, value: bytes) -> bytes:
        """The same bytes; takes bytearray and memoryview too."""
        if type(value) is bytes:
            return value
        if not isinstance(value, bytes | bytearray | memoryview):
            raise refuse(self, value, "bytes")
        return bytes(value)

    def from_bytes(self, data: bytes) -> bytes:
        """The same bytes."""
        return data

    @property
    def columns(self) -> ColumnCodec:
        """One field of type Binary."""
        return _BinaryCodec(self, pl.Binary(), bytes)


class _BinaryCodec(BareCodec):
    def decode_column(self, data: pa.Array) -> pl.Series | None:
        return pl.Series(BARE_FIELD, data.cast(pa.large_binary()), dtype=pl.Binary)

    def encode_column(self, values: pl.Series) -> list[bytes | None]:
        return values.to_list()


class VoidSerde(Serde[None]):
    """Nothing: every value is null.

    Example:
        >>> VoidSerde().serialize(None) is None
        True
    """

    def to_bytes(self, value: None) -> bytes:
        """Always raises SerializationError: only null can be written."""
        raise refuse(self, value, "null only")

    def from_bytes(self, data: bytes) -> None:
        """Always raises SerializationError: only null can be read."""
        raise refuse_bytes(self, data, "null only")

    @property
    def columns(self) -> ColumnCodec:
        """One field of type Null."""
        return _VoidCodec(self, pl.Null(), type(None))


class _VoidCodec(BareCodec):
    def decode_column(self, data: pa.Array) -> pl.Series | None:
        return None if data.null_count < len(data) else pl.Series(BARE_FIELD, [None] * len(data), dtype=pl.Null)

    def encode_column(self, values: pl.Series) -> list[bytes | None]:
        return values.to_list()
