"""Window stores in bytes: how windows are laid out, what has expired, and many at once for the column form."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np
import numpy.typing as npt

from hayase.core.errors import ConfigError
from hayase.state.stores.protocol import ByteStore
from hayase.state.stores.segmented import BEHIND_TIMES, ESCAPED_ZERO, SegmentedBytes, terminated

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

_LONG = struct.Struct(">q")
_TIMES = 8
_SEQUENCE_KEY = b"\xffsequence"


def encode_window_keys(keys: Sequence[bytes], starts_ms: Int64Array, interval_ms: int) -> list[bytes]:
    """The stored keys of windows: segment, key, start, so that byte order is the order of the three.

    Segment and start are 8 bytes each, big-endian. In the key a zero byte is followed by `ff`; a zero byte ends it.

    Args:
        keys: serialized record keys.
        starts_ms: window starts, not negative; as many.
        interval_ms: of the store's segments, see `segment_interval_ms`.

    Example:
        >>> encode_window_keys([b"a"], np.array([120_000]), 60_000)[0].hex()
        '00000000000000026100000000000001d4c0'
    """
    unique, place = np.unique(np.asarray(starts_ms, np.int64), return_inverse=True)
    pack = _LONG.pack
    heads = [pack(start // interval_ms) for start in unique.tolist()]
    tails = [b"\x00" + pack(start) for start in unique.tolist()]
    places = place.tolist()
    if b"\x00" in b"".join(keys):
        keys = [key.replace(b"\x00", ESCAPED_ZERO) for key in keys]
    return [heads[at] + key + tails[at] for key, at in zip(keys, places, strict=True)]


def encode_window_key(key: bytes, start_ms: int, interval_ms: int) -> bytes:
    """The stored key of one window; see `encode_window_keys`."""
    return b"".join((_LONG.pack(start_ms // interval_ms), terminated(key), _LONG.pack(start_ms)))


def decode_window_key(data: bytes) -> tuple[bytes, int]:
    """Record key and window start of a stored key."""
    return data[_TIMES : -_TIMES - 1].replace(ESCAPED_ZERO, b"\x00"), _LONG.unpack_from(data, len(data) - _TIMES)[0]


@dataclass(frozen=True, slots=True)
class WindowPlaces:
    """Where windows are stored; made once to be read and then written.

    Attributes:
        starts_ms: of each window.
        encoded: the stored key of each window.
    """

    starts_ms: Int64Array
    encoded: list[bytes]


class WindowBytes(SegmentedBytes):
    """A window store of one task in bytes, during one epoch.

    The store has a time of its own: the greatest window start ever written to it, kept in the store. Windows that start
    at or before that time less the retention are hidden from every read. Whole segments are deleted once no window in
    them can be seen; writes into such a segment are ignored. All as Kafka Streams' persistent window stores do.
    """

    def get(self, key: bytes, start_ms: int) -> bytes | None:
        """The value of a window, `None` if absent or hidden."""
        if start_ms <= self.hidden_until_ms or start_ms < 0:
            return None
        return self._store.get(encode_window_key(key, start_ms, self.interval_ms))

    def places(self, keys: Sequence[bytes], starts_ms: Int64Array) -> WindowPlaces:
        """Where windows are in this store; for `get_many` and `put_many`."""
        starts_ms = np.asarray(starts_ms, np.int64)
        return WindowPlaces(starts_ms, encode_window_keys(keys, starts_ms, self.interval_ms))

    def get_many(self, places: WindowPlaces) -> list[bytes | None]:
        """The values of windows, in their order; `None` where absent or hidden as of now."""
        values = self._store.get_many(places.encoded)
        for index in np.flatnonzero(places.starts_ms <= self.hidden_until_ms).tolist():
            values[index] = None
        return values

    def put(self, key: bytes, start_ms: int, value: bytes | None) -> bool:
        """Write a window; `None` deletes. `False` if it was ignored because its segment has expired."""
        _check_starts(start_ms)
        self._observe(start_ms)
        if start_ms // self.interval_ms < self._first_live_segment():
            self._expired(1)
            return False
        self._store.put(encode_window_key(key, start_ms, self.interval_ms), value)
        return True

    def put_many(self, places: WindowPlaces, values: Sequence[bytes | None]) -> BoolArray:
        """Write windows one after the other; the same as `put` of each. Which were written, not ignored."""
        starts_ms, encoded = places.starts_ms, places.encoded
        if not len(starts_ms):
            return np.zeros(0, np.bool_)
        _check_starts(int(starts_ms.min()))
        observed = np.maximum(np.maximum.accumulate(starts_ms), self._observed_ms)
        live: BoolArray = starts_ms // self.interval_ms >= (observed - self._retention_ms) // self.interval_ms
        if live.all():
            self._store.put_many(encoded, values)
        else:
            chosen = np.flatnonzero(live).tolist()
            self._store.put_many([encoded[at] for at in chosen], [values[at] for at in chosen])
            self._expired(len(live) - len(chosen))
        self._observe(int(observed[-1]))
        return live

    def fetch(self, key: bytes, from_ms: int, to_ms: int, *, reverse: bool = False) -> Iterator[tuple[int, bytes]]:
        """Starts and values of a key's windows with `from_ms <= start <= to_ms`, in order of start."""
        low, high = self._visible(from_ms, to_ms)
        middle = terminated(key)
        pieces = [
            self._store.range(
                _LONG.pack(segment) + middle + _LONG.pack(low),
                _LONG.pack(segment) + middle + _LONG.pack(high + 1),
                reverse=reverse,
            )
            for segment in self._segments(low, high, reverse)
        ]
        decode = self._decode
        return ((decode(data)[1], value) for data, value in chain.from_iterable(pieces))

    def fetch_many(
        self, keys: Sequence[bytes], from_ms: Sequence[int], to_ms: Sequence[int]
    ) -> list[list[tuple[int, bytes]]]:
        """What `fetch` gives for each key and its bounds; much cheaper than one by one."""
        bounds: list[tuple[bytes, bytes]] = []
        counts: list[int] = []
        pack, interval_ms = _LONG.pack, self.interval_ms
        for key, from_this, to_this in zip(keys, from_ms, to_ms, strict=True):
            low, high = self._visible(from_this, to_this)
            before = len(bounds)
            if low <= high:
                middle = terminated(key)
                start, end = middle + pack(low), middle + pack(high + 1)
                for segment in range(low // interval_ms, high // interval_ms + 1):
                    head = pack(segment)
                    bounds.append((head + start, head + end))
            counts.append(len(bounds) - before)
        ranges = iter(self._store.ranges(bounds))
        decode = self._decode
        return [
            [(decode(data)[1], value) for entries in islice(ranges, count) for data, value in entries]
            for count in counts
        ]

    def fetch_keys(
        self, key_from: bytes | None, key_to: bytes | None, from_ms: int, to_ms: int, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, int, bytes]]:
        """Keys, starts and values of windows with keys and starts between the bounds, all included.

        In order of (segment, key, start); `None` is no bound.
        """
        low, high = self._visible(from_ms, to_ms)
        after = b"" if key_from is None else terminated(key_from)
        pieces = [
            self._store.range(
                _LONG.pack(segment) + after,
                _LONG.pack(segment + 1) if key_to is None else _LONG.pack(segment) + terminated(key_to) + BEHIND_TIMES,
                reverse=reverse,
            )
            for segment in self._segments(low, high, reverse)
        ]
        return self._between(chain.from_iterable(pieces), low, high)

    def all(self, *, reverse: bool = False) -> Iterator[tuple[bytes, int, bytes]]:
        """All windows that can be seen, in order of (segment, key, start)."""
        return self.fetch_keys(None, None, 0, self._observed_ms, reverse=reverse)

    def _between(
        self, entries: Iterator[tuple[bytes, bytes]], low: int, high: int
    ) -> Iterator[tuple[bytes, int, bytes]]:
        for data, value in entries:
            key, start_ms = self._decode(data)
            if low <= start_ms <= high:
                yield key, start_ms, value

    @staticmethod
    def _decode(data: bytes) -> tuple[bytes, int]:
        return decode_window_key(data)

    def _visible(self, from_ms: int, to_ms: int) -> tuple[int, int]:
        return max(from_ms, self.hidden_until_ms + 1, 0), min(to_ms, self._observed_ms)


