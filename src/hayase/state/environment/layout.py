"""How the stores of a bundle lie in one LMDB environment.

Everything is in the unnamed database; the first two bytes of a key say what it is:

* `00 00`: the position: id of the checkpoint, last epoch, its digest;
* `00 01` + task + `00` + store name: the store's number and how many entries it has;
* a store's number (from 256 on) + key: an entry of that store.

Measured against one named database per store (200 stores): gets are as fast (2.9 M/s both), bulk writes up to 15 %
slower, beginning a transaction seven times cheaper, and no database handles have to be opened, which must not happen
beside other transactions of the process, nor be limited by a number given when the environment is opened.

LMDB keys have at most 511 bytes. A key of more than `HEAD` bytes is kept under its first `HEAD` bytes and a digest, its
rest in front of the value. Entries therefore come in the order of their keys except long ones with the same head, and
those lie side by side, so that reading a range sorts them as it goes.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Sequence
from typing import TypeAlias, cast

import lmdb
import pyarrow as pa
import pyarrow.compute as pc

from hayase.state.environment.base import Entries

POSITION_KEY = b"\x00\x00"
REGISTRY_PREFIX = b"\x00\x01"
FIRST_NUMBER = 256
LAST_NUMBER = 0xFFFE

_PREFIX = 2
_DIGEST = 16
HEAD = 511 - _PREFIX - _DIGEST
"""The longest key that is kept as it is."""
_LONG = _PREFIX + HEAD + _DIGEST
_BEHIND_DIGESTS = b"\xff" * (_DIGEST + 1)
_WORTH_SORTING = 4096
"""Writing 100 k random keys into a million takes 175 ms, with sorting them first 94 ms; into 100 k 63 and 75 ms."""
_ALWAYS_WORTH_SORTING = 200_000
"""Of 400 k random keys writing costs 1.3 s of CPU time, with sorting them first 0.8 s, however many are there."""
_TAIL_LENGTH = struct.Struct(">I")
_REGISTRY_ENTRY = struct.Struct(">HQ")

Txn: TypeAlias = "lmdb.Transaction[bytes]"


def registry_key(task: str, store: str) -> bytes:
    """Where the number and the count of a store are kept."""
    return REGISTRY_PREFIX + task.encode() + b"\x00" + store.encode()


def pack_registry_entry(number: int, count: int) -> bytes:
    """Number and count of a store as kept in the registry."""
    return _REGISTRY_ENTRY.pack(number, count)


def unpack_registry_entry(data: bytes) -> tuple[int, int]:
    """Number and count of a store."""
    number, count = _REGISTRY_ENTRY.unpack(data)
    return number, count


def prefix_of(number: int) -> bytes:
    """What the keys of the store of that number begin with."""
    return number.to_bytes(_PREFIX, "big")


def stored_key(prefix: bytes, key: bytes) -> bytes:
    """The LMDB key of an entry."""
    if len(key) <= HEAD:
        return prefix + key
    return prefix + key[:HEAD] + hashlib.blake2b(key, digest_size=_DIGEST).digest()


def stored_entry(prefix: bytes, key: bytes, value: bytes) -> tuple[bytes, bytes]:
    """LMDB key and value of an entry."""
    if len(key) <= HEAD:
        return prefix + key, value
    tail = key[HEAD:]
    return stored_key(prefix, key), _TAIL_LENGTH.pack(len(tail)) + tail + value


def has_long(keys: Sequence[bytes]) -> bool:
    """Whether any of the keys cannot be kept as it is."""
    return max(map(len, keys), default=0) > HEAD


def _loaded(stored: bytes, value: bytes) -> tuple[bytes, bytes]:
    """Key and value of a long entry."""
    (length,) = _TAIL_LENGTH.unpack_from(value)
    end = _TAIL_LENGTH.size + length
    return stored[_PREFIX : _PREFIX + HEAD] + value[_TAIL_LENGTH.size : end], value[end:]


def stored_bounds(prefix: bytes, start: bytes | None, end: bytes | None) -> tuple[bytes, bytes]:
    """LMDB keys between which all entries of a range lie; others with the head of a long bound may lie there too."""
    low = prefix + (start or b"")[:HEAD]
    if end is None:
        return low, prefix_of(int.from_bytes(prefix, "big") + 1)
    return low, prefix + end if len(end) <= HEAD else prefix + end[:HEAD] + _BEHIND_DIGESTS


class LmdbBase:
    """One store in a read transaction; valid as long as that is open."""

    __slots__ = ("_count", "_get", "_prefix", "_txn")

    def __init__(self, txn: Txn, number: int, count: int) -> None:
        self._txn = txn
        self._get = txn.get
        self._prefix = prefix_of(number)
        self._count = count

    def get(self, key: bytes) -> bytes | None:
        """The value, `None` if absent."""
        if len(key) <= HEAD:
            return self._get(self._prefix + key)
        return self._get_long(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of keys, in their order."""
        if has_long(keys):
            return [self.get(key) for key in keys]
        # A mapped `get` beats a cursor's `getmulti`, which leaves out what is absent, so that keys must be matched
        # again.
        prefix = self._prefix
        return list(map(self._get, [prefix + key for key in keys]))

    def range(self, start: bytes | None, end: bytes | None, reverse: bool) -> Entries:
        """Entries with `start <= key < end` in byte order."""
        low, high = stored_bounds(self._prefix, start, end)
        entries = _ordered(_between(self._txn, low, high, reverse), reverse)
        long_start = start is not None and len(start) > HEAD
        long_end = end is not None and len(end) > HEAD
        if not (long_start or long_end):
            return entries
        return (entry for entry in entries if (start or b"") <= entry[0] and (end is None or entry[0] < end))

    def ranges(self, bounds: Sequence[tuple[bytes, bytes]]) -> list[list[tuple[bytes, bytes]]]:
        """The entries of each range, by one cursor."""
        entries_of_ranges: list[list[tuple[bytes, bytes]]] = []
        prefix = self._prefix
        with self._txn.cursor() as cursor:
            seek, item, move = cursor.set_range, cursor.item, cursor.next
            for start, end in bounds:
                entries: list[tuple[bytes, bytes]] = []
                long = len(start) > HEAD or len(end) > HEAD
                high = prefix + end
                more = not long and seek(prefix + start)
                while more:
                    key, value = item()
                    if key >= high:
                        break
                    if len(key) == _LONG:
                        long = True
                        break
                    entries.append((key[_PREFIX:], value))
                    more = move()
                entries_of_ranges.append(list(self.range(start, end, False)) if long else entries)
        return entries_of_ranges

    def count(self) -> int:
        """The number of entries."""
        return self._count

    def _get_long(self, key: bytes) -> bytes | None:
        stored = stored_key(self._prefix, key)
        value = self._get(stored)
        return None if value is None else _loaded(stored, value)[1]


