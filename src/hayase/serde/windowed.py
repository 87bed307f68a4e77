"""Keys of windowed tables as Kafka Streams writes them: the key's bytes, then the window's borders.

Time windows: key, start (8 bytes, big-endian). Session windows: key, end, start.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from operator import add
from typing import ClassVar, TypeVar

import pyarrow as pa

from hayase.core.errors import ConfigError, SerializationError
from hayase.core.records import Window, Windowed
from hayase.core.windows import window_from
from hayase.serde.arrow_bytes import I64, binary_buffers, cut
from hayase.serde.bare import refuse, refuse_bytes
from hayase.serde.protocol import Serde, Side
from hayase.serde.timestamped import longs_at, time_bytes

K = TypeVar("K")
"""Type of the keys in windows."""

_TIME = struct.Struct(">q")
_SESSION = struct.Struct(">qq")


class WindowedSerde(Serde[Windowed[K]]):
    """Serdes of windowed keys.

    Attributes:
        window_bytes: how many bytes behind the key's own its window takes.
    """

    window_bytes: ClassVar[int]

    def __init__(self, inner: Serde[K]) -> None:
        self._inner = inner

    @property
    def inner(self) -> Serde[K]:
        """The serde of the key in the window."""
        return self._inner

    def _key_bytes(self, value: Windowed[K]) -> bytes:
        if not isinstance(value, Windowed):
            raise refuse(self, value, "Windowed(key, Window(start_ms, end_ms))")
        key = self._inner.serialize(value.key)
        if key is None:
            raise refuse(self, value, "windowed keys that are not null")
        return key

    def _borders(self, value: Windowed[K], layout: struct.Struct, *borders: int) -> bytes:
        try:
            return layout.pack(*borders)
        except struct.error as error:
            raise refuse(self, value, "windows whose borders are int of 64 bits") from error

    def _key(self, data: bytes, borders: int) -> K:
        if len(data) < borders:
            raise refuse_bytes(self, data, f"a key and {borders} bytes of window")
        key = self._inner.deserialize(data[: len(data) - borders])
        if key is None:
            raise refuse_bytes(self, data, "a key that is not null")
        return key


class TimeWindowedSerde(WindowedSerde[K]):
    r"""Keys of tumbling, hopping and sliding windows. Only the start is written; the size gives the end.

    Args:
        inner: the serde of the key.
        window_size_ms: how long each window is, at least 1 ms.

    Raises:
        ConfigError: the size is below 1.

    Example:
        >>> from hayase.serde import StringSerde
        >>> serde = TimeWindowedSerde(StringSerde(), 10)
        >>> serde.serialize(Windowed("a", Window(20, 30)))
        b'a\x00\x00\x00\x00\x00\x00\x00\x14'
        >>> serde.deserialize(b"a\0\0\0\0\0\0\0\x14")
        Windowed(key='a', window=Window(start_ms=20, end_ms=30))
    """

    window_bytes = _TIME.size

    def __init__(self, inner: Serde[K], window_size_ms: int) -> None:
        super().__init__(inner)
        if window_size_ms < 1:
            raise ConfigError("INVALID_WINDOW", f"window_size_ms is {window_size_ms}; it must be at least 1")
        self._size_ms = window_size_ms

    def map_inner(self, replace: Callable[[Serde], Serde]) -> TimeWindowedSerde[K]:
        """See Serde."""
        return TimeWindowedSerde(replace(self._inner), self._size_ms)

    def for_topic(self, topic: str, side: Side, settings: Mapping[str, object]) -> TimeWindowedSerde[K]:
        """The serde with the inner serde for that topic."""
        return TimeWindowedSerde(self._inner.for_topic(topic, side, settings), self._size_ms)

    @property
    def window_size_ms(self) -> int:
        """How long each window is."""
        return self._size_ms

    def to_bytes(self, value: Windowed[K]) -> bytes:
        """Key and start; raises SerializationError. The end is not looked at."""
        return self._key_bytes(value) + self._borders(value, _TIME, value.window.start_ms)

    def from_bytes(self, data: bytes) -> Windowed[K]:
        """Key and window; the end is never beyond the last 64-bit time. Raises SerializationError."""
        key = self._key(data, _TIME.size)
        (start_ms,) = _TIME.unpack_from(data, len(data) - _TIME.size)
        return Windowed(key, window_from(start_ms, self._size_ms))


class SessionWindowedSerde(WindowedSerde[K]):
    r"""Keys of session windows.

    Args:
        inner: the serde of the key.

    Example:
        >>> from hayase.serde import StringSerde
        >>> SessionWindowedSerde(StringSerde()).serialize(Windowed("a", Window(1, 2)))
        b'a\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01'
    """

    window_bytes = _SESSION.size

    def map_inner(self, replace: Callable[[Serde], Serde]) -> SessionWindowedSerde[K]:
        """See Serde."""
        return SessionWindowedSerde(replace(self._inner))

    def for_topic(self, topic: str, side: Side, settings: Mapping[str, object]) -> SessionWindowedSerde[K]:
        """The serde with the inner serde for that topic."""
        return SessionWindowedSerde(self._inner.for_topic(topic, side, settings))

    def to_bytes(self, value: Windowed[K]) -> bytes:
        """Key, end and start; raises SerializationError."""
        return self._key_bytes(value) + self._borders(value, _SESSION, value.window.end_ms, value.window.start_ms)

    def from_bytes(self, data: bytes) -> Windowed[K]:
        """Key and window; raises SerializationError."""
        key = self._key(data, _SESSION.size)
        end_ms, start_ms = _SESSION.unpack_from(data, len(data) - _SESSION.size)
        return Windowed(key, Window(start_ms, end_ms))


def encode_windowed_keys(keys: Sequence[bytes], starts_ms: I64) -> list[bytes]:
    r"""Bytes of time-windowed keys: each key and the start of its window.

    Args:
        keys: serialized keys, none of them null.
        starts_ms: int64, as many as there are keys.

    Raises:
        SerializationError: not as many starts as keys.

    Example:
        >>> import numpy as np
        >>> encode_windowed_keys([b"a"], np.array([20]))
        [b'a\x00\x00\x00\x00\x00\x00\x00\x14']
    """
    _check_lengths(keys, starts_ms)
    return list(map(add, keys, time_bytes(starts_ms)))


def encode_session_keys(keys: Sequence[bytes], starts_ms: I64, ends_ms: I64) -> list[bytes]:
    """Bytes of session-windowed keys: each key, the end and the start of its session.

    Raises:
        SerializationError: not as many starts or ends as keys.
    """
    _check_lengths(keys, starts_ms)
    _check_lengths(keys, ends_ms)
    return list(map(add, map(add, keys, time_bytes(ends_ms)), time_bytes(starts_ms)))


def decode_windowed_keys(array: pa.Array) -> tuple[pa.Array, I64]:
    """Key bytes and window starts of time-windowed keys without nulls.

    Raises:
        SerializationError: a null, or fewer than 8 bytes.
    """
    keys, (starts_ms,) = _split(array, 1)
    return keys, starts_ms


def decode_session_keys(array: pa.Array) -> tuple[pa.Array, I64, I64]:
    """Key bytes, starts and ends of session-windowed keys without nulls.

    Raises:
        SerializationError: a null, or fewer than 16 bytes.
    """
    keys, (ends_ms, starts_ms) = _split(array, 2)
    return keys, starts_ms, ends_ms


def _split(array: pa.Array, borders: int) -> tuple[pa.Array, list[I64]]:
    width = _TIME.size * borders
    starts, lengths, data = binary_buffers(array)
    if array.null_count or (lengths < width).any():
        raise SerializationError(
            "VALUE_NOT_DESERIALIZABLE", f"a windowed key is null or has fewer than {width} bytes of window"
        )
    ends = starts + lengths
    times = [longs_at(data, ends - width + _TIME.size * border) for border in range(borders)]
    return cut(array, width, at_end=True), times


def _check_lengths(keys: Sequence[bytes], times_ms: I64) -> None:
    if len(keys) != len(times_ms):
        raise SerializationError("LENGTHS_DIFFER", f"{len(times_ms)} times for {len(keys)} keys; one for each")
