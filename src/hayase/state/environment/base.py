"""What lies under an overlay: a store as it was when the epoch began."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from typing import Protocol

from hayase.state.delta.changes import StoreChanges

Entries = Iterator[tuple[bytes, bytes]]
"""Keys and values in order."""


class BaseStore(Protocol):
    """A store that does not change while it is read."""

    def get(self, key: bytes) -> bytes | None:
        """The value, `None` if absent."""
        ...

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of keys, in their order."""
        ...

    def range(self, start: bytes | None, end: bytes | None, reverse: bool) -> Entries:
        """Entries with `start <= key < end` in byte order."""
        ...

    def ranges(self, bounds: Sequence[tuple[bytes, bytes]]) -> list[list[tuple[bytes, bytes]]]:
        """The entries of each range."""
        ...

    def count(self) -> int:
        """The number of entries, without counting them."""
        ...


class MemoryBase:
    """A store in memory: what the test driver has instead of LMDB, and what a store is before it was ever applied."""

    def __init__(self) -> None:
        self._entries: dict[bytes, bytes] = {}
        self._index: list[bytes] | None = None

    def get(self, key: bytes) -> bytes | None:
        """The value, `None` if absent."""
        return self._entries.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of keys, in their order."""
        return list(map(self._entries.get, keys))

    def range(self, start: bytes | None, end: bytes | None, reverse: bool) -> Entries:
        """Entries with `start <= key < end` in byte order, as of this call."""
        index = self._sorted()
        low = 0 if start is None else bisect_left(index, start)
        high = len(index) if end is None else bisect_left(index, end)
        keys = index[low:high]
        if reverse:
            keys.reverse()
        return zip(keys, [self._entries[key] for key in keys], strict=True)

    def ranges(self, bounds: Sequence[tuple[bytes, bytes]]) -> list[list[tuple[bytes, bytes]]]:
        """The entries of each range."""
        return [list(self.range(start, end, False)) for start, end in bounds]

    def count(self) -> int:
        """The number of entries."""
        return len(self._entries)

    def apply(self, changes: StoreChanges) -> None:
        """Make the changes of an epoch."""
        for start, end in changes.ranges:
            for key, _ in self.range(start, end, False):
                self._remove(key)
        for key, value in zip(changes.keys, changes.values, strict=True):
            if value is None:
                self._remove(key)
                continue
            if self._index is not None and key not in self._entries:
                insort(self._index, key)
            self._entries[key] = value

    def _remove(self, key: bytes) -> None:
        if self._entries.pop(key, None) is not None and self._index is not None:
            del self._index[bisect_left(self._index, key)]

    def _sorted(self) -> list[bytes]:
        if self._index is None:
            self._index = sorted(self._entries)
        return self._index
