"""Changes what is stored in an embedded log, as a bad disk does: behind the log's back."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import lmdb
from hypothesis import strategies as st

Change = Callable[[bytes], bytes]


def changed_at(place: float, mask: int) -> Change:
    """One byte is another: that at a share of the length, some of its bits flipped."""

    def change(data: bytes) -> bytes:
        at = min(int(place * len(data)), len(data) - 1)
        return data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :]

    return change


def cut_at(place: float) -> Change:
    """The end is missing."""
    return lambda data: data[: min(int(place * len(data)), len(data) - 1)]


def zeroed(place: float, length: int) -> Change:
    """Some bytes in the middle are zero."""

    def change(data: bytes) -> bytes:
        at = min(int(place * len(data)), len(data) - 1)
        return data[:at] + bytes(min(length, len(data) - at)) + data[at + length :]

    return change


_places = st.floats(0, 1, exclude_max=True)
changes: st.SearchStrategy[Change] = st.one_of(
    st.builds(changed_at, _places, st.integers(1, 255)),
    st.builds(cut_at, _places),
    st.builds(zeroed, _places, st.sampled_from([1, 8, 64, 4096])),
)


def stored(folder: Path, table: str) -> list[tuple[bytes, bytes]]:
    """All rows of a table as they are in the file; the log must be closed."""
    with lmdb.open(str(folder), max_dbs=16) as env:
        database = env.open_db(table.encode())
        with env.begin(db=database) as txn:
            return list(txn.cursor())


def put_stored(folder: Path, table: str, key: bytes, value: bytes | None, under: bytes | None = None) -> None:
    """Write a value as it is to be in the file, or under another key, or remove it; the log must be closed."""
    with lmdb.open(str(folder), max_dbs=16) as env:
        database = env.open_db(table.encode())
        with env.begin(db=database, write=True) as txn:
            if value is None or under is not None:
                txn.delete(key)
            if value is not None:
                txn.put(under if under is not None else key, value)


def hide_last_row(folder: Path, key: bytes) -> None:
    """Let the pages that hold a key say that they have a row less than they have; the log must be closed.

    In an LMDB page of 4,096 bytes, the bytes 10 and 11 are flags (2: a leaf), 12 and 13 say where its list of rows
    ends, two bytes a row.
    """
    file = folder / "data.mdb"
    pages = bytearray(file.read_bytes())
    for page in range(0, len(pages), 4096):
        (flags, list_end) = struct.unpack_from("<HH", pages, page + 10)
        if page >= 8192 and flags & 2 and not flags & 4 and key in pages[page : page + 4096]:
            struct.pack_into("<H", pages, page + 12, list_end - 2)
    file.write_bytes(pages)
