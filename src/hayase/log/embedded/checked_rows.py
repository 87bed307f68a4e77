"""Rows of an embedded log with checksums: the value, and behind it a CRC32C of table, key and value."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import cache
from typing import TypeVar

import lmdb
import msgspec
from crc32c import crc32c

from hayase.core.errors import LogError

D = TypeVar("D")
_CHECKSUM_BYTES = 4


class CheckedRows:
    """Databases within one transaction, whose values have checksums, except those of `batches`. Not valid after it.

    Args:
        env: the environment.
        txn: the transaction.
        handles: of databases that are known already, and become known; not to be given before they are committed.

    Attributes:
        writes: how often something was written.
    """

    def __init__(
        self, env: lmdb.Environment, txn: lmdb.Transaction, handles: dict[str, lmdb._Database] | None = None
    ) -> None:
        self._env = env
        self._txn = txn
        self._handles = handles if handles is not None else {}
        self._file = f"{env.path()}/data.mdb"
        self.writes = 0

    def get(self, table: str, key: bytes) -> bytes | None:
        """A value, `None` if absent. Not for `batches`."""
        raw = self._txn.get(key, db=self._db(table))
        return None if raw is None else self._opened(table, key, raw)

    def put(self, table: str, key: bytes, value: bytes) -> None:
        """Write a value. Not for `batches`."""
        self._put(table, key, _checked(table, key, value))

    def delete(self, table: str, key: bytes) -> bool:
        """Remove a key; whether it was there."""
        self.writes += 1
        return self._txn.delete(key, db=self._db(table))

    def cursor(self, table: str) -> lmdb.Cursor:
        """A cursor, on nothing yet."""
        return self._txn.cursor(db=self._db(table))

    def scan(self, table: str, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All keys that begin with `prefix`, in order, with their values. Not for `batches`.

        A scan of a whole table also finds rows that a damaged page hides: LMDB counts them apart.
        """
        rows = 0
        for key, raw in self._scan(table, prefix):
            rows += 1
            yield key, self._opened(table, key, raw)
        if not prefix and rows != (entries := self._txn.stat(self._db(table))["entries"]):
            raise self._damaged(table, b"", f"{rows} of the table's {entries} rows can be found")

    def _scan(self, table: str, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        with self.cursor(table) as cursor:
            more = cursor.set_range(prefix)
            while more:
                key = bytes(cursor.key())
                if not key.startswith(prefix):
                    return
                yield key, bytes(cursor.value())
                more = cursor.next()

    def delete_prefix(self, table: str, prefix: bytes) -> None:
        """Remove all keys that begin with `prefix`."""
        with self.cursor(table) as cursor:
            more = cursor.set_range(prefix)
            while more and bytes(cursor.key()).startswith(prefix):
                self.writes += 1
                more = cursor.delete()

    def _put(self, table: str, key: bytes, value: bytes | bytearray) -> None:
        self.writes += 1
        self._txn.put(key, value, db=self._db(table))

    def _opened(self, table: str, key: bytes, raw: bytes | memoryview) -> bytes:
        value = opened(table, key, bytes(raw))
        if value is None:
            raise self._damaged(table, key, "its checksum does not fit")
        return value

    def _damaged(self, table: str, key: bytes, why: str) -> LogError:
        topic = None
        for name, raw in self._scan("topics", b"") if table != "topics" else ():
            if key[:16].hex().encode() in raw:
                topic = name.decode(errors="replace")
        return row_damaged(self._file, table, key, why, topic)

    def _check_all(self, table: str) -> None:
        """Read all rows: one that is said not to be there may be under a damaged key."""
        for _ in self.scan(table, b""):
            pass

    def _decoded(self, table: str, key: bytes, raw: bytes, decode: Callable[[bytes], D]) -> D:
        """A value that an earlier version may have written, without a checksum."""
        try:
            return decode(raw)
        except (msgspec.MsgspecError, struct.error, UnicodeError, ValueError, TypeError) as error:
            raise self._damaged(table, key, f"it cannot be decoded ({error})") from error

    def _db(self, table: str) -> lmdb._Database:
        handle = self._handles.get(table)
        if handle is None:
            handle = self._handles[table] = self._env.open_db(table.encode(), txn=self._txn, create=False)
        return handle


def _checked(table: str, key: bytes, value: bytes) -> bytes:
    """The value with its checksum."""
    return value + crc32c(key + value, _seed(table)).to_bytes(_CHECKSUM_BYTES, "little")


def opened(table: str, key: bytes, stored: bytes) -> bytes | None:
    """The value without its checksum; `None` if that does not fit."""
    value = stored[:-_CHECKSUM_BYTES]
    fits = crc32c(key + value, _seed(table)) == int.from_bytes(stored[-_CHECKSUM_BYTES:], "little")
    return value if fits and len(stored) >= _CHECKSUM_BYTES else None


def row_damaged(file: str, table: str, key: bytes, why: str, topic: str | None = None) -> LogError:
    """`LOG_DAMAGED` of a row; `topic` names the one that the key's id is of, if it can be found."""
    return LogError(
        "LOG_DAMAGED",
        f"the {f'row {key!r} of the ' if key else ''}table {table!r} in {file} is damaged: {why}. Nothing was changed. "
        "Check the disk and restore the log's folder from a copy; without one, records can be read by earlier offsets "
        "only, or the topic recreated",
        location=file,
        table=table,
        **{**_names(table, key), **({} if topic is None else {"topic": topic})},
    )


def _names(table: str, key: bytes) -> dict[str, object]:
    """What a key says, as far as it can be read."""
    if table == "topics":
        return {"topic": key.decode(errors="replace")}
    if table in ("partitions", "times", "remote", "cleaned") and len(key) >= 20:
        place: dict[str, object] = {"topic_id": key[:16].hex(), "partition": int.from_bytes(key[16:20], "big")}
        return {**place, "offset": int.from_bytes(key[20:28], "big")} if table == "remote" else place
    if table in ("markers", "groups"):
        parts = [part.decode(errors="replace") for part in key.split(b"\0")]
        names = ("application_id", "bundle") if table == "markers" else ("group", "topic")
        return dict(zip(names, parts, strict=False))
    return {}


@cache
def _seed(table: str) -> int:
    return crc32c(table.encode() + b"\0")
