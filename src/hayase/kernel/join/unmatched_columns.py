"""Records of a left or outer join of two streams that have found no match yet, over one epoch, for the column form.

What it does is what `Unmatched` does; whose records wait is known by their places among the entries of a side.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from hayase.core.join_windows import JoinWindows
from hayase.kernel.join.unmatched_rows import SIDES, pack_values, place_of, unpack_place, values_of
from hayase.kernel.node.clocks import Clocks
from hayase.state.stores.protocol import ByteStore
from hayase.topology.operators import JoinSide


class PendingRecord(NamedTuple):
    """Where records of one side with the same time and key wait, in the order in which places come out."""

    timestamp_ms: int
    side: int
    key: bytes


class Arrival(NamedTuple):
    """A record that may be joined.

    Attributes:
        side: index into `SIDES`.
        entry: of the record, among those of its side.
        stream_ms: stream time of both sides.
        matches: places of the records of the other side that it meets, if those can wait.
        alone: it waits if it has found no match.
    """

    side: int
    entry: int
    timestamp_ms: int
    key: bytes
    stream_ms: int
    matches: Sequence[PendingRecord]
    alone: bool


class Alone(NamedTuple):
    """A record that comes out alone.

    Attributes:
        arrival: number of the arrival that lets it out.
        side: its own.
        entry: among those of its side.
        at_once: it never waited.
    """

    arrival: int
    side: int
    entry: int
    at_once: bool


@dataclass(slots=True)
class _Waiting:
    """Entries that wait at a place, and what the store held of them: the bytes that begin what it will hold."""

    entries: list[int]
    stored: bytes = b""


class WaitingRecords:
    """What waits during an epoch.

    Args:
        store: see `Unmatched`.
        clocks: see `Unmatched`.
        name: see `Unmatched`.
        windows: of the join.
    """

    def __init__(self, store: ByteStore, clocks: Clocks, name: str, windows: JoinWindows) -> None:
        self._store = store
        self._clocks = clocks
        self._name = name
        self._grace_ms = windows.grace_ms
        self._reach_ms = [windows.after_ms if side == "left" else windows.before_ms for side in SIDES]
        self._waiting: dict[PendingRecord, _Waiting] = {}
        self._heaps: list[list[PendingRecord]] = [[], []]
        self._touched: set[PendingRecord] = set()

    def load(
        self, last_ms: int, places: Collection[PendingRecord]
    ) -> dict[JoinSide, list[tuple[PendingRecord, bytes]]]:
        """Read what may come out, or find a match.

        Args:
            last_ms: stream time when the epoch is over.
            places: where records may find a match, or be joined by others that wait.

        Returns:
            Place and value of each record that waits, by side. The entries of these are numbered on, see
            `enter`.
        """
        end_ms = last_ms - self._grace_ms - min(self._reach_ms)
        stored = dict(self._store.range(place_of(0, 0, b""), place_of(end_ms, 0, b""))) if end_ms > 0 else {}
        more = [data for place in places if (data := place_of(*place)) not in stored]
        stored.update(
            (data, row) for data, row in zip(more, self._store.get_many(more), strict=True) if row is not None
        )
        records: dict[JoinSide, list[tuple[PendingRecord, bytes]]] = {side: [] for side in SIDES}
        for data in sorted(stored):
            place = PendingRecord(*unpack_place(data))
            self._waiting[place] = _Waiting([], stored[data])
            records[SIDES[place.side]] += [(place, value) for value in values_of(stored[data])]
        return records

    def enter(self, side: JoinSide, places: Iterable[PendingRecord], first: int) -> None:
        """The entries of what `load` gave for a side are numbered from `first` on."""
        for number, place in enumerate(places, first):
            self._waiting[place].entries.append(number)

    def run(self, arrivals: Iterable[Arrival]) -> list[Alone]:
        """Let records come, wait, meet others, and come out alone."""
        for place in self._waiting:
            self._heaps[place.side].append(place)
        for heap in self._heaps:
            heapify(heap)
        sent: list[Alone] = []
        grace_ms, reach_ms, waiting = self._grace_ms, self._reach_ms, self._waiting
        first_ms = self._clocks.get(self._name)
        for number, (side, entry, time_ms, key, stream_ms, matches, alone) in enumerate(arrivals):
            open_ms = stream_ms - grace_ms
            closed = (open_ms - reach_ms[0], open_ms - reach_ms[1])
            if first_ms < max(closed):
                first_ms = self._take(number, closed, sent)
            for place in matches:
                if place in waiting:
                    del waiting[place]
                    self._touched.add(place)
            if not alone:
                continue
            if time_ms + reach_ms[side] + grace_ms < stream_ms:
                sent.append(Alone(number, side, entry, at_once=True))
                continue
            place = PendingRecord(time_ms, side, key)
            at_place = waiting.get(place)
            if at_place is None:
                at_place = waiting[place] = _Waiting([])
                heappush(self._heaps[side], place)
            at_place.entries.append(entry)
            self._touched.add(place)
            first_ms = min(first_ms, time_ms)
        if self._clocks.get(self._name) != first_ms:
            self._clocks.set(self._name, first_ms)
        return sent

    def write(self, values: Mapping[JoinSide, Mapping[int, bytes]]) -> None:
        """Write what has changed.

        Args:
            values: bytes of the values of the entries that came in this epoch, by side and entry.
        """
        places = sorted(self._touched)
        rows: list[bytes | None] = []
        for place in places:
            at_place = self._waiting.get(place)
            new = values[SIDES[place.side]]
            rows.append(
                None
                if at_place is None
                else at_place.stored + pack_values([new[entry] for entry in at_place.entries if entry in new])
            )
        self._store.put_many([place_of(*place) for place in places], rows)

    def _take(self, number: int, closed: tuple[int, int], sent: list[Alone]) -> int:
        """Let out what waits no longer; the time before which nothing waits."""
        waiting = self._waiting
        due: set[PendingRecord] = set()
        kept = max(closed)
        for heap, closed_ms in zip(self._heaps, closed, strict=True):
            while heap and (heap[0].timestamp_ms < closed_ms or heap[0] not in waiting):
                place = heappop(heap)
                if place in waiting:
                    due.add(place)
            if heap:
                kept = min(kept, heap[0].timestamp_ms)
        for place in sorted(due):
            sent += [Alone(number, place.side, entry, at_once=False) for entry in waiting.pop(place).entries]
        self._touched.update(due)
        return kept
