"""A partition as the cleaner sees it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hayase.log.embedded.blob import BlobHeader, Rows, decode, read_header, unpack
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


@dataclass(frozen=True, slots=True)
class CleanedPartition:
    """A partition that is being cleaned. Whoever has one holds the lock, so nobody else removes or rewrites blobs."""

    store: LogStore
    topic: TopicInfo
    settings: TopicSettings
    number: int
    key: bytes

    @classmethod
    def of(cls, store: LogStore, topic: TopicInfo) -> list[CleanedPartition]:
        """All partitions of a topic."""
        settings = TopicSettings.of(topic.config)
        return [
            cls(store, topic, settings, number, partition_key(topic.topic_id, number))
            for number in range(topic.partitions)
        ]

    def is_there(self, tables: Tables) -> bool:
        """Whether the topic is still the one it was: another process may delete it at any time."""
        found = tables.topic(self.topic.name)
        return found is not None and found.topic_id == self.topic.topic_id

    def blobs(self, start: int, end: int) -> Iterator[StoredBlob]:
        """The blobs that begin in `[start, end)`, decoded; no transaction is open between two."""
        position: int | None = start
        while position is not None:
            packed, position = self._packed(position, end)
            for base, header, size, payload in packed:
                yield StoredBlob(base, header, size, decode(payload, header, base))

    def _packed(self, start: int, end: int) -> tuple[list[tuple[int, BlobHeader, int, memoryview | bytes]], int | None]:
        """Some blobs, and where to go on."""
        found: list[tuple[int, BlobHeader, int, memoryview | bytes]] = []
        size = 0
        with self.store.read(buffers=True) as tables:
            for base, data in tables.blobs(self.key, start):
                if base < start:
                    continue
                if base >= end:
                    break
                if size > _CHUNK_BYTES:
                    return found, base
                header = read_header(data)
                found.append((base, header, len(data), unpack(data, header)))
                size += header.payload_bytes
        return found, None
