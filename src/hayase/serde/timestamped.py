"""Values with a time in front: 8 bytes of milliseconds, big-endian and signed, then the value's bytes.

That is how Kafka Streams' timestamped stores lay them out.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import add

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hayase.core.errors import SerializationError
from hayase.serde.arrow_bytes import I64, binary_buffers, cut, split_fixed_width

TIME_WIDTH = 8
"""Bytes of a time."""

NO_TIME = -1
"""Stands where there is no value and so no time."""


def time_bytes(times_ms: npt.ArrayLike) -> list[bytes]:
    r"""Each time as 8 bytes.

    Example:
        >>> time_bytes([1])
        [b'\x00\x00\x00\x00\x00\x00\x00\x01']
    """
    return split_fixed_width(np.asarray(times_ms, dtype=np.int64).astype(">i8").tobytes(), TIME_WIDTH)


def encode_timestamped(times_ms: I64, values: Sequence[bytes | None]) -> list[bytes | None]:
    r"""Time and bytes of each value, `None` where the value is null.

    Args:
        times_ms: int64, milliseconds since the epoch; as many as there are values.
            Unused where the value is null.
        values: the serialized values.

    Raises:
        SerializationError: not as many times as values.

    Example:
        >>> encode_timestamped(np.array([1, 2]), [b"a", None])
        [b'\x00\x00\x00\x00\x00\x00\x00\x01a', None]
    """
    _check_lengths(len(times_ms), len(values))
    times = time_bytes(times_ms)
    if None in values:
        return [None if value is None else time + value for time, value in zip(times, values, strict=True)]
    return list(map(add, times, values))


def decode_timestamped(data: Sequence[bytes | None]) -> tuple[I64, list[bytes | None]]:
    r"""Times and values of what `encode_timestamped` wrote; -1 and `None` where there is nothing.

    Raises:
        SerializationError: fewer than 8 bytes.

    Example:
        >>> decode_timestamped([b"\0\0\0\0\0\0\0\x01a", None])
        (array([ 1, -1]), [b'a', None])
    """
    widths = {-1 if item is None else len(item) for item in data}
    if len(widths) == 1 and (width := widths.pop()) > TIME_WIDTH:
        rows = np.frombuffer(b"".join(data), np.uint8).reshape(len(data), width)  # type: ignore[arg-type] # a width of -1 is None's
        times = np.ascontiguousarray(rows[:, :TIME_WIDTH]).view(">i8").ravel().astype(np.int64)
        return times, list(split_fixed_width(rows[:, TIME_WIDTH:].tobytes(), width - TIME_WIDTH))
    times, rest = decode_timestamped_array(pa.array(data, pa.large_binary()))
    return times, rest.to_pylist()


def decode_timestamped_array(array: pa.Array) -> tuple[I64, pa.Array]:
    """As `decode_timestamped`, from and to a binary array, without Python objects.

    Raises:
        SerializationError: fewer than 8 bytes.
    """
    starts, lengths, data = binary_buffers(array)
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    if (lengths[valid] < TIME_WIDTH).any():
        raise SerializationError(
            "VALUE_NOT_DESERIALIZABLE",
            f"a value with a time has at least {TIME_WIDTH} bytes; one has {lengths[valid].min()}",
        )
    times = np.full(len(starts), NO_TIME, dtype=np.int64)
    times[valid] = longs_at(data, starts[valid])
    return times, cut(array, TIME_WIDTH, at_end=False)


def longs_at(data: npt.NDArray[np.uint8], positions: I64) -> I64:
    """The big-endian 64-bit integers that begin at the positions."""
    if not len(positions):
        return np.zeros(0, dtype=np.int64)
    everywhere: I64 = np.ndarray((len(data) - 7,), dtype=">i8", buffer=data, strides=(1,))
    return everywhere[positions].astype(np.int64)


def _check_lengths(times: int, values: int) -> None:
    if times != values:
        raise SerializationError("LENGTHS_DIFFER", f"{times} times for {values} values; there must be one for each")
