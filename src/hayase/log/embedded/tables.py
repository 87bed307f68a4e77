"""Where things are in the LMDB environment of an embedded log.

| database | key | value |
|---|---|---|
| `meta` | `format` | version of this layout |
| `topics` | name | id, partition count, settings (JSON) |
| `partitions` | topic id, partition | first offset, end offset, largest timestamp so far, bytes in `batches` |
| `batches` | topic id, partition, base offset | blob (see `blob`) |
| `times` | topic id, partition, timestamp | base offset of the first blob that reached that timestamp |
| `remote` | topic id, partition, base offset | what is in a Parquet file, and where that is (MessagePack) |
| `cleaned` | topic id, partition | how far log compaction came, what it left (see `Cleaned`) |
| `garbage` | digest of a URL | URL of a file that is being written, or that nothing needs any more |
| `markers` | application, bundle | marker (JSON) |
| `groups` | group, topic, partition | offset |

The parts in `remote` come before everything in `batches`. A file is in `garbage` before it is there, and until a part
names it; so a cleaner that dies leaves nothing behind that the next one would not find.

Numbers in keys are big-endian, so that keys of a partition are ordered by offset and by time. Text in keys ends with
a zero byte.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import lmdb
import msgspec

from hayase.core.errors import LogError, UnknownTopicError
from hayase.core.records import TopicPartition
from hayase.log.embedded.blob import NO_HORIZON, Blob
from hayase.log.embedded.remote_files import RemotePart
from hayase.log.protocol import Marker, TopicInfo

NAMES = ("meta", "topics", "partitions", "batches", "times", "remote", "cleaned", "garbage", "markers", "groups")

_PARTITION = struct.Struct(">qqqq")
_PARTITION_1 = struct.Struct(">qqq")  # format 1 did not count bytes
_CLEANED = struct.Struct(">qqq")
_U32 = struct.Struct(">I")
_U64 = struct.Struct(">Q")
_OFFSET = struct.Struct(">q")
_LONGEST_NAME_BYTES = 249
_BEFORE_ALL_TIMES = -1


class _TopicRow(msgspec.Struct, frozen=True):
    topic_id: str
    partitions: int
    config: dict[str, str]


class _MarkerRow(msgspec.Struct, frozen=True):
    lineage: str
    epoch: int
    digest: str


@dataclass(frozen=True, slots=True)
class PartitionState:
    """How far a partition reaches: offsets `[start, end)`; the largest timestamp it ever got; bytes that are not remote."""

    start: int = 0
    end: int = 0
    max_timestamp_ms: int = _BEFORE_ALL_TIMES
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What log compaction did in a partition.

    Attributes:
        end: offsets before that are clean: each key at most once.
        bytes: size of the clean part.
        horizon_ms: when the first of its tombstones may go; `NO_HORIZON` if it has none.
    """

    end: int = 0
    bytes: int = 0
    horizon_ms: int = NO_HORIZON