def _between(txn: Txn, low: bytes, high: bytes, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
    """LMDB entries with `low <= key < high`."""
    with txn.cursor() as cursor:
        if not reverse:
            if not cursor.set_range(low):
                return
            for entry in cursor.iternext():
                if entry[0] >= high:
                    return
                yield entry
            return
        if cursor.set_range(high):
            if not cursor.prev():
                return
        elif not cursor.last():
            return
        for entry in cursor.iterprev():
            if entry[0] < low:
                return
            yield entry


def _ordered(stored: Iterator[tuple[bytes, bytes]], reverse: bool) -> Entries:
    """Entries as they were written, long keys with the same head sorted among themselves."""
    group: list[tuple[bytes, bytes]] = []
    for key, value in stored:
        if group:
            if len(key) == _LONG and key.startswith(group[0][0][:HEAD], _PREFIX):
                group.append(_loaded(key, value))
                continue
            group.sort(reverse=reverse)
            yield from group
            group = []
        if len(key) == _LONG:
            group.append(_loaded(key, value))
        else:
            yield key[_PREFIX:], value
    if group:
        group.sort(reverse=reverse)
        yield from group


def delete_stored_range(txn: Txn, prefix: bytes, start: bytes, end: bytes | None) -> None:
    """Delete the entries of a range in a write transaction."""
    low, high = stored_bounds(prefix, start, end)
    exact = len(start) <= HEAD and (end is None or len(end) <= HEAD)
    with txn.cursor() as cursor:
        more = cursor.set_range(low)
        while more and cursor.key() < high:
            if not exact:
                stored, value = cursor.item()
                key = _loaded(stored, value)[0] if len(stored) == _LONG else stored[_PREFIX:]
                if key < start or (end is not None and key >= end):
                    more = cursor.next()
                    continue
            # Deleting leaves the cursor on the entry behind; on none behind the last one.
            cursor.delete()
            more = cursor.key() != b""


def write_stored(
    txn: Txn,
    prefix: bytes,
    count: int,
    keys: Sequence[bytes],
    values: Sequence[bytes | None],
    *,
    ascending: bool = False,
) -> None:
    """Write and delete entries of a store that has `count` of them, in a write transaction.

    With `ascending` the keys are known to be.
    """
    if has_long(keys):
        for key, value in zip(keys, values, strict=True):
            if value is None:
                txn.delete(stored_key(prefix, key))
            else:
                txn.put(*stored_entry(prefix, key, value))
        return
    if None in values:
        for key, value in zip(keys, values, strict=True):
            if value is None:
                txn.delete(prefix + key)
        keys = [key for key, value in zip(keys, values, strict=True) if value is not None]
        values = [value for value in values if value is not None]
    if not ascending and len(keys) >= _WORTH_SORTING and (count > 4 * len(keys) or len(keys) >= _ALWAYS_WORTH_SORTING):
        keys, values = _sorted_by_key(keys, values)
    written = cast("Sequence[bytes]", values)  # the deletes among them are done
    with txn.cursor() as cursor:
        cursor.putmulti(zip(map(prefix.__add__, keys), written, strict=True))


def _sorted_by_key(
    keys: Sequence[bytes], values: Sequence[bytes | None]
) -> tuple[Sequence[bytes], Sequence[bytes | None]]:
    """Keys ascending, and their values. Sorting and copying in Arrow is what makes it pay: see `_WORTH_SORTING`."""
    sorted_keys = pa.array(keys, pa.large_binary())
    order = pc.sort_indices(sorted_keys)
    return sorted_keys.take(order).to_pylist(), pa.array(values, pa.large_binary()).take(order).to_pylist()
