"""Records of a stream that wait to be joined with a versioned table, so that rows may come late."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from hayase.core.records import Headers, Record
from hayase.kernel.node.clocks import Clocks
from hayase.state.stores.protocol import ByteStore
from hayase.topology.operators import InternalSerdes

_TIME = struct.Struct(">q")
_LENGTH = struct.Struct(">I")


class _Waiting(NamedTuple):
    value: bytes
    headers: Headers


_DECODER = msgspec.msgpack.Decoder(_Waiting)


class BufferedJoin:
    """Records that wait until their stream is `grace_ms` beyond them, by time, then key bytes, then arrival (KIP-923).

    Args:
        store: of the task; records of one time and key are one entry.
        clocks: of the task; two of them hold the latest time that was put, and one before which nothing waits.
        name: of the store; begins the names of the clocks.
        serdes: of the records.
        grace_ms: how long they wait, in stream time.
    """

    def __init__(self, store: ByteStore, clocks: Clocks, name: str, serdes: InternalSerdes, grace_ms: int) -> None:
        self._store = store
        self._clocks = clocks
        self._clock, self._first = name, f"{name}/first"  # no node has a slash in its name
        self._key, self._value = serdes.key, serdes.value
        self._grace_ms = grace_ms

    def put(self, record: Record) -> bool:
        """Let a record wait; `False` if it need not, because stream time is further beyond it than the grace."""
        now_ms, time_ms = self._clocks.get(self._clock), record.timestamp_ms
        if time_ms < now_ms - self._grace_ms:
            return False
        place = _TIME.pack(time_ms) + self._key.to_bytes(record.key)
        waiting = msgspec.msgpack.encode(_Waiting(self._value.to_bytes(record.value), record.headers))
        before = self._store.get(place) or b""
        self._store.put(place, before + _LENGTH.pack(len(waiting)) + waiting)
        self._clocks.set(self._clock, max(now_ms, time_ms))
        if time_ms < self._clocks.get(self._first):
            self._clocks.set(self._first, time_ms)
        return True

    def due(self) -> Iterator[Record]:
        """What has waited long enough, removed one by one as the iterator goes on."""
        first, end = max(self._clocks.get(self._first), 0), self._clocks.get(self._clock) - self._grace_ms + 1
        if first >= end:
            return
        for place, data in self._store.range(_TIME.pack(first), _TIME.pack(end)):
            self._store.put(place, None)
            key, (time_ms,) = self._key.from_bytes(place[_TIME.size :]), _TIME.unpack_from(place)
            for waiting in _entries(data):
                yield Record(key, self._value.from_bytes(waiting.value), time_ms, waiting.headers)
        self._clocks.set(self._first, end)


def _entries(data: bytes) -> Iterator[_Waiting]:
    at = 0
    while at < len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        yield _DECODER.decode(data[at : at + length])
        at += length
