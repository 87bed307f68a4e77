"""A store during an epoch: own writes over the store as it was when the epoch began."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice, repeat
from typing import Any

from hayase.state.delta.changes import ByteRange, StoreChanges
from hayase.state.environment.base import BaseStore, Entries
from hayase.state.environment.spill import SpilledStore, SpillMaps, value_of

_ABSENT: Any = object()  # in the place of values
_ENTRY_BYTES = 200
"""What a written key costs beside its bytes and those of its value."""
_PIECE_BYTES = 8 << 20
_FEW = 64
"""Up to so many new keys are inserted into the sorted index one by one; more are appended and sorted."""


class OverlayStore:
    """`ByteStore` over a snapshot. Writes stay in memory, or on disk after `spill`, until `changes` hands them over.

    Writes cost a dict entry. The sorted index of written keys is made when a range is first asked for and brought up
    to date at each range after that, so a task that never asks for ranges never sorts. Not thread-safe.
    """

    __slots__ = ("_base", "_changes", "_hidden", "_index", "_spilled")

    def __init__(self, base: BaseStore) -> None:
        self._base = base
        self._changes: dict[bytes, bytes | None] = {}
        self._index: list[bytes] | None = None
        # Ranges of the base that were deleted: ascending and apart, so that a bisection finds the one that matters.
        self._hidden: list[ByteRange] = []
        # Earlier writes: they lie between the base, of which ranges are hidden, and `_changes`.
        self._spilled: SpilledStore | None = None

    def get(self, key: bytes) -> bytes | None:
        """The value, `None` if absent."""
        value: bytes | None = self._changes.get(key, _ABSENT)
        if value is not _ABSENT:
            return value
        if self._spilled is not None:
            mark = self._spilled.get(key)
            if mark is not None:
                return value_of(mark)
        if self._hidden and self._is_hidden(key):
            return None
        return self._base.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of keys, in their order."""
        if not self._changes and not self._hidden and self._spilled is None:
            return self._base.get_many(keys)
        values: list[bytes | None] = list(map(self._changes.get, keys, repeat(_ABSENT)))
        missing = [index for index, value in enumerate(values) if value is _ABSENT]
        if self._spilled is not None:
            marks = self._spilled.get_many([keys[index] for index in missing])
            for index, mark in zip(missing, marks, strict=True):
                if mark is not None:
                    values[index] = value_of(mark)
            missing = [index for index, mark in zip(missing, marks, strict=True) if mark is None]
        if self._hidden:
            for index in missing:
                if self._is_hidden(keys[index]):
                    values[index] = None
            missing = [index for index in missing if values[index] is _ABSENT]
        if len(missing) == len(keys):
            return self._base.get_many(keys)
        stored = self._base.get_many([keys[index] for index in missing])
        for index, value in zip(missing, stored, strict=True):
            values[index] = value
        return values

    def put(self, key: bytes, value: bytes | None) -> None:
        """Write; `None` deletes."""
        self._changes[key] = value

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Write several, later entries winning."""
        self._changes.update(zip(keys, values, strict=True))

    def range(
        self,
        start: bytes | None = None,
        end: bytes | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[tuple[bytes, bytes]]:
        """Entries with `start <= key < end` in byte order, as of this call."""
        if end is not None and (start or b"") >= end:
            return iter(())
        base = self._visible_base(start, end, reverse)
        if self._spilled is not None:
            base = _merge_marks(base, self._spilled.marks(start, end, reverse=reverse), reverse=reverse)
        if not self._changes:
            return base
        index = self._sorted()
        low, high = _bounds(index, start, end)
        keys = index[low:high]
        if not keys:
            return base
        if reverse:
            keys.reverse()
        return _merge(
            base,
            keys,
            [self._changes[key] for key in keys],
            bytes.__gt__ if reverse else bytes.__lt__,
        )

    def ranges(self, bounds: Sequence[tuple[bytes, bytes]]) -> list[list[tuple[bytes, bytes]]]:
        """The entries of each range, as of this call."""
        if not self._hidden and self._spilled is None and not self._changes:
            return self._base.ranges(bounds)
        return [list(self.range(start, end)) for start, end in bounds]

    def delete_range(self, start: bytes | None, end: bytes | None) -> None:
        """Delete every key with `start <= key < end`; costs the same however many there are, until applied."""
        start = start or b""
        if end is not None and start >= end:
            return
        self._hide(start, end)
        if self._spilled is not None:
            self._spilled.forget_range(start, end)
        if self._changes:
            index = self._sorted()
            low, high = _bounds(index, start, end)
            for key in index[low:high]:
                del self._changes[key]
            del index[low:high]

    def approximate_count(self) -> int:
        """The number of entries, not counting what deleted ranges took away; never negative."""
        count = self._base.count()
        for piece in self.pieces(_PIECE_BYTES):
            before = self._base.get_many(piece.keys)
            for old, new in zip(before, piece.values, strict=True):
                count += (new is not None) - (old is not None)
        return max(count, 0)

    def changes(self) -> StoreChanges:
        """What was written since the epoch began."""
        if self._spilled is None:
            return StoreChanges(list(self._hidden), list(self._changes), list(self._changes.values()))
        all_changes = StoreChanges(list(self._hidden))
        for piece in self.pieces(_PIECE_BYTES):
            all_changes.keys += piece.keys
            all_changes.values += piece.values
        return all_changes

    def pieces(self, max_bytes: int) -> Iterator[StoreChanges]:
        """What was written, without the deleted ranges, in pieces of about so many bytes; no key comes twice.

        Writes made meanwhile may be missing.
        """
        if self._spilled is None:
            yield from _cut(self._changes.items(), max_bytes)
            return
        older = ((key, value_of(mark)) for key, mark in self._spilled.marks() if key not in self._changes)
        yield from _cut(older, max_bytes)
        yield from _cut(self._changes.items(), max_bytes)

    @property
    def hidden(self) -> list[ByteRange]:
        """The ranges that were deleted."""
        return list(self._hidden)

    def size_bytes(self) -> int:
        """About what the writes in memory take; costs as much as there are."""
        values = self._changes.values()
        return len(self._changes) * _ENTRY_BYTES + sum(map(len, self._changes)) + sum(map(len, filter(None, values)))

    def spill(self, maps: SpillMaps) -> None:
        """Move the writes from memory to disk; raises StateError `DISK_FULL`."""
        if self._changes:
            if self._spilled is None:
                self._spilled = maps.store()
            self._spilled.put_many(list(self._changes), list(self._changes.values()))
            self._changes = {}
            self._index = None

    @property
    def spilled(self) -> bool:
        """Whether any writes are on disk."""
        return self._spilled is not None

    def _sorted(self) -> list[bytes]:
        index = self._index
        if index is None:
            index = self._index = sorted(self._changes)
        new = len(self._changes) - len(index)
        if new:
            # A dict keeps insertion order and keys leave it only together with the index: the new ones are the last.
            latest = islice(reversed(self._changes), new)
            if new <= _FEW:
                for key in latest:
                    insort(index, key)
            else:
                index.extend(latest)
                index.sort()
        return index

    def _is_hidden(self, key: bytes) -> bool:
        place = bisect_right(self._hidden, key, key=_start_of) - 1
        if place < 0:
            return False
        end = self._hidden[place][1]
        return end is None or key < end

    def _hide(self, start: bytes, end: bytes | None) -> None:
        merged: list[ByteRange] = []
        for other_start, other_end in self._hidden:
            if (end is not None and other_start > end) or (other_end is not None and other_end < start):
                merged.append((other_start, other_end))
                continue
            start = min(start, other_start)
            end = None if end is None or other_end is None else max(end, other_end)
        insort(merged, (start, end), key=_start_of)
        self._hidden = merged

    def _visible_base(self, start: bytes | None, end: bytes | None, reverse: bool) -> Entries:
        if not self._hidden:
            return self._base.range(start, end, reverse)
        pieces: list[tuple[bytes | None, bytes | None]] = []
        position: bytes | None = start or b""
        for hidden_start, hidden_end in self._hidden:
            if position is None or (end is not None and hidden_start >= end):
                break
            if hidden_start > position:
                pieces.append((position, hidden_start))
            position = None if hidden_end is None else max(position, hidden_end)
        if position is not None and (end is None or position < end):
            pieces.append((position, end))
        if reverse:
            pieces.reverse()
        return chain.from_iterable(self._base.range(low, high, reverse) for low, high in pieces)


def _cut(entries: Iterable[tuple[bytes, bytes | None]], max_bytes: int) -> Iterator[StoreChanges]:
    piece, size = StoreChanges(), 0
    for key, value in entries:
        piece.keys.append(key)
        piece.values.append(value)
        size += len(key) + len(value or b"") + _ENTRY_BYTES
        if size >= max_bytes:
            yield piece
            piece, size = StoreChanges(), 0
    if piece:
        yield piece


def _merge_marks(base: Entries, marks: Entries, *, reverse: bool) -> Entries:
    """The base's entries and the spilled writes, in order; a write wins over the base's entry of the same key."""
    before = bytes.__gt__ if reverse else bytes.__lt__
    entry = next(base, None)
    for key, mark in marks:
        while entry is not None and before(entry[0], key):
            yield entry
            entry = next(base, None)
        if entry is not None and entry[0] == key:
            entry = next(base, None)
        value = value_of(mark)
        if value is not None:
            yield key, value
    if entry is not None:
        yield entry
        yield from base


def _start_of(hidden: ByteRange) -> bytes:
    return hidden[0]


def _bounds(index: list[bytes], start: bytes | None, end: bytes | None) -> tuple[int, int]:
    low = bisect_left(index, start) if start else 0
    return low, len(index) if end is None else bisect_left(index, end)


def _merge(
    base: Entries,
    keys: list[bytes],
    values: list[bytes | None],
    before: Callable[[bytes, bytes], bool],
) -> Entries:
    """The base's entries and the changes, in order; a change wins over the base's entry of the same key."""
    entry = next(base, None)
    for key, value in zip(keys, values, strict=True):
        while entry is not None and before(entry[0], key):
            yield entry
            entry = next(base, None)
        if entry is not None and entry[0] == key:
            entry = next(base, None)
        if value is not None:
            yield key, value
    if entry is not None:
        yield entry
        yield from base
