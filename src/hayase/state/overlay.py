"""A store during an epoch: own writes over the store as it was when the epoch began."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice, repeat
from typing import Any

from hayase.state.base import BaseStore, Entries
from hayase.state.changes import ByteRange, StoreChanges

_ABSENT: Any = object()
_FEW = 64
"""Up to so many new keys are inserted into the sorted index one by one; more are appended and sorted."""


class OverlayStore:
    """`ByteStore` over a snapshot. Writes stay in memory until `changes` hands them over.

    Writes cost a dict entry. The sorted index of written keys is made when a range is first asked for and brought up
    to date at each range after that, so a task that never asks for ranges never sorts. Not thread-safe.
    """

    __slots__ = ("_base", "_changes", "_hidden", "_index")

    def __init__(self, base: BaseStore) -> None:
        self._base = base
        self._changes: dict[bytes, bytes | None] = {}
        self._index: list[bytes] | None = None
        # Ranges of the base that were deleted: ascending and apart, so that a bisection finds the one that matters.
        self._hidden: list[ByteRange] = []

    def get(self, key: bytes) -> bytes | None:
        """The value, `None` if absent."""
        value: bytes | None = self._changes.get(key, _ABSENT)
        if value is not _ABSENT:
            return value
        if self._hidden and self._is_hidden(key):
            return None
        return self._base.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of keys, in their order."""
        if not self._changes and not self._hidden:
            return self._base.get_many(keys)
        values: list[bytes | None] = list(map(self._changes.get, keys, repeat(_ABSENT)))
        missing = [index for index, value in enumerate(values) if value is _ABSENT]
        if self._hidden:
            for index in missing:
                if self._is_hidden(keys[index]):
                    values[index] = None
            missing = [index for index in missing if values[index] is _ABSENT]
        if len(missing) == len(keys):
            return self._base.get_many(keys)
        found = self._base.get_many([keys[index] for index in missing])
        for index, value in zip(missing, found, strict=True):
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

    def delete_range(self, start: bytes | None, end: bytes | None) -> None:
        """Delete every key with `start <= key < end`; costs the same however many there are, until applied."""
        start = start or b""
        if end is not None and start >= end:
            return
        self._hide(start, end)
        if self._changes:
            index = self._sorted()
            low, high = _bounds(index, start, end)
            for key in index[low:high]:
                del self._changes[key]
            del index[low:high]

    def approximate_count(self) -> int:
        """The number of entries, not counting what deleted ranges took away; never negative."""
        count = self._base.count()
        if self._changes:
            before = self._base.get_many(list(self._changes))
            for old, new in zip(before, self._changes.values(), strict=True):
                count += (new is not None) - (old is not None)
        return max(count, 0)

    def changes(self) -> StoreChanges:
        """What was written since the epoch began."""
        return StoreChanges(list(self._hidden), list(self._changes), list(self._changes.values()))

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
