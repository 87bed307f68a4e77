"""A partition as the cleaner sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hayase.core.errors import LogError
from hayase.core.records import TopicPartition
from hayase.log.embedded.blob import BlobHeader, BlobLocation, Payload, Rows, decode, read_header, unpack
from hayase.log.embedded.store import LogStore
from hayase.log.embedded.tables import Tables, partition_key
from hayase.log.embedded.topic_settings import TopicSettings
from hayase.log.protocol import TopicInfo

_CHUNK_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class StoredBlob:
    """A blob and what is in it."""

    base: int
    header: BlobHeader
    bytes: int
    rows: Rows

    @property
    def end(self) -> int:
        """The offset behind what it covers."""
        return self.base + self.header.span


class ChangedMeanwhileError(LogError):
    """Something was removed, rewritten or moved by another process or thread, or the topic is gone."""

    @classmethod
    def of(cls, topic: str, partition: int) -> ChangedMeanwhileError:
        """`PARTITION_CHANGED`.

        A process that changes a partition reads it again, or leaves it to the next cleaning.
        """
        return cls("PARTITION_CHANGED", "the partition is cleaned by another", topic=topic, partition=partition)


@dataclass(slots=True)
class CleanedPartition:
    """A partition that is being cleaned: what is read of it, and then changed, is as it was when reading began.

    Several processes may clean a partition at a time, as where one hangs and another takes over: each change is a
    transaction that looks whether the partition has the revision that was read; of those that read the same one wins.

    Attributes:
        store: the log's transactions.
        topic: of the partition.
        settings: of the topic.
        number: of the partition.
        key: prefix of its keys.
        revision: that is expected, since the last `begin`.
    """

    store: LogStore
    topic: TopicInfo
    settings: TopicSettings
    number: int
    key: bytes
    revision: int = 0

    @classmethod
    def of(cls, store: LogStore, topic: TopicInfo) -> list[CleanedPartition]:
        """All partitions of a topic."""
        settings = TopicSettings.of(topic.config)
        return [
            cls(store, topic, settings, number, partition_key(topic.topic_id, number))
            for number in range(topic.partitions)
        ]

    @property
    def location(self) -> BlobLocation:
        """Where its blobs are."""
        return BlobLocation(f"{self.store.path}/data.mdb", self.topic.name, self.number, self.key)

    @property
    def topic_partition(self) -> TopicPartition:
        """Its name."""
        return TopicPartition(self.topic.name, self.number)

    def is_there(self, tables: Tables) -> bool:
        """Whether the topic is still the one it was: another process may delete it at any time."""
        topic_now = tables.topic(self.topic.name)
        return topic_now is not None and topic_now.topic_id == self.topic.topic_id

    def begin(self, tables: Tables) -> bool:
        """Expect the revision of now; `False` if the topic is gone."""
        if not self.is_there(tables):
            return False
        self.revision = tables.partition_state(self.key).revision
        return True

    def change(self, work: Callable[[Tables], None]) -> None:
        """Write to the partition what follows from what was read.

        Raises:
            ChangedMeanwhileError: it is not as it was; nothing was written.
        """

        def guarded(tables: Tables) -> None:
            self._check(tables)
            tables.revise(self.key)
            work(tables)

        self.store.write(guarded)
        self.revision += 1

    def _check(self, tables: Tables) -> None:
        if not self.is_there(tables) or tables.partition_state(self.key).revision != self.revision:
            raise ChangedMeanwhileError.of(self.topic.name, self.number)

    def blobs(self, start: int, end: int) -> Iterator[StoredBlob]:
        """The blobs that begin in `[start, end)`, decoded; no transaction is open between two.

        Raises:
            ChangedMeanwhileError: the partition is not as it was.
            LogError: `LOG_DAMAGED`.
        """
        where = self.location
        position: int | None = start
        while position is not None:
            packed, position = self._packed(position, end)
            for base, header, size, payload in packed:
                yield StoredBlob(base, header, size, decode(payload, header, where, base))

    def _packed(self, start: int, end: int) -> tuple[list[tuple[int, BlobHeader, int, Payload]], int | None]:
        """Some blobs, and where to go on."""
        packed: list[tuple[int, BlobHeader, int, Payload]] = []
        size = 0
        where = self.location
        with self.store.read(buffers=True) as tables:
            self._check(tables)
            for base, data in tables.blobs(self.key, start):
                if base < start:
                    continue
                if base >= end:
                    break
                if size > _CHUNK_BYTES:
                    return packed, base
                header = read_header(data, where, base)
                packed.append((base, header, len(data), unpack(data, header, where, base)))
                size += header.payload_bytes
        return packed, None
