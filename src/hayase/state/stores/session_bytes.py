"""Session stores in bytes: how sessions are laid out, and what has expired."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import chain, islice

from hayase.core.errors import ConfigError
from hayase.state.stores.segmented import BEHIND_TIMES, ESCAPED_ZERO, NO_TIME, SegmentedBytes, terminated

_LONG = struct.Struct(">q")
_SESSION = struct.Struct(">qq")


class SessionBytes(SegmentedBytes):
    """A session store of one task in bytes, during one epoch.

    Entries are ordered by segment of the end, key, end and start; a session is all four. The store has a time of its
    own: the greatest end ever written to it. Sessions that ended at or before that time less the retention are hidden
    from reads. Whole segments are deleted once nothing in them can be seen; writes into such a segment are ignored. All
    as Kafka Streams' persistent session stores do.
    """

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
        if end_ms // self.interval_ms < self._first_live_segment():
            self._expired(1)
            return False
        self._store.put(self._encoded(key, start_ms, end_ms), value)
        return True

    def find_many(self, keys: Sequence[bytes], earliest_ends_ms: Sequence[int]) -> list[list[tuple[int, int, bytes]]]:
        """Start, end, value of each key's sessions that end at its `earliest_ends_ms` or later, by end, then start.

        Sessions that are hidden now are left out, except those that end at `hidden_until_ms`, which `get_hidden` would
        find.
        """
        if self._observed_ms == NO_TIME:
            return [[] for _ in keys]
        last = self._observed_ms // self.interval_ms
        hidden_ms, interval_ms, pack = max(self.hidden_until_ms, 0), self.interval_ms, _LONG.pack
        bounds: list[tuple[bytes, bytes]] = []
        counts: list[int] = []
        for key, from_ms in zip(keys, earliest_ends_ms, strict=True):
            middle, low_ms = terminated(key), max(from_ms, hidden_ms)
            low, end = middle + pack(low_ms), middle + BEHIND_TIMES
            before = len(bounds)
            for segment in range(low_ms // interval_ms, last + 1):
                head = pack(segment)
                bounds.append((head + low, head + end))
            counts.append(len(bounds) - before)
        ranges = iter(self._store.ranges(bounds))
        unpack, size = _SESSION.unpack_from, _SESSION.size
        sessions: list[list[tuple[int, int, bytes]]] = []
        for count in counts:
            pieces = [
                (*unpack(data, len(data) - size)[::-1], value)
                for entries in islice(ranges, count)
                for data, value in entries
            ]
            sessions.append(pieces)
        return sessions

    def get_hidden_many(self, sessions: Sequence[tuple[bytes, int, int]]) -> list[bytes | None]:
        """The values of sessions given by key, start and end, hidden or not, as long as they have not been deleted."""
        return self._store.get_many([self._encoded(*session) for session in sessions])

    def put_many(
        self, sessions: Sequence[tuple[bytes, int, int]], values: Sequence[bytes | None], observed_ms: int
    ) -> None:
        """Write sessions given by key, start and end, none of which came too late for its segment.

        Args:
            sessions: each different.
            values: of each; `None` deletes.
            observed_ms: the store's own time when all are written: the greatest end of these, of those that were
                written meanwhile and have been replaced by these, and of all before.
        """
        self._store.put_many([self._encoded(*session) for session in sessions], values)
        self._observe(observed_ms)

    def find(
        self, key: bytes, earliest_end_ms: int, latest_start_ms: int, *, reverse: bool = False
    ) -> Iterator[tuple[int, int, bytes]]:
        """Start, end, value of a key's sessions: end from `earliest_end_ms` on, start up to `latest_start_ms`.

        In order of end, then start.
        """
        low = self._visible(earliest_end_ms)
        middle = terminated(key)
        pieces = [
            self._store.range(
                _LONG.pack(segment) + middle + _LONG.pack(low),
                _LONG.pack(segment) + middle + BEHIND_TIMES,
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
        after = b"" if key_from is None else terminated(key_from)
        pieces = [
            self._store.range(
                _LONG.pack(segment) + after,
                _LONG.pack(segment + 1) if key_to is None else _LONG.pack(segment) + terminated(key_to) + BEHIND_TIMES,
                reverse=reverse,
            )
            for segment in self._segments(low, self._observed_ms, reverse)
        ]
        for data, value in chain.from_iterable(pieces):
            end_ms, start_ms = _SESSION.unpack_from(data, len(data) - _SESSION.size)
            if end_ms >= low and start_ms <= latest_start_ms:
                key = data[_LONG.size : -_SESSION.size - 1].replace(ESCAPED_ZERO, b"\x00")
                yield key, start_ms, end_ms, value

    def all(self, *, reverse: bool = False) -> Iterator[tuple[bytes, int, int, bytes]]:
        """All sessions that can be seen, in order of (segment, key, end, start)."""
        return self.find_keys(None, None, 0, self._observed_ms, reverse=reverse)

    def _encoded(self, key: bytes, start_ms: int, end_ms: int) -> bytes:
        return b"".join((_LONG.pack(end_ms // self.interval_ms), terminated(key), _SESSION.pack(end_ms, start_ms)))

    def _visible(self, from_ms: int) -> int:
        return max(from_ms, self.hidden_until_ms + 1, 0)
