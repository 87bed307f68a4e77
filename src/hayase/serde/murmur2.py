"""Kafka's hash of keys and the partition that Kafka's default partitioner gives a key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hayase.core.errors import ConfigError
from hayase.serde.arrow_bytes import I64, U8, binary_buffers

_SEED = 0x9747B28C
_M = 0x5BD1E995
_R = 24
_U32 = 0xFFFFFFFF
_TAIL_MASK = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], dtype=np.uint32)
_FEW = 8
"""Below this many keys a step of numpy costs more than hashing them one by one."""

U32 = npt.NDArray[np.uint32]


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit murmur2 of the bytes, signed.

    Example:
        >>> murmur2(b"user-1")
        1404122828
    """
    hashed = _finish_scalar(_blocks_scalar(data, 0, (_SEED ^ len(data)) & _U32), data)
    return hashed - (1 << 32) if hashed & 0x80000000 else hashed


def partition_for_key(key: bytes, partitions: int) -> int:
    """The partition of a key that is not null, as Kafka's default partitioner chooses it.

    Args:
        key: the serialized key; may be empty.
        partitions: how many partitions the topic has, at least 1.

    Raises:
        ConfigError: fewer than 1 partition.

    Example:
        >>> partition_for_key(b"user-1", 12)
        8
    """
    _check(partitions)
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def partitions_for_keys(keys: Sequence[bytes | None], partitions: int) -> npt.NDArray[np.int32]:
    """The partition of each key, in order; a null key goes to its position modulo `partitions`.

    Raises:
        ConfigError: fewer than 1 partition.

    Example:
        >>> partitions_for_keys([b"user-1", None, b"a"], 12).tolist()
        [8, 1, 4]
    """
    return partitions_for_array(pa.array(keys, pa.large_binary()), partitions)


def partitions_for_array(array: pa.Array, partitions: int) -> npt.NDArray[np.int32]:
    """The partition of each key of an Arrow array, without making Python objects of them.

    Args:
        array: binary or string keys of any layout (plain, large, view, fixed size); slices are fine.
        partitions: how many partitions the topic has, at least 1.

    Returns:
        As many int32 as there are keys; a null key gets its position modulo `partitions`.

    Raises:
        ConfigError: fewer than 1 partition.
    """
    _check(partitions)
    starts, lengths, data = _padded(array)
    hashed = _hash(starts, lengths, data)
    chosen = ((hashed & np.uint32(0x7FFFFFFF)) % np.uint32(partitions)).astype(np.int32)
    if array.null_count:
        null = array.is_null().to_numpy(zero_copy_only=False)
        chosen[null] = np.nonzero(null)[0] % partitions
    return chosen


def _check(partitions: int) -> None:
    if partitions < 1:
        raise ConfigError(
            "INVALID_PARTITION_COUNT",
            f"{partitions} partitions; a topic has at least 1",
        )


def _blocks_scalar(data: bytes, position: int, hashed: int) -> int:
    """The hash after the whole 4-byte blocks from `position` on."""
    for at in range(position, len(data) & ~3, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _U32
        hashed = (hashed * _M & _U32) ^ ((k ^ (k >> _R)) * _M & _U32)
    return hashed


def _finish_scalar(hashed: int, data: bytes) -> int:
    tail = data[len(data) & ~3 :]
    if tail:
        hashed = (hashed ^ int.from_bytes(tail, "little")) * _M & _U32
    hashed = (hashed ^ (hashed >> 13)) * _M & _U32
    return hashed ^ (hashed >> 15)


def _padded(array: pa.Array) -> tuple[I64, I64, U8]:
    """Start and length of each key within the data, and the data with 4 bytes to spare at the end."""
    starts, lengths, data = binary_buffers(array)
    first, last = (int(starts[0]), int(starts[-1] + lengths[-1])) if len(starts) else (0, 0)
    padded = np.zeros(last - first + 4, dtype=np.uint8)
    padded[: last - first] = data[first:last]
    return starts - first, lengths, padded


def _hash(starts: I64, lengths: I64, data: U8) -> U32:
    """Unsigned hash of each key.

    All keys advance together, 4 bytes a step; those whose blocks are used up drop out.
    """
    words: U32 = np.ndarray((len(data) - 3,), dtype="<u4", buffer=data, strides=(1,))  # one word at every byte
    hashed: U32 = lengths.astype(np.uint32) ^ np.uint32(_SEED)
    blocks = lengths >> 2
    least, most = (int(blocks.min()), int(blocks.max())) if len(blocks) else (0, 0)
    for block in range(least):
        hashed = _step(hashed, words[starts + 4 * block])
    active = np.nonzero(blocks > least)[0]
    for block in range(least, most):
        if len(active) < _FEW:
            _rest_one_by_one(hashed, active, block, starts, lengths, data)
            break
        hashed[active] = _step(hashed[active], words[starts[active] + 4 * block])
        active = active[blocks[active] > block + 1]
    tail_length = lengths & 3
    if tail_length.any():
        tail = words[starts + (lengths & ~3)] & _TAIL_MASK[tail_length]
        hashed = np.where(tail_length > 0, (hashed ^ tail) * np.uint32(_M), hashed)
    hashed ^= hashed >> np.uint32(13)
    hashed *= np.uint32(_M)
    hashed ^= hashed >> np.uint32(15)
    return hashed


def _step(hashed: U32, words: U32) -> U32:
    words = words * np.uint32(_M)
    words ^= words >> np.uint32(_R)
    words *= np.uint32(_M)
    return (hashed * np.uint32(_M)) ^ words


def _rest_one_by_one(
    hashed: U32,
    active: I64,
    block: int,
    starts: I64,
    lengths: I64,
    data: U8,
) -> None:
    for index in active.tolist():
        key = data[starts[index] : starts[index] + lengths[index]].tobytes()
        hashed[index] = _blocks_scalar(key, 4 * block, int(hashed[index]))
