"""Sending the results of windows when they close (KIP-825)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from hayase.core.metrics import FINAL_EMITTED
from hayase.core.records import Change, Record
from hayase.kernel.node.row_node import RowContext
from hayase.state.stores.protocol import ByteStore

_WAITING = b"\x81"
"""Begins the entries of this index.

Keys of windows and sessions begin with a byte below 0x80, the store's time with 0xff.
"""
_BEHIND_WAITING = b"\x82"
_LONG = struct.Struct(">q")


class WaitingResults:
    """Which windows have a result and are not closed.

    Entries in the aggregate's own store, in the order in which they will be sent.

    Args:
        store: the aggregate's.
        times: how many times there are in a rank.
    """

    def __init__(self, store: ByteStore, times: int) -> None:
        self._store = store
        self._layout = struct.Struct(f">{times}q")

    def entry(self, rank: tuple[int, ...], key: bytes) -> bytes:
        """The entry of a window: the time that decides when it closes, what else decides the order, and the key."""
        return _WAITING + self._layout.pack(*rank) + key

    def until(self, until_ms: int) -> list[tuple[bytes, tuple[int, ...], bytes]]:
        """Entry, rank and key of the windows whose deciding time is `until_ms` or earlier, in order."""
        if until_ms < 0:
            return []
        size = 1 + self._layout.size
        entries = self._store.range(_WAITING, _WAITING + _LONG.pack(until_ms + 1))
        return [(entry, self._layout.unpack(entry[1:size]), entry[size:]) for entry, _ in entries]

    def put_many(self, entries: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Write entries, later ones winning: empty bytes, or `None` for what waits no longer."""
        self._store.put_many(entries, values)

    def first_ms(self) -> int | None:
        """The first deciding time; `None` if nothing waits."""
        first = next(self._store.range(_WAITING, _BEHIND_WAITING), None)
        return None if first is None else _LONG.unpack_from(first[0], 1)[0]


class ClosingResults:
    """Takes the updates of an aggregate that sends results when windows close (`Emitter`).

    What waits is kept in the aggregate's own store (`WaitingResults`): so a window that closes is found without a
    search and sent exactly once, and none is lost however far time jumps.

    Args:
        ctx: of the node.
        store: the aggregate's.
        rank: of a place: the time that decides when the window closes, first, and what else decides the order, before
            the key.
        result: key, value and timestamp of what is sent for a place; `None` if the row is gone.
        times: how many times there are in a rank.
    """

    def __init__(
        self,
        ctx: RowContext,
        store: ByteStore,
        rank: Callable[[tuple[Any, ...]], tuple[int, ...]],
        result: Callable[[bytes, tuple[int, ...]], tuple[Any, Any, int] | None],
        times: int,
    ) -> None:
        self._ctx = ctx
        self._store = store
        self._rank = rank
        self._result = result
        self._waiting = WaitingResults(store, times)
        self._first_ms: int | None = None
        self._first_known = False

    def emit(self, record: Record, place: Any = None) -> None:
        """Take an update of the row at a place, whose first member is the key's bytes."""
        rank = self._rank(place)
        entry = self._waiting.entry(rank, place[0])
        if record.value.new is None:
            self._store.put(entry, None)
            return
        if self._store.get(entry) is None:
            self._store.put(entry, b"")
            if self._first_known and (self._first_ms is None or rank[0] < self._first_ms):
                self._first_ms = rank[0]

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self, until_ms: int, cause: Record) -> None:
        """Send the results of windows whose deciding time is `until_ms` or earlier, with the headers of the cause."""
        if not self._first_known:
            self._find_first()
        if self._first_ms is None or self._first_ms > until_ms:
            return
        sent = 0
        for entry, rank, place in self._waiting.until(until_ms):
            self._store.put(entry, None)
            result = self._result(place, rank)
            if result is not None:
                key, value, timestamp_ms = result
                sent += 1
                self._ctx.forward(Record(key, Change(value), timestamp_ms, cause.headers))
        self._ctx.env.metrics.add(FINAL_EMITTED, self._ctx.name, sent)
        self._find_first()

    def _find_first(self) -> None:
        self._first_known = True
        self._first_ms = self._waiting.first_ms()
