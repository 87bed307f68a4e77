"""What a suppressed table holds back, for one epoch's updates in columns: read at once, written at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush

import msgspec

from hayase.kernel.table.suppress_buffer_rows import (
    HELD,
    KEYS,
    ROW_BYTES,
    ROWS,
    ROWS_END,
    TIME,
    TOTALS,
    TOTALS_KEY,
    Held,
)
from hayase.state.stores.protocol import ByteStore

_KEY_AT = len(ROWS) + TIME.size

Live = tuple[bytes, Held, int]
"""Place in the store, the row, and its size if that is known already."""


class SuppressBatch:
    """The rows of a SuppressBuffer, in the same order and laid out in the store in the same way.

    Args:
        store: of the buffer.
        keys: of the updates to come, in any order.
        exact: `size_bytes` is right at any time; else after `save` only.
    """

    def __init__(self, store: ByteStore, keys: Sequence[bytes], *, exact: bool) -> None:
        self._store = store
        self._exact = exact
        totals = store.get(TOTALS_KEY)
        self.count, self.size_bytes = (0, 0) if totals is None else TOTALS.unpack(totals)
        self._saved = self.count, self.size_bytes
        self._live: dict[bytes, Live] = {}
        self._heap: list[bytes] = []
        self._removed: dict[bytes, bytes] = {}
        self._untouched = self._held(list(dict.fromkeys(keys))) if self.count else {}
        self._rest = iter(store.range(ROWS, ROWS_END)) if self.count else iter(())
        self._next = next(self._rest, None)

    def _held(self, keys: list[bytes]) -> dict[bytes, tuple[bytes, bytes]]:
        """Place and row of those keys that are held."""
        dues = self._store.get_many([KEYS + key for key in keys])
        places = {key: ROWS + due + key for key, due in zip(keys, dues, strict=True) if due is not None}
        rows = self._store.get_many(list(places.values()))
        return {key: (place, row or b"") for (key, place), row in zip(places.items(), rows, strict=True)}

    def put(self, due_ms: int, key: bytes, update: Held) -> None:
        """See SuppressBuffer."""
        live = self._live.get(key)
        if live is not None:
            place, earlier, weight = live
            update = update._replace(prior=earlier.prior)
            self.size_bytes -= weight
        elif key in self._untouched:
            place, data = self._untouched.pop(key)
            update = update._replace(prior=HELD.decode(data).prior)
            self.size_bytes -= _weight(key, data)
        else:
            place = ROWS + TIME.pack(due_ms) + key
            heappush(self._heap, place)
            self.count += 1
        weight = _weight(key, msgspec.msgpack.encode(update)) if self._exact else 0
        self.size_bytes += weight
        self._live[key] = place, update, weight

    def due(self, now_ms: int) -> Iterator[tuple[bytes, Held]]:
        """See SuppressBuffer."""
        return self._take(lambda place: _due_ms(place) <= now_ms)

    def oldest_while(self, too_full: Callable[[], bool]) -> Iterator[tuple[bytes, Held]]:
        """See SuppressBuffer."""
        return self._take(lambda _: too_full())

    @property
    def first_ms(self) -> int | None:
        """When the first row is due; `None`: there is none."""
        places = [*self._heap[:1], *([] if self._next is None else [self._next[0]])]
        return _due_ms(min(places)) if places else None

    def _take(self, wanted: Callable[[bytes], bool]) -> Iterator[tuple[bytes, Held]]:
        while True:
            stored, new = self._next, self._heap[0] if self._heap else None
            if stored is not None and (new is None or stored[0] < new):
                place, data = stored
                if not wanted(place):
                    return
                self._next = next(self._rest, None)
                yield place[_KEY_AT:], self._taken(place, data)
            elif new is not None:
                if not wanted(new):
                    return
                heappop(self._heap)
                yield new[_KEY_AT:], self._taken(new, None)
            else:
                return

    def _taken(self, place: bytes, data: bytes | None) -> Held:
        """Take a row out; `data` is what is stored of it at the epoch's start, if anything."""
        key = place[_KEY_AT:]
        self.count -= 1
        if data is not None:
            self._removed[key] = place
        live = self._live.pop(key, None)
        if live is not None:
            self.size_bytes -= live[2]
            return live[1]
        assert data is not None
        self._untouched.pop(key, None)
        self.size_bytes -= _weight(key, data)
        return HELD.decode(data)

    def save(self) -> None:
        """Write what has changed."""
        writes: dict[bytes, bytes | None] = {}
        for key, place in self._removed.items():
            writes[KEYS + key] = writes[place] = None
        for key, (place, held, weight) in self._live.items():
            data = msgspec.msgpack.encode(held)
            self.size_bytes += _weight(key, data) - weight
            writes[KEYS + key] = place[len(ROWS) : _KEY_AT]
            writes[place] = data
        if self._saved != (self.count, self.size_bytes):
            writes[TOTALS_KEY] = TOTALS.pack(self.count, self.size_bytes) if self.count else None
        self._store.put_many(list(writes), list(writes.values()))


def _weight(key: bytes, data: bytes) -> int:
    return ROW_BYTES + len(key) + len(data)


def _due_ms(place: bytes) -> int:
    (due_ms,) = TIME.unpack_from(place, len(ROWS))
    return int(due_ms)
