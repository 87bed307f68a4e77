"""What a suppressed table holds back: the last update of each key, in the order in which they will be due."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from hayase.core.records import Headers
from hayase.state.stores.protocol import ByteStore

TIME = struct.Struct(">Q")
TOTALS = struct.Struct(">qq")
KEYS, ROWS, ROWS_END, TOTALS_KEY = b"k", b"r", b"s", b"t"
ROW_BYTES = 16


class Held(NamedTuple):
    """The last update of a key.

    Attributes:
        timestamp_ms: of that update.
        new: its new value.
        prior: the value that was there before the first update that is held back: the last one that was sent.
        headers: of that update.
    """

    timestamp_ms: int
    new: bytes | None
    prior: bytes | None
    headers: Headers


HELD = msgspec.msgpack.Decoder(Held)


class SuppressBuffer:
    """Rows by due time, then by the bytes of the key; a row keeps the due time of its first update.

    In the store: `k` + key → due time; `r` + due time + key → row; `t` → number and size of the rows.
    """

    def __init__(self, store: ByteStore) -> None:
        self._store = store
        totals = store.get(TOTALS_KEY)
        self.count, self.size_bytes = (0, 0) if totals is None else TOTALS.unpack(totals)
        self._saved = self.count, self.size_bytes
        self._first_ms: int | None = None

    def put(self, due_ms: int, key: bytes, update: Held) -> None:
        """Hold an update back; `update.prior` counts only if none of the key is held."""
        store = self._store
        due = store.get(KEYS + key)
        if due is None:
            due = TIME.pack(due_ms)
            store.put(KEYS + key, due)
            self.count += 1
            self.size_bytes += ROW_BYTES + len(key)
            if self._first_ms is not None:
                self._first_ms = min(self._first_ms, due_ms)
        else:
            before = store.get(ROWS + due + key)
            assert before is not None
            update = update._replace(prior=HELD.decode(before).prior)
            self.size_bytes -= len(before)
        data = msgspec.msgpack.encode(update)
        self.size_bytes += len(data)
        store.put(ROWS + due + key, data)

    def prior(self, key: bytes) -> tuple[bool, bytes | None]:
        """Whether an update of the key is held, and what was there before."""
        due = self._store.get(KEYS + key)
        if due is None:
            return False, None
        data = self._store.get(ROWS + due + key)
        assert data is not None
        return True, HELD.decode(data).prior

    def due(self, now_ms: int) -> Iterator[tuple[bytes, Held]]:
        """Take out the rows that are due at a time or before, in order."""
        if self.count and self._first() <= now_ms:
            yield from self._take(lambda due_ms: due_ms <= now_ms)

    def oldest_while(self, too_full: Callable[[], bool]) -> Iterator[tuple[bytes, Held]]:
        """Take out rows in order as long as the condition holds."""
        if self.count and too_full():
            yield from self._take(lambda _: too_full())

    def save(self) -> None:
        """Write number and size to the store, if they changed."""
        if self._saved != (self.count, self.size_bytes):
            self._saved = self.count, self.size_bytes
            totals = TOTALS.pack(self.count, self.size_bytes) if self.count else None
            self._store.put(TOTALS_KEY, totals)

    def _first(self) -> int:
        if self._first_ms is None:
            place, _ = next(self._store.range(ROWS, ROWS_END))
            (self._first_ms,) = TIME.unpack_from(place, 1)
        return self._first_ms

    def _take(self, wanted: Callable[[int], bool]) -> Iterator[tuple[bytes, Held]]:
        self._first_ms = None
        for place, data in self._store.range(ROWS, ROWS_END):
            (due_ms,) = TIME.unpack_from(place, 1)
            if not wanted(due_ms):
                self._first_ms = due_ms
                return
            key = place[1 + TIME.size :]
            self._store.put(place, None)
            self._store.put(KEYS + key, None)
            self.count -= 1
            self.size_bytes -= ROW_BYTES + len(key) + len(data)
            yield key, HELD.decode(data)
