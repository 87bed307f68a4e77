"""Session stores in bytes: how sessions are laid out, and what has expired."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from hayase.core.errors import ConfigError
from hayase.state.protocol import ByteStore
from hayase.state.window_bytes import NO_TIME, segment_interval_ms

_LONG = struct.Struct(">q")
_SESSION = struct.Struct(">qq")
_OBSERVED_KEY = b"\xffobserved"
"""Behind all sessions, whose segments are not negative."""
_BEHIND_SESSIONS = b"\x80"
_ESCAPED_ZERO = b"\x00\xff"


class SessionBytes:
    """A session store of one task in bytes, during one epoch.

    Entries are ordered by segment of the end, key, end and start; a session is all four. The store has a time of its
    own: the greatest end ever written to it. Sessions that ended at or before that time less the retention are hidden
    from reads. Whole segments are deleted once nothing in them can be seen; writes into such a segment are ignored. All as Kafka
    Streams' persistent session stores do.

    Args:
        store: where it is kept.
        retention_ms: how long a session can be seen after its end, in the store's time.
        on_expired: called with the number of writes that were ignored.
    """

    def __init__(self, store: ByteStore, retention_ms: int, on_expired: Callable[[int], None] | None = None) -> None:
        self._store = store
        self._retention_ms = retention_ms
        self._on_expired = on_expired
        self._interval_ms = segment_interval_ms(retention_ms)
        observed = store.get(_OBSERVED_KEY)
        self._observed_ms: int = NO_TIME if observed is None else _LONG.unpack(observed)[0]

    @property
    def hidden_until_ms(self) -> int:
        """Sessions that end at or before this are hidden."""
        return self._observed_ms - self._retention_ms

    def get(self, key: bytes, start_ms: int, end_ms: int) -> bytes | None:
        """The value of a session, `None` if absent or hidden."""
        if end_ms <= self.hidden_until_ms or start_ms < 0:
            return None
        return self.get_hidden(key, start_ms, end_ms)

    def get_hidden(self, key: bytes, start_ms: int, end_ms: int) -> bytes | None:
        """The value of a session, hidden or not, as long as it has not been deleted."""
        return self._store.get(self._encoded(key, start_ms, end_ms))

    def put(self, key: bytes, start_ms: int, end_ms: int, value: bytes | None) -> bool:
        """Write a session; `None` deletes. `False` if it was ignored because its segment has expired."""
        if not 0 <= start_ms <= end_ms:
            raise ConfigError(
                "INVALID_SESSION", f"a session from {start_ms} to {end_ms} ms; 0 <= start <= end is needed"
            )
        self._observe(end_ms)
        if end_ms // self._interval_ms < self._first_live_segment():
            if self._on_expired is not None:
                self._on_expired(1)
            return False
        self._store.put(self._encoded(key, start_ms, end_ms), value)
        return True

    def find(
        self, key: bytes, earliest_end_ms: int, latest_start_ms: int, *, reverse: bool = False
    ) -> Iterator[tuple[int, int, bytes]]:
        """Start, end and value of a key's sessions that end at `earliest_end_ms` or later and start at `latest_start_ms` or earlier.

        In order of end, then start.
        """
        low = self._visible(earliest_end_ms)
        middle = _terminated(key)
        pieces = [
            self._store.range(
                _LONG.pack(segment) + middle + _LONG.pack(low),
                _LONG.pack(segment) + middle + _BEHIND_SESSIONS,
                reverse=reverse,
            )
            for segment in self._segments(low, self._observed_ms, reverse)
        ]
        for data, value in chain.from_iterable(pieces):
            end_ms, start_ms = _SESSION.unpack_from(data, len(data) - _SESSION.size)
            if start_ms <= latest_start_ms:
                yield start_ms, end_ms, value

    def find_keys(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest_end_ms: int,
        latest_start_ms: int,
        *,
        reverse: bool = False,
    ) -> Iterator[tuple[bytes, int, int, bytes]]:
        """Key, start, end and value as `find`, of the keys between the bounds, both included; `None` is no bound.

        In order of (segment, key, end, start).
        """
        low = self._visible(earliest_end_ms)
        after = b"" if key_from is None else _terminated(key_from)
        pieces = [
            self._store.range(
                _LONG.pack(segment) + after,
                _LONG.pack(segment + 1)
                if key_to is None
                else _LONG.pack(segment) + _terminated(key_to) + _BEHIND_SESSIONS,
                reverse=reverse,
            )
            for segment in self._segments(low, self._observed_ms, reverse)
        ]
        for data, value in chain.from_iterable(pieces):
            end_ms, start_ms = _SESSION.unpack_from(data, len(data) - _SESSION.size)
            if end_ms >= low and start_ms <= latest_start_ms:
                key = data[_LONG.size : -_SESSION.size - 1].replace(_ESCAPED_ZERO, b"\x00")
                yield key, start_ms, end_ms, value

    def all(self, *, reverse: bool = False) -> Iterator[tuple[bytes, int, int, bytes]]:
        """All sessions that can be seen, in order of (segment, key, end, start)."""
        return self.find_keys(None, None, 0, self._observed_ms, reverse=reverse)

    def _encoded(self, key: bytes, start_ms: int, end_ms: int) -> bytes:
        return b"".join((_LONG.pack(end_ms // self._interval_ms), _terminated(key), _SESSION.pack(end_ms, start_ms)))

    def _visible(self, from_ms: int) -> int:
        return max(from_ms, self.hidden_until_ms + 1, 0)

    def _segments(self, low: int, high: int, reverse: bool) -> Sequence[int]:
        if low > high:
            return ()
        segments = range(low // self._interval_ms, high // self._interval_ms + 1)
        return segments[::-1] if reverse else segments

    def _first_live_segment(self) -> int:
        return self.hidden_until_ms // self._interval_ms

    def _observe(self, end_ms: int) -> None:
        if end_ms <= self._observed_ms:
            return
        before = self._first_live_segment()
        self._observed_ms = end_ms
        self._store.put(_OBSERVED_KEY, _LONG.pack(end_ms))
        live = self._first_live_segment()
        if live > max(before, 0):
            self._store.delete_range(None, _LONG.pack(live))


def _terminated(key: bytes) -> bytes:
    return key.replace(b"\x00", _ESCAPED_ZERO) + b"\x00"