class Tables:
    """The databases within one transaction. Not valid after it."""

    def __init__(self, env: lmdb.Environment, txn: Any) -> None:
        self._env = env
        self._txn = txn

    def get(self, table: str, key: bytes) -> Any:
        """A value, `None` if absent."""
        return self._txn.get(key, db=self._db(table))

    def put(self, table: str, key: bytes, value: bytes) -> None:
        """Write a value."""
        self._txn.put(key, value, db=self._db(table))

    def delete(self, table: str, key: bytes) -> bool:
        """Remove a key; whether it was there."""
        return bool(self._txn.delete(key, db=self._db(table)))

    def cursor(self, table: str) -> Any:
        """A cursor, on nothing yet."""
        return self._txn.cursor(db=self._db(table))

    def scan(self, table: str, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All keys that begin with `prefix`, in order, with their values."""
        with self.cursor(table) as cursor:
            found = cursor.set_range(prefix)
            while found:
                key = bytes(cursor.key())
                if not key.startswith(prefix):
                    return
                yield key, bytes(cursor.value())
                found = cursor.next()

    def delete_prefix(self, table: str, prefix: bytes) -> None:
        """Remove all keys that begin with `prefix`."""
        with self.cursor(table) as cursor:
            found = cursor.set_range(prefix)
            while found and bytes(cursor.key()).startswith(prefix):
                found = cursor.delete()

    def topic(self, name: str) -> TopicInfo | None:
        """A topic, `None` if there is none of that name."""
        try:
            raw = self.get("topics", name.encode())
        except (lmdb.BadValsizeError, UnicodeEncodeError):  # empty or too long to be a name at all
            return None
        if raw is None:
            return None
        row = msgspec.json.decode(raw, type=_TopicRow)
        return TopicInfo(name, row.topic_id, row.partitions, row.config)

    def known_topic(self, name: str) -> TopicInfo:
        """A topic; raises UnknownTopicError."""
        info = self.topic(name)
        if info is None:
            raise UnknownTopicError("UNKNOWN_TOPIC", f"there is no topic {name!r}: create it first", topic=name)
        return info

    def topics(self) -> list[TopicInfo]:
        """All topics, by name."""
        return [self.known_topic(name.decode()) for name, _ in self.scan("topics", b"")]

    def put_config(self, info: TopicInfo) -> None:
        """Write a topic's settings."""
        row = _TopicRow(info.topic_id, info.partitions, dict(info.config))
        self.put("topics", info.name.encode(), msgspec.json.encode(row))

    def put_topic(self, info: TopicInfo) -> None:
        """Write a new topic with its empty partitions."""
        self.put_config(info)
        for partition in range(info.partitions):
            self.put_partition(partition_key(info.topic_id, partition), PartitionState())

    def delete_topic(self, info: TopicInfo) -> None:
        """Remove a topic and everything in it. Its files become garbage."""
        prefix = bytes.fromhex(info.topic_id)
        self.delete("topics", info.name.encode())
        for partition in range(info.partitions):
            for part in self.remote_parts(partition_key(info.topic_id, partition)):
                self.put_garbage(part.url)
        for table in ("partitions", "batches", "times", "remote", "cleaned"):
            self.delete_prefix(table, prefix)

    def partition(self, partition: TopicPartition) -> tuple[bytes, PartitionState]:
        """The key prefix of a partition and how far it reaches; raises UnknownTopicError."""
        info = self.known_topic(partition.topic)
        if not 0 <= partition.partition < info.partitions:
            raise UnknownTopicError(
                "UNKNOWN_TOPIC",
                f"topic {info.name!r} has the partitions 0 to {info.partitions - 1}",
                topic=info.name,
                partition=partition.partition,
            )
        key = partition_key(info.topic_id, partition.partition)
        return key, self.partition_state(key)

    def partition_state(self, key: bytes) -> PartitionState:
        """How far the partition of that key prefix, which must exist, reaches."""
        return PartitionState(*_PARTITION.unpack(self.get("partitions", key)))

    def put_partition(self, key: bytes, state: PartitionState) -> None:
        """Write how far a partition reaches."""
        self.put("partitions", key, _PARTITION.pack(state.start, state.end, state.max_timestamp_ms, state.bytes))

    def append(self, key: bytes, blobs: list[Blob]) -> None:
        """Put blobs at the end of the partition of that key prefix, and into the index of times."""
        state = self.partition_state(key)
        end, largest, size = state.end, state.max_timestamp_ms, state.bytes
        for blob in blobs:
            self.put("batches", key + _U64.pack(end), blob.data)
            if blob.max_timestamp_ms > largest:
                largest = blob.max_timestamp_ms
                self.put("times", key + _U64.pack(largest), _U64.pack(end))
            end += blob.records
            size += len(blob.data)
        self.put_partition(key, PartitionState(state.start, end, largest, size))

    def first_blob_reaching(self, key: bytes, time_ms: int) -> int | None:
        """Base offset of the first blob ever with a timestamp at or after the time; `None` if there was none."""
        with self.cursor("times") as cursor:
            if not cursor.set_range(key + _U64.pack(max(time_ms, 0))) or bytes(cursor.key())[: len(key)] != key:
                return None
            return int(_U64.unpack(cursor.value())[0])

    def blobs(self, key: bytes, offset: int) -> Iterator[tuple[int, Any]]:
        """Base offset and data of the partition's blobs, from the one that holds `offset`, or is next after it."""
        with self.cursor("batches") as cursor:
            found = cursor.set_range(key + _U64.pack(offset))
            if not found or bytes(cursor.key()) != key + _U64.pack(offset):
                # the blob that holds the offset begins before it
                before = cursor.prev() if found else cursor.last()
                if not before or bytes(cursor.key())[: len(key)] != key:
                    found = cursor.next() if before else cursor.first()
                else:
                    found = True
            while found:
                at = bytes(cursor.key())
                if at[: len(key)] != key:
                    return
                yield _U64.unpack_from(at, len(key))[0], cursor.value()
                found = cursor.next()

    def remote_parts(self, key: bytes, offset: int = 0) -> Iterator[RemotePart]:
        """The parts of a partition, from the one that holds `offset`, or is next after it."""
        with self.cursor("remote") as cursor:
            found = cursor.set_range(key + _U64.pack(offset + 1))
            before = cursor.prev() if found else cursor.last()
            if not before or bytes(cursor.key())[: len(key)] != key:
                before = cursor.set_range(key)  # none begins at or before the offset
            found = before
            while found and bytes(cursor.key())[: len(key)] == key:
                base = _U64.unpack_from(cursor.key(), len(key))[0]
                part = RemotePart(base, *msgspec.msgpack.decode(cursor.value()))
                if part.end > offset:
                    yield part
                found = cursor.next()

    def put_remote(self, key: bytes, part: RemotePart) -> None:
        """Write where a part is."""
        row = (part.end, part.url, part.bytes, part.records, part.max_timestamp_ms)
        self.put("remote", key + _U64.pack(part.base), msgspec.msgpack.encode(row))

    def drop_remote(self, key: bytes, part: RemotePart) -> None:
        """Forget a part; its file becomes garbage."""
        if self.delete("remote", key + _U64.pack(part.base)):
            self.put_garbage(part.url)

    def put_garbage(self, url: str) -> None:
        """A file that may be removed, unless it is taken back from the garbage."""
        self.put("garbage", _garbage_key(url), url.encode())

    def delete_garbage(self, url: str) -> bool:
        """The file is removed, or a part names it now; whether it was garbage."""
        return self.delete("garbage", _garbage_key(url))

    def garbage(self) -> list[str]:
        """Files that nothing needs."""
        return [url.decode() for _, url in self.scan("garbage", b"")]

    def cleaned(self, key: bytes) -> Cleaned:
        """What log compaction did in a partition."""
        raw = self.get("cleaned", key)
        return Cleaned() if raw is None else Cleaned(*_CLEANED.unpack(raw))

    def put_cleaned(self, key: bytes, cleaned: Cleaned) -> None:
        """Write what log compaction did."""
        self.put("cleaned", key, _CLEANED.pack(cleaned.end, cleaned.bytes, cleaned.horizon_ms))

    def replace_blobs(self, key: bytes, bases: Sequence[int], removed_bytes: int, data: bytes | None = None) -> None:
        """Put a blob, or nothing, in the place of those at these base offsets, which have so many bytes."""
        for base in bases:
            self.delete("batches", key + _U64.pack(base))
        if data is not None:
            self.put("batches", key + _U64.pack(bases[0]), data)
        state = self.partition_state(key)
        self.put_partition(key, replace(state, bytes=state.bytes - removed_bytes + len(data or b"")))

    def move_start(self, key: bytes, start: int) -> None:
        """Let a partition begin at an offset; what the index of times says of earlier ones goes."""
        self.put_partition(key, replace(self.partition_state(key), start=start))
        # The last entry before the start stays: times up to it are first reached at the start, or later.
        with self.cursor("times") as cursor:
            found = cursor.set_range(key)
            while found and bytes(cursor.key())[: len(key)] == key:
                following = cursor.next()
                if not following or bytes(cursor.key())[: len(key)] != key:
                    return
                if _U64.unpack(cursor.value())[0] > start:
                    return
                cursor.prev()
                found = cursor.delete()

    def upgrade(self) -> None:
        """Bring partitions that format 1 wrote up to date."""
        for key, raw in list(self.scan("partitions", b"")):
            if len(raw) == _PARTITION_1.size:
                size = sum(len(data) for _, data in self.blobs(key, 0))
                start, end, largest = _PARTITION_1.unpack(raw)
                self.put_partition(key, PartitionState(start, end, largest, size))

    def marker(self, application_id: str, bundle: str) -> Marker | None:
        """The last marker of a bundle."""
        raw = self.get("markers", text_key(application_id, bundle))
        return None if raw is None else _marker(raw)

    def put_marker(self, application_id: str, bundle: str, marker: Marker) -> None:
        """Replace a bundle's marker."""
        row = _MarkerRow(marker.lineage, marker.epoch, marker.digest)
        self.put("markers", text_key(application_id, bundle), msgspec.json.encode(row))

    def markers(self, application_id: str) -> dict[str, Marker]:
        """All markers of an application, by bundle."""
        prefix = text_key(application_id)
        return {key[len(prefix) : -1].decode(): _marker(raw) for key, raw in self.scan("markers", prefix)}

    def group_offsets(self, group: str) -> dict[TopicPartition, int]:
        """What was committed for a group."""
        prefix = text_key(group)
        found = {}
        for key, raw in self.scan("groups", prefix):
            topic = TopicPartition(key[len(prefix) : -5].decode(), _U32.unpack(key[-4:])[0])
            found[topic] = _OFFSET.unpack(raw)[0]
        return found

    def put_group_offset(self, group: str, partition: TopicPartition, offset: int) -> None:
        """Record how far a group is."""
        key = text_key(group, partition.topic) + _U32.pack(partition.partition)
        self.put("groups", key, _OFFSET.pack(offset))

    def forget_application(self, application_id: str) -> None:
        """Remove an application's markers, and the offsets of the group of that name."""
        prefix = text_key(application_id)
        self.delete_prefix("markers", prefix)
        self.delete_prefix("groups", prefix)

    def delete_group_offsets_of_topic(self, topic: str) -> None:
        """Forget what groups committed for a topic."""
        name = topic.encode()
        for key, _ in list(self.scan("groups", b"")):
            if key[:-5].split(b"\0", 1)[1] == name:
                self.delete("groups", key)

    def _db(self, table: str) -> Any:
        return self._env.open_db(table.encode(), txn=self._txn, create=False)


def partition_key(topic_id: str, partition: int) -> bytes:
    """What every key of a partition begins with."""
    return bytes.fromhex(topic_id) + _U32.pack(partition)


def text_key(*parts: str) -> bytes:
    """Names as a key, each ended by a zero byte.

    Raises:
        LogError: `INVALID_NAME`: a name is empty, longer than 249 bytes in UTF-8, or has a zero character.
    """
    encoded = [part.encode() for part in parts]
    for part, raw in zip(parts, encoded, strict=True):
        if not raw or len(raw) > _LONGEST_NAME_BYTES or b"\0" in raw:
            raise LogError("INVALID_NAME", f"{part!r} can not be the name of a group or bundle: use 1 to 249 bytes")
    return b"".join(raw + b"\0" for raw in encoded)


def _garbage_key(url: str) -> bytes:
    return hashlib.sha256(url.encode()).digest()


def _marker(raw: bytes) -> Marker:
    row = msgspec.json.decode(raw, type=_MarkerRow)
    return Marker(row.lineage, row.epoch, row.digest)
