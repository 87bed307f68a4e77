"""What window and session stores in bytes share: a time of their own, segments of time, and what has expired."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from hayase.state.stores.protocol import ByteStore

MIN_SEGMENT_INTERVAL_MS = 60_000
NO_TIME = -1
"""The observed time before anything was written."""
ESCAPED_ZERO = b"\x00\xff"
BEHIND_TIMES = b"\x80"
"""Behind all times in a segment: they are not negative, so none begins with a byte from 0x80 on."""

_LONG = struct.Struct(">q")
_OBSERVED_KEY = b"\xffobserved"
"""Behind all segments, which are not negative."""


def segment_interval_ms(retention_ms: int) -> int:
    """How much time one segment spans: half the retention, at least a minute, as in Kafka Streams."""
    return max(retention_ms // 2, MIN_SEGMENT_INTERVAL_MS)


def terminated(key: bytes) -> bytes:
    """A key as it stands before something else: in it a zero byte is followed by `ff`, a zero byte ends it."""
    return key.replace(b"\x00", ESCAPED_ZERO) + b"\x00"


class SegmentedBytes:
    """A store of one task whose entries begin with a segment of time, during one epoch.

    The store has a time of its own: the greatest one ever written to it, kept in the store. What lies at or before that
    time less the retention is hidden from reads. Whole segments are deleted once nothing in them can be seen.

    Args:
        store: where it is kept.
        retention_ms: how long something can be seen after its time, in the store's time.
        on_expired: called with the number of writes that were ignored.
    """

    def __init__(self, store: ByteStore, retention_ms: int, on_expired: Callable[[int], None] | None = None) -> None:
        self._store = store
        self._retention_ms = retention_ms
        self._on_expired = on_expired
        self.interval_ms = segment_interval_ms(retention_ms)
        self._observed_ms = NO_TIME
        self.refresh()

    def refresh(self) -> None:
        """Take note of what others have written to the same store since this was made."""
        observed = self._store.get(_OBSERVED_KEY)
        self._observed_ms = NO_TIME if observed is None else _LONG.unpack(observed)[0]

    @property
    def observed_ms(self) -> int:
        """The store's own time; -1 before the first write."""
        return self._observed_ms

    @property
    def hidden_until_ms(self) -> int:
        """What lies at or before this is hidden."""
        return self._observed_ms - self._retention_ms

    def _segments(self, low: int, high: int, reverse: bool) -> Sequence[int]:
        if low > high:
            return ()
        segments = range(low // self.interval_ms, high // self.interval_ms + 1)
        return segments[::-1] if reverse else segments

    def _first_live_segment(self) -> int:
        return self.hidden_until_ms // self.interval_ms

    def _observe(self, time_ms: int) -> None:
        if time_ms <= self._observed_ms:
            return
        before = self._first_live_segment()
        self._observed_ms = time_ms
        self._store.put(_OBSERVED_KEY, _LONG.pack(time_ms))
        live = self._first_live_segment()
        if live > max(before, 0):
            self._store.delete_range(None, _LONG.pack(live))

    def _expired(self, count: int) -> None:
        if self._on_expired is not None:
            self._on_expired(count)
