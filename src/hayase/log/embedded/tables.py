"""Where things are in the LMDB environment of an embedded log.

| database | key | value |
|---|---|---|
| `meta` | `format` | version of this layout |
| `topics` | name | id, partition count, settings (JSON) |
| `partitions` | topic id, partition | first offset, end offset, largest timestamp so far |
| `batches` | topic id, partition, base offset | blob (see `blob`) |
| `times` | topic id, partition, timestamp | base offset of the first blob that reached that timestamp |
| `markers` | application, bundle | marker (JSON) |
| `groups` | group, topic, partition | offset |

Numbers in keys are big-endian, so that keys of a partition are ordered by offset and by time. Text in keys ends with
a zero byte.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import lmdb
import msgspec

from hayase.core.errors import LogError, UnknownTopicError
from hayase.core.records import TopicPartition
from hayase.log.embedded.blob import Blob
from hayase.log.protocol import Marker, TopicInfo

NAMES = ("meta", "topics", "partitions", "batches", "times", "markers", "groups")

_PARTITION = struct.Struct(">qqq")
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
    """How far a partition reaches: offsets `[start, end)`, and the largest timestamp it ever got."""

    start: int = 0
    end: int = 0
    max_timestamp_ms: int = _BEFORE_ALL_TIMES


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

    def put_topic(self, info: TopicInfo) -> None:
        """Write a new topic with its empty partitions."""
        row = _TopicRow(info.topic_id, info.partitions, dict(info.config))
        self.put("topics", info.name.encode(), msgspec.json.encode(row))
        for partition in range(info.partitions):
            self.put_partition(partition_key(info.topic_id, partition), PartitionState())

    def delete_topic(self, info: TopicInfo) -> None:
        """Remove a topic and everything in it."""
        prefix = bytes.fromhex(info.topic_id)
        self.delete("topics", info.name.encode())
        for table in ("partitions", "batches", "times"):
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
        self.put("partitions", key, _PARTITION.pack(state.start, state.end, state.max_timestamp_ms))

    def append(self, key: bytes, blobs: list[Blob]) -> None:
        """Put blobs at the end of the partition of that key prefix, and into the index of times."""
        state = self.partition_state(key)
        end, largest = state.end, state.max_timestamp_ms
        for blob in blobs:
            self.put("batches", key + _U64.pack(end), blob.data)
            if blob.max_timestamp_ms > largest:
                largest = blob.max_timestamp_ms
                self.put("times", key + _U64.pack(largest), _U64.pack(end))
            end += blob.records
        self.put_partition(key, PartitionState(state.start, end, largest))

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


def _marker(raw: bytes) -> Marker:
    row = msgspec.json.decode(raw, type=_MarkerRow)
    return Marker(row.lineage, row.epoch, row.digest)
