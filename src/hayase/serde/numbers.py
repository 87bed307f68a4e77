"""Numbers and truth values in a fixed number of bytes, big-endian, as Kafka's own serializers write them."""

from __future__ import annotations

import math
import struct
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import polars as pl
import pyarrow as pa

from hayase.serde.arrow_bytes import U8, fixed_width_bytes, split_fixed_width
from hayase.serde.bare import BareCodec, refuse, refuse_bytes
from hayase.serde.protocol import BARE_FIELD, ColumnCodec, Serde


class _IntegerSerde(Serde[int]):
    _packer: ClassVar[struct.Struct]
    _dtype: ClassVar[pl.DataType]

    def to_bytes(self, value: int) -> bytes:
        """Two's complement, big-endian; raises SerializationError for what is no int or does not fit."""
        bits = 8 * self._packer.size
        if not isinstance(value, int) or isinstance(value, bool):
            raise refuse(self, value, f"int of {bits} bits")
        try:
            return self._packer.pack(value)
        except struct.error as error:
            raise refuse(self, value, f"int of {bits} bits") from error

    def from_bytes(self, data: bytes) -> int:
        """The number; raises SerializationError unless there are exactly as many bytes as it has."""
        if len(data) != self._packer.size:
            raise refuse_bytes(self, data, f"exactly {self._packer.size} bytes")
        value: int = self._packer.unpack(data)[0]
        return value

    @property
    def columns(self) -> ColumnCodec:
        """One field of the integer type of this width."""
        return _NumberCodec(self, self._dtype, int, f">i{self._packer.size}")


class LongSerde(_IntegerSerde):
    r"""64-bit integers.

    Example:
        >>> LongSerde().serialize(42)
        b'\x00\x00\x00\x00\x00\x00\x00*'
    """

    _packer = struct.Struct(">q")
    _dtype = pl.Int64()


class IntegerSerde(_IntegerSerde):
    r"""32-bit integers.

    Example:
        >>> IntegerSerde().serialize(-1)
        b'\xff\xff\xff\xff'
    """

    _packer = struct.Struct(">i")
    _dtype = pl.Int32()


class ShortSerde(_IntegerSerde):
    r"""16-bit integers.

    Example:
        >>> ShortSerde().deserialize(b"\x01\x00")
        256
    """

    _packer = struct.Struct(">h")
    _dtype = pl.Int16()


class _FloatingSerde(Serde[float]):
    _packer: ClassVar[struct.Struct]
    _dtype: ClassVar[pl.DataType]

    def to_bytes(self, value: float) -> bytes:
        """IEEE 754, big-endian, one NaN for all; takes int too; raises SerializationError."""
        if not isinstance(value, float | int) or isinstance(value, bool):
            raise refuse(self, value, "float")
        try:
            return self._packer.pack(math.nan if math.isnan(value) else value)
        except (struct.error, OverflowError) as error:
            raise refuse(self, value, f"float of {8 * self._packer.size} bits") from error

    def from_bytes(self, data: bytes) -> float:
        """The number; raises SerializationError unless there are exactly as many bytes as it has."""
        if len(data) != self._packer.size:
            raise refuse_bytes(self, data, f"exactly {self._packer.size} bytes")
        value: float = self._packer.unpack(data)[0]
        return value

    @property
    def columns(self) -> ColumnCodec:
        """One field of the floating type of this width."""
        return _NumberCodec(self, self._dtype, float, f">f{self._packer.size}")


class DoubleSerde(_FloatingSerde):
    """64-bit floating point numbers.

    Example:
        >>> DoubleSerde().deserialize(DoubleSerde().serialize(0.1))
        0.1
    """

    _packer = struct.Struct(">d")
    _dtype = pl.Float64()


class FloatSerde(_FloatingSerde):
    r"""32-bit floating point numbers; a Python float is rounded to the nearest.

    Example:
        >>> FloatSerde().serialize(1.5)
        b'?\xc0\x00\x00'
    """

    _packer = struct.Struct(">f")
    _dtype = pl.Float32()


