"""Records of a left or outer join of two streams that have found no match yet."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from hayase.kernel.node.clocks import Clocks
from hayase.state.stores.protocol import ByteStore
from hayase.topology.operators import JoinSide

_LONG = struct.Struct(">q")
_LENGTH = struct.Struct(">I")
SIDES: tuple[JoinSide, JoinSide] = ("right", "left")
"""In the order in which records of one time come out."""
OTHER: Mapping[JoinSide, JoinSide] = {"left": "right", "right": "left"}
"""The other side of each."""
_HEAD = _LONG.size + 1


class Waiting(NamedTuple):
    """Records of one side with the same time and key, in order of arrival."""

    timestamp_ms: int
    side: JoinSide
    key: bytes
    values: list[bytes]


class Unmatched:
    """What waits, in the order in which it comes out: by time, right before left, by key bytes, by arrival.

    Args:
        store: of the task; values of one time, side and key are one entry.
        clocks: of the task; one of them holds a time before which nothing waits, so that most records need not look.
        name: of that clock.
    """

    def __init__(self, store: ByteStore, clocks: Clocks, name: str) -> None:
        self._store = store
        self._clocks = clocks
        self._name = name

    def add(self, timestamp_ms: int, side: JoinSide, key: bytes, value: bytes) -> None:
        """Let a record wait."""
        place = place_of(timestamp_ms, SIDES.index(side), key)
        before = self._store.get(place) or b""
        self._store.put(place, before + pack_values([value]))
        if timestamp_ms < self._clocks.get(self._name):
            self._clocks.set(self._name, timestamp_ms)

    def remove(self, timestamp_ms: int, side: JoinSide, key: bytes) -> None:
        """A record has met one of the other side: it, and those with the same time and key, no longer wait."""
        place = place_of(timestamp_ms, SIDES.index(side), key)
        if self._store.get(place) is not None:
            self._store.put(place, None)

    def take(self, closed: dict[JoinSide, int]) -> Iterator[Waiting]:
        """What waits no longer, removed one by one as the iterator goes on.

        Args:
            closed: by side, the time before which the windows of its records are over.
        """
        first, end = self._clocks.get(self._name), max(closed.values())
        if first >= end:
            return
        kept = end
        for place, data in self._store.range(_LONG.pack(max(first, 0)), _LONG.pack(end)):
            timestamp_ms, number, key = unpack_place(place)
            side = SIDES[number]
            if timestamp_ms >= closed[side]:
                kept = min(kept, timestamp_ms)
                continue
            self._store.put(place, None)
            yield Waiting(timestamp_ms, side, key, values_of(data))
        self._clocks.set(self._name, kept)


def place_of(timestamp_ms: int, side: int, key: bytes) -> bytes:
    """Where records wait; `side` is an index into `SIDES`."""
    return _LONG.pack(timestamp_ms) + bytes([side]) + key


def unpack_place(place: bytes) -> tuple[int, int, bytes]:
    """What `place_of` made it of."""
    return _LONG.unpack_from(place)[0], place[_LONG.size], place[_HEAD:]


def pack_values(values: Sequence[bytes]) -> bytes:
    """Values that wait at one place, one behind the other."""
    return b"".join([_LENGTH.pack(len(value)) + value for value in values])


def values_of(data: bytes) -> list[bytes]:
    """The values that `pack_values` packed."""
    values, at = [], 0
    while at < len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        values.append(data[at : at + length])
        at += length
    return values
