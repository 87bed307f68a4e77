"""The bytes inside Arrow's binary arrays, and lists of equal pieces, without a Python object per value."""

from __future__ import annotations

from typing import TypeGuard

import numpy as np
import numpy.typing as npt
import pyarrow as pa

I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]


def binary_buffers(array: pa.Array) -> tuple[I64, I64, U8]:
    """Start and length of each value, and the bytes they lie in.

    Args:
        array: binary or string values of any layout (plain, large, view, fixed size), possibly a slice.

    Returns:
        Starts, lengths and data; the data is not copied and may hold more than the values. A null value has
        a start and a length too, which mean nothing.
    """
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    if not wide and not (pa.types.is_string(array.type) or pa.types.is_binary(array.type)):
        array, wide = array.cast(pa.large_binary()), True
    size = len(array)
    _, offset_buffer, data_buffer = array.buffers()
    if size == 0 or offset_buffer is None:
        offsets = np.zeros(size + 1, dtype=np.int64)
    else:
        offsets = np.frombuffer(memoryview(offset_buffer), "i8" if wide else "i4")[
            array.offset : array.offset + size + 1
        ]
        offsets = offsets.astype(np.int64)
    if data_buffer is None or data_buffer.size == 0:
        return offsets[:-1], np.diff(offsets), np.zeros(0, dtype=np.uint8)
    return offsets[:-1], np.diff(offsets), np.frombuffer(memoryview(data_buffer), np.uint8)


def is_chunked(array: object) -> TypeGuard[pa.ChunkedArray]:
    """Whether it is in several pieces, as what is too long for one is."""
    return isinstance(array, pa.ChunkedArray)


def fixed_width_bytes(array: pa.Array, width: int) -> U8 | None:
    """The bytes of values that all have this width, one after the other; null values are left out.

    `None` if some value has another width.
    """
    if array.null_count:
        array = array.drop_null()
    starts, lengths, data = binary_buffers(array)
    if (lengths != width).any():
        return None
    return data[starts[0] : starts[0] + width * len(starts)] if len(starts) else data[:0]


def split_fixed_width(data: bytes, width: int) -> list[bytes]:
    """The bytes cut into pieces of `width`, which divides their length.

    Example:
        >>> split_fixed_width(b"abcd", 2)
        [b'ab', b'cd']
    """
    pieces: list[bytes] = np.frombuffer(data, f"V{width}").tolist()  # 4 times faster than slicing
    return pieces


def cut(array: pa.Array, width: int, *, at_end: bool) -> pa.Array:
    """A binary array without the first (or last) `width` bytes of each value; null stays null.

    Every value that is not null has at least that many bytes. Arrow's own `binary_slice` fails on an array
    whose values are shorter, as those of nulls are.
    """
    starts, lengths, data = binary_buffers(array)
    size = len(starts)
    if not size:
        return pa.array([], pa.large_binary())
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    first, last = int(starts[0]), int(starts[-1] + lengths[-1])
    edges = (starts + lengths - width if at_end else starts)[valid] - first
    keep = np.ones(last - first, dtype=np.bool_)
    keep[(edges[:, None] + np.arange(width)).ravel()] = False
    offsets = np.zeros(size + 1, dtype=np.int64)
    np.cumsum(lengths - width * valid, out=offsets[1:])
    validity = pa.py_buffer(np.packbits(valid, bitorder="little")) if array.null_count else None
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(data[first:last][keep])]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), size, buffers)