class BooleanSerde(Serde[bool]):
    r"""One byte, 1 or 0.

    Example:
        >>> BooleanSerde().serialize(True)
        b'\x01'
    """

    def to_bytes(self, value: bool) -> bytes:
        """`01` or `00`; raises SerializationError for what is no bool."""
        if not isinstance(value, bool):
            raise refuse(self, value, "bool")
        return b"\x01" if value else b"\x00"

    def from_bytes(self, data: bytes) -> bool:
        """Raises SerializationError for anything but `01` and `00`."""
        if data not in (b"\x00", b"\x01"):
            raise refuse_bytes(self, data, "one byte, 0 or 1")
        return data == b"\x01"

    @property
    def columns(self) -> ColumnCodec:
        """One field of type Boolean."""
        return _BooleanCodec(self, pl.Boolean(), bool)


class _FixedWidthCodec(BareCodec):
    """Nulls are set apart, the rest is one block of bytes."""

    _width: int

    @abstractmethod
    def _read(self, block: U8) -> pl.Series | None:
        """The values of a block; `None` if some bytes are no value."""

    @abstractmethod
    def _write(self, values: pl.Series) -> bytes:
        """The block of values without nulls."""

    def decode_column(self, data: pa.Array) -> pl.Series | None:
        block = fixed_width_bytes(data, self._width)
        present = None if block is None else self._read(block)
        if present is None or not data.null_count:
            return present
        valid = pl.Series(data.is_valid().to_numpy(zero_copy_only=False))
        return spread(present, valid)

    def encode_column(self, values: pl.Series) -> list[bytes | None]:
        if not values.null_count():
            return list(split_fixed_width(self._write(values), self._width))
        pieces = iter(split_fixed_width(self._write(values.drop_nulls()), self._width))
        return [next(pieces) if there else None for there in values.is_not_null().to_list()]


def spread(present: pl.Series, valid: pl.Series) -> pl.Series:
    """A column with the values of `present`, in order, where `valid` is true and null elsewhere."""
    if present.is_empty():
        return pl.Series(present.name, [None] * len(valid), dtype=present.dtype)
    position = (valid.cum_sum().cast(pl.Int64) - 1).clip(lower_bound=0)
    return pl.select(pl.when(valid).then(present.gather(position)).alias(present.name)).to_series()


class _NumberCodec(_FixedWidthCodec):
    def __init__(self, serde: Serde, dtype: pl.DataType, python_type: type[object], layout: str) -> None:
        super().__init__(serde, dtype, python_type)
        self._layout = np.dtype(layout)
        self._width = self._layout.itemsize

    def from_python(self, values: Sequence[object]) -> tuple[pl.DataFrame, pl.Series]:
        """See ColumnCodec."""
        frame, null = super().from_python(values)
        if self._dtype == pl.Float32 and frame[BARE_FIELD].is_infinite().any():
            for value in values:
                self._serde.serialize(value)  # refuses what became infinite only here
        return frame, null

    def _read(self, block: U8) -> pl.Series | None:
        return pl.Series(BARE_FIELD, np.frombuffer(block, self._layout).astype(self._layout.newbyteorder("=")))

    def _write(self, values: pl.Series) -> bytes:
        numbers = values.to_numpy()
        if self._layout.kind == "f":
            numbers = np.where(np.isnan(numbers), np.nan, numbers)
        return numbers.astype(self._layout).tobytes()


class _BooleanCodec(_FixedWidthCodec):
    _width = 1

    def _read(self, block: U8) -> pl.Series | None:
        numbers = np.frombuffer(block, np.uint8)
        return None if (numbers > 1).any() else pl.Series(BARE_FIELD, numbers == 1)

    def _write(self, values: pl.Series) -> bytes:
        return values.to_numpy().astype(np.uint8).tobytes()
