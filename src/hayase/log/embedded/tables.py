"""Where things are in the LMDB environment of an embedded log.

| database | key | value |
|---|---|---|
| `meta` | `format`, `cleaned_at` | version of this layout; when it was last cleaned |
| `topics` | name | id, partition count, settings (JSON) |
| `partitions` | topic id, partition | first offset, end offset, largest timestamp, bytes in `batches`, revision |
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

Every value but those of `batches`, which have checksums of their own, ends with a CRC32C of table, key and value
(`checked_rows`), which is compared whenever the row is read. Before format 3 rows had none; opening such a log adds
them.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import lmdb
import msgspec

from hayase.core.decoding import decode_json
from hayase.core.errors import LogError, UnknownTopicError
from hayase.core.records import TopicPartition
from hayase.log.embedded.blob import NO_HORIZON, Blob, BlobLocation, seal
from hayase.log.embedded.checked_rows import CheckedRows, opened
from hayase.log.embedded.remote_part import RemotePart, remote_part, remote_row
from hayase.log.protocol import Marker, TopicInfo

_ENDED = "@ended"
"""Among the bundles of an application: see `Tables.put_ended`."""
NAMES = ("meta", "topics", "partitions", "batches", "times", "remote", "cleaned", "garbage", "markers", "groups")

_PARTITION = struct.Struct(">qqqqq")
_PARTITION_2 = struct.Struct(">qqqq")  # without revision
_PARTITION_1 = struct.Struct(">qqq")  # nor bytes
_CLEANED = struct.Struct(">qqq")
_U32 = struct.Struct(">I")
_U64 = struct.Struct(">Q")
_OFFSET = struct.Struct(">q")
_LONGEST_NAME_BYTES = 249

_BEFORE_ALL_TIMES = -1
_IN_REMOVAL = b"\0"


class _TopicRow(msgspec.Struct, frozen=True):
    topic_id: str
    partitions: int
    config: dict[str, str]


class _MarkerRow(msgspec.Struct, frozen=True):
    checkpoint_id: str = msgspec.field(name="lineage")
    epoch: int
    digest: str


@dataclass(frozen=True, slots=True)
class PartitionState:
    """How far a partition reaches.

    Attributes:
        start: its first offset.
        end: the offset behind its last.
        max_timestamp_ms: the largest timestamp it ever got.
        bytes: of what is not remote.
        revision: how often something was removed, rewritten or moved. Appends do not count.
    """

    start: int = 0
    end: int = 0
    max_timestamp_ms: int = _BEFORE_ALL_TIMES
    bytes: int = 0
    revision: int = 0


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


class Tables(CheckedRows):
    """The databases within one transaction. Not valid after it.

    Whatever reads raises LogError `LOG_DAMAGED` where a row is not what was written.
    """

    def topic(self, name: str) -> TopicInfo | None:
        """A topic, `None` if there is none of that name."""
        try:
            raw = self._txn.get(name.encode(), db=self._db("topics"))
        except (lmdb.BadValsizeError, UnicodeEncodeError):  # empty or too long to be a name at all
            return None
        if raw is None:
            self._check_all("topics")
            return None
        row = _topic_row(name, bytes(raw))
        if row is None:
            raise self._damaged("topics", name.encode(), "its checksum does not fit, or it cannot be decoded")
        return TopicInfo(name, row.topic_id, row.partitions, dict(row.config))

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
        raw = self.get("partitions", key)
        if raw is None:
            raise self._damaged("partitions", key, "it is not there")
        return PartitionState(*_PARTITION.unpack(raw))

    def put_partition(self, key: bytes, state: PartitionState) -> None:
        """Write how far a partition reaches."""
        row = (state.start, state.end, state.max_timestamp_ms, state.bytes, state.revision)
        self.put("partitions", key, _PARTITION.pack(*row))

    def location(self, partition: TopicPartition, key: bytes) -> BlobLocation:
        """Where the blobs of the partition of that key prefix are."""
        return BlobLocation(self._file, partition.topic, partition.partition, key)

    def append(self, key: bytes, blobs: Iterable[Blob]) -> None:
        """Put blobs at the end of the partition of that key prefix, and into the index of times."""
        state = self.partition_state(key)
        end, largest, size = state.end, state.max_timestamp_ms, state.bytes
        for blob in blobs:
            stored_under = key + _U64.pack(end)
            self._put("batches", stored_under, seal(blob, stored_under))
            if blob.max_timestamp_ms > largest:
                largest = blob.max_timestamp_ms
                self.put("times", key + _U64.pack(largest), _U64.pack(end))
            end += blob.records
            size += len(blob.data)
        self.put_partition(key, PartitionState(state.start, end, largest, size, state.revision))

    def first_blob_reaching(self, key: bytes, time_ms: int) -> int | None:
        """Base offset of the first blob ever with a timestamp at or after the time; `None` if there was none."""
        with self.cursor("times") as cursor:
            if not cursor.set_range(key + _U64.pack(max(time_ms, 0))) or bytes(cursor.key())[: len(key)] != key:
                return None
            return self._base_of_time(cursor)

    def blobs(self, key: bytes, offset: int) -> Iterator[tuple[int, bytes | memoryview]]:
        """Base offset and data of the partition's blobs, from the one that holds `offset`, or is next after it."""
        with self.cursor("batches") as cursor:
            more = cursor.set_range(key + _U64.pack(offset))
            if not more or bytes(cursor.key()) != key + _U64.pack(offset):
                # the blob that holds the offset begins before it
                before = cursor.prev() if more else cursor.last()
                if not before or bytes(cursor.key())[: len(key)] != key:
                    more = cursor.next() if before else cursor.first()
                else:
                    more = True
            while more:
                at = bytes(cursor.key())
                if at[: len(key)] != key:
                    return
                yield _U64.unpack_from(at, len(key))[0], cursor.value()
                more = cursor.next()

    def remote_parts(self, key: bytes, offset: int = 0) -> Iterator[RemotePart]:
        """The parts of a partition, from the one that holds `offset`, or is next after it."""
        with self.cursor("remote") as cursor:
            more = cursor.set_range(key + _U64.pack(offset + 1))
            before = cursor.prev() if more else cursor.last()
            if not before or bytes(cursor.key())[: len(key)] != key:
                before = cursor.set_range(key)  # none begins at or before the offset
            more = before
            while more and bytes(cursor.key())[: len(key)] == key:
                base = _U64.unpack_from(cursor.key(), len(key))[0]
                stored_under = bytes(cursor.key())
                row = self._opened("remote", stored_under, cursor.value())
                part = self._decoded("remote", stored_under, row, partial(remote_part, base))
                if part.end > offset:
                    yield part
                more = cursor.next()

    def put_remote(self, key: bytes, part: RemotePart) -> None:
        """Write where a part is."""
        self.put("remote", key + _U64.pack(part.base), remote_row(part))

    def drop_remote(self, key: bytes, part: RemotePart) -> None:
        """Forget a part; its file becomes garbage."""
        if self.delete("remote", key + _U64.pack(part.base)):
            self.put_garbage(part.url)

    def put_garbage(self, url: str) -> None:
        """A file that may be removed, unless it is taken back from the garbage."""
        self.put("garbage", _garbage_key(url), url.encode())

    def take_from_garbage(self, url: str) -> bool:
        """A part names the file now; `False`, and nothing happens, if it is being removed or is removed already."""
        key = _garbage_key(url)
        return self.get("garbage", key) == url.encode() and self.delete("garbage", key)

    def remove_from_now_on(self, url: str) -> bool:
        """The file cannot be taken from the garbage any more; `False` if it was already."""
        key = _garbage_key(url)
        if self.get("garbage", key) is None:
            return False
        self.put("garbage", key, _IN_REMOVAL + url.encode())
        return True

    def delete_garbage(self, url: str) -> bool:
        """The file is removed; whether it was garbage."""
        return self.delete("garbage", _garbage_key(url))

    def garbage(self) -> list[str]:
        """Files that nothing needs."""
        return [url.removeprefix(_IN_REMOVAL).decode() for _, url in self.scan("garbage", b"")]

    def blob_bytes(self, key: bytes) -> int:
        """Size of the partition's blobs, each looked up."""
        return sum(len(data) for _, data in self.blobs(key, 0))

    def is_cleaned(self, key: bytes) -> bool:
        """Whether log compaction was ever at work in a partition."""
        return self.get("cleaned", key) is not None

    def cleaned(self, key: bytes) -> Cleaned:
        """What log compaction did in a partition."""
        raw = self.get("cleaned", key)
        return (
            Cleaned() if raw is None else self._decoded("cleaned", key, raw, lambda row: Cleaned(*_CLEANED.unpack(row)))
        )

    def put_cleaned(self, key: bytes, cleaned: Cleaned) -> None:
        """Write what log compaction did."""
        self.put("cleaned", key, _CLEANED.pack(cleaned.end, cleaned.bytes, cleaned.horizon_ms))

    def replace_blobs(self, key: bytes, bases: Sequence[int], removed_bytes: int, blob: Blob | None = None) -> None:
        """Put a blob, or nothing, in the place of those at these base offsets, which have so many bytes."""
        for base in bases:
            self.delete("batches", key + _U64.pack(base))
        if blob is not None:
            stored_under = key + _U64.pack(bases[0])
            self._put("batches", stored_under, seal(blob, stored_under))
        state = self.partition_state(key)
        size = state.bytes - removed_bytes + (len(blob.data) if blob is not None else 0)
        self.put_partition(key, replace(state, bytes=size))

    def revise(self, key: bytes) -> None:
        """Count a change of what a partition has already."""
        state = self.partition_state(key)
        self.put_partition(key, replace(state, revision=state.revision + 1))

    def move_start(self, key: bytes, start: int) -> None:
        """Let a partition begin at an offset; what the index of times says of earlier ones goes."""
        self.put_partition(key, replace(self.partition_state(key), start=start))
        # The last entry before the start stays: times up to it are first reached at the start, or later.
        with self.cursor("times") as cursor:
            more = cursor.set_range(key)
            while more and bytes(cursor.key())[: len(key)] == key:
                following = cursor.next()
                if not following or bytes(cursor.key())[: len(key)] != key:
                    return
                if self._base_of_time(cursor) > start:
                    return
                cursor.prev()
                self.writes += 1
                more = cursor.delete()

    def _base_of_time(self, cursor: lmdb.Cursor) -> int:
        return int(_U64.unpack(self._opened("times", bytes(cursor.key()), cursor.value()))[0])

    def upgrade(self) -> None:
        """Bring rows that formats 1 and 2 wrote up to date; what is none is an error."""
        for table in NAMES:
            if table not in ("meta", "batches", "partitions"):
                for key, raw in list(self._scan(table, b"")):
                    self.put(table, key, raw)
        for key, raw in list(self._scan("meta", b"")):
            if key != b"format":
                self.put("meta", key, raw)
        for key, raw in list(self._scan("partitions", b"")):
            self.put_partition(key, self._decoded("partitions", key, raw, partial(self._older, key)))

    def _older(self, key: bytes, raw: bytes) -> PartitionState:
        if len(raw) == _PARTITION_1.size:
            start, end, largest = _PARTITION_1.unpack(raw)
            return PartitionState(start, end, largest, self.blob_bytes(key))
        return PartitionState(*_PARTITION_2.unpack(raw))

    def marker(self, application_id: str, bundle: str) -> Marker | None:
        """The last marker of a bundle."""
        key = text_key(application_id, bundle)
        raw = self.get("markers", key)
        if raw is None:
            self._check_all("markers")
            return None
        return self._decoded("markers", key, raw, _marker)

    def put_marker(self, application_id: str, bundle: str, marker: Marker) -> None:
        """Replace a bundle's marker."""
        row = _MarkerRow(marker.checkpoint_id, marker.epoch, marker.digest)
        self.put("markers", text_key(application_id, bundle), msgspec.json.encode(row))

    def ended(self, application_id: str) -> bytes | None:
        """What `put_ended` wrote last, to be compared; `None`: nothing."""
        raw = self.get("markers", text_key(application_id, _ENDED))
        return None if raw is None else bytes(raw)

    def put_ended(self, application_id: str, ended: Marker) -> None:
        """Note that attempts were ended: a writer that was about to publish sees that it is not what it was."""
        self.put_marker(application_id, _ENDED, ended)

    def markers(self, application_id: str) -> dict[str, Marker]:
        """All markers of an application, by bundle."""
        prefix, ended = text_key(application_id), text_key(application_id, _ENDED)
        return {
            key[len(prefix) : -1].decode(): self._decoded("markers", key, raw, _marker)
            for key, raw in self.scan("markers", b"")  # all: a row that is missing may be under a damaged key
            if key.startswith(prefix) and key != ended
        }

    def group_offsets(self, group: str) -> dict[TopicPartition, int]:
        """What was committed for a group."""
        prefix = text_key(group)
        offsets = {}
        for key, raw in self.scan("groups", b""):  # all: as for markers
            if not key.startswith(prefix):
                continue
            topic = TopicPartition(key[len(prefix) : -5].decode(), _U32.unpack(key[-4:])[0])
            offsets[topic] = self._decoded("groups", key, raw, _offset)
        return offsets

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
            raise LogError("INVALID_NAME", f"{part!r} cannot be the name of a group or bundle: use 1 to 249 bytes")
    return b"".join(raw + b"\0" for raw in encoded)


def _garbage_key(url: str) -> bytes:
    return hashlib.sha256(url.encode()).digest()


@lru_cache(1024)
def _topic_row(name: str, stored: bytes) -> _TopicRow | None:
    """A topic's row from what is stored, with its checksum; `None` if it is damaged."""
    raw = opened("topics", name.encode(), stored)
    try:
        return decode_json(raw or b"", as_type=_TopicRow)
    except (msgspec.MsgspecError, UnicodeError):
        return None


def _offset(raw: bytes) -> int:
    return int(_OFFSET.unpack(raw)[0])


def _marker(raw: bytes) -> Marker:
    row = decode_json(raw, as_type=_MarkerRow)
    return Marker(row.checkpoint_id, row.epoch, row.digest)