class DuplicateWindowBytes(WindowBytes):
    """A window store that keeps every value that is put: several for one key and start, in the order of arrival.

    As Kafka Streams' window stores with `retainDuplicates`: putting `None` does nothing, and a value cannot be
    replaced. Behind the start comes a number, counted in the store.
    """

    def get(self, key: bytes, start_ms: int) -> bytes | None:
        """The first value of a window, `None` if absent or hidden."""
        return next((value for _, value in self.fetch(key, start_ms, start_ms)), None)

    def get_many(self, places: WindowPlaces) -> list[bytes | None]:
        """The first values of windows, in their order; `None` where absent or hidden as of now."""
        return [self.get(*decode_window_key(place)) for place in places.encoded]

    def put(self, key: bytes, start_ms: int, value: bytes | None) -> bool:
        """Add a value; `None` does nothing. `False` if it was ignored because its segment has expired."""
        if value is None:
            return True
        _check_starts(start_ms)
        self._observe(start_ms)
        if start_ms // self.interval_ms < self._first_live_segment():
            self._expired(1)
            return False
        last = self._store.get(_SEQUENCE_KEY)
        number = _LONG.pack(0 if last is None else _LONG.unpack(last)[0] + 1)
        self._store.put(_SEQUENCE_KEY, number)
        self._store.put(encode_window_key(key, start_ms, self.interval_ms) + number, value)
        return True

    def put_many(self, places: WindowPlaces, values: Sequence[bytes | None]) -> BoolArray:
        """Add values one after the other. Which were taken, not ignored."""
        given = [at for at, value in enumerate(values) if value is not None]
        taken = np.ones(len(values), np.bool_)
        if not given:
            return taken
        starts_ms = places.starts_ms[given]
        _check_starts(int(starts_ms.min()))
        observed = np.maximum(np.maximum.accumulate(starts_ms), self._observed_ms)
        live: BoolArray = starts_ms // self.interval_ms >= (observed - self._retention_ms) // self.interval_ms
        taken[given] = live
        last = self._store.get(_SEQUENCE_KEY)
        first = 0 if last is None else _LONG.unpack(last)[0] + 1
        pack = _LONG.pack
        chosen = [at for at, is_live in zip(given, live.tolist(), strict=True) if is_live]
        keys = [places.encoded[at] + pack(number) for number, at in enumerate(chosen, first)]
        if keys:
            sequence = pack(first + len(keys) - 1)
            self._store.put_many([*keys, _SEQUENCE_KEY], [*(values[at] for at in chosen), sequence])
        if len(given) > len(chosen):
            self._expired(len(given) - len(chosen))
        self._observe(int(observed[-1]))
        return taken

    @staticmethod
    def _decode(data: bytes) -> tuple[bytes, int]:
        return decode_window_key(data[:-_TIMES])


def window_bytes(
    store: ByteStore,
    retention_ms: int,
    on_expired: Callable[[int], None] | None = None,
    *,
    retain_duplicates: bool = False,
) -> WindowBytes:
    """The window store of either kind."""
    kind = DuplicateWindowBytes if retain_duplicates else WindowBytes
    return kind(store, retention_ms, on_expired)


def _check_starts(least_ms: int) -> None:
    if least_ms < 0:
        raise ConfigError("INVALID_WINDOW_START", f"a window starts at {least_ms} ms; starts are not negative")
