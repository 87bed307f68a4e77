"""A store with a time to live, in bytes: rows whose last update is too long ago are not there."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from hayase.state.stores.protocol import ByteStore

_TIME = struct.Struct(">q")


class TtlStore:
    """`ByteStore` over a timestamped key-value store, without the rows that have expired.

    A row has expired as soon as the stream time has reached its timestamp plus the time to live, and is hidden from
    then on; it is still in the store until `remove_expired` comes past it. What is hidden depends on rows and stream
    time alone, never on what has been removed.

    Args:
        store: rows of 8 bytes of timestamp (big-endian) and a value.
        ttl_ms: the time to live.
        stream_time_ms: what the stream time is now; -1 before the first record.

    Attributes:
        writes: how many rows were written or deleted.
    """

    def __init__(self, store: ByteStore, ttl_ms: int, stream_time_ms: Callable[[], int]) -> None:
        self._store = store
        self._ttl_ms = ttl_ms
        self._stream_time_ms = stream_time_ms
        self.writes = 0

    @property
    def expired_until_ms(self) -> int:
        """Rows with this timestamp or an earlier one have expired."""
        return self._stream_time_ms() - self._ttl_ms

    def get(self, key: bytes) -> bytes | None:
        """The row, `None` if there is none or it has expired."""
        row = self._store.get(key)
        return row if row is None or _time_of(row) > self.expired_until_ms else None

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The rows of keys, in their order."""
        until = self.expired_until_ms
        return [row if row is None or _time_of(row) > until else None for row in self._store.get_many(keys)]

    def put(self, key: bytes, value: bytes | None) -> None:
        """Write; `None` deletes."""
        self.writes += 1
        self._store.put(key, value)

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Write several, later entries winning."""
        self.writes += len(keys)
        self._store.put_many(keys, values)

    def range(
        self, start: bytes | None = None, end: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Rows with `start <= key < end` in byte order, as of this call."""
        until = self.expired_until_ms
        return (entry for entry in self._store.range(start, end, reverse=reverse) if _time_of(entry[1]) > until)

    def ranges(self, bounds: Sequence[tuple[bytes, bytes]]) -> list[list[tuple[bytes, bytes]]]:
        """The rows of each range."""
        until = self.expired_until_ms
        return [[entry for entry in entries if _time_of(entry[1]) > until] for entries in self._store.ranges(bounds)]

    def delete_range(self, start: bytes | None, end: bytes | None) -> None:
        """Delete every key with `start <= key < end`."""
        self._store.delete_range(start, end)

    def approximate_count(self) -> int:
        """The number of rows, with those that have expired and were not removed yet."""
        return self._store.approximate_count()

    def remove_expired(self, start: bytes, most: int) -> tuple[bytes, int]:
        """Look at up to `most` rows, `start` the first, and delete those of them that have expired.

        Returns:
            Where to go on next time, empty for the beginning, and how many rows were looked at.
        """
        until = self.expired_until_ms
        seen = list(islice(self._store.range(start), most))
        expired = [key for key, row in seen if _time_of(row) <= until]
        self._store.put_many(expired, [None] * len(expired))
        return (seen[-1][0] + b"\x00" if len(seen) == most else b""), len(seen)


def _time_of(row: bytes) -> int:
    time_ms: int = _TIME.unpack_from(row)[0]
    return time_ms
