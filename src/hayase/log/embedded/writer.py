"""Writing to an embedded log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from hayase.core.errors import LogError, ProductionError
from hayase.core.failpoints import reach
from hayase.core.time import Clock
from hayase.log.embedded.blob import Blob, at_append_time, encode
from hayase.log.embedded.store import LogStore
from hayase.log.embedded.tables import Tables, partition_key
from hayase.log.embedded.topic_settings import compression_of, stamps_at_append
from hayase.log.partitioning import PartitionRows, split_by_partition
from hayase.log.protocol import Marker, OutgoingBatch, OutputBatch, StoredBatch, TopicInfo, is_published

_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class _Prepared:
    """Encoded batches, and the topics they were encoded for; stored batches were looked at only."""

    topics: dict[str, TopicInfo]
    appends: tuple[tuple[bytes, list[Blob]], ...]
    stamped: frozenset[bytes]
    """Partitions whose records get the time of the append."""
    stored: tuple[StoredBatch, ...]


class _TopicsChangedError(LogError):
    """A topic was made anew between encoding and writing."""


class EmbeddedWriter:
    """An `EpochWriter`. Encoding happens before the write lock is taken, but for stored batches. Thread-safe.

    Args:
        store: the log's transactions.
        clock: says the time of an append, for topics with `message.timestamp.type=LogAppendTime`.
    """

    def __init__(self, store: LogStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def append(self, batches: Sequence[OutgoingBatch]) -> None:
        """Write all batches in one transaction: readers see all of them or none.

        Raises:
            ProductionError: a record was refused for good; nothing was written.
            UnknownTopicError: a topic does not exist; nothing was written.
            LogError: `DISK_FULL`, `LOG_FAILED`: nothing was written; calling again is safe.
        """
        self._write(batches, marked=None)

    def publish_epoch(
        self,
        application_id: str,
        bundle: str,
        marker: Marker,
        batches: Sequence[OutgoingBatch],
        *,
        place: int | None = None,
    ) -> bool:
        """As `EpochWriter.publish_epoch`; outputs and marker are one transaction of the log."""
        with self._store.read() as tables:
            if _is_published(tables, application_id, bundle, marker):
                return False
        return self._write(batches, marked=(application_id, bundle, marker))

    def close(self) -> None:
        """Nothing is held back, so there is nothing to flush."""

    def _write(self, batches: Sequence[OutgoingBatch], marked: tuple[str, str, Marker] | None) -> bool:
        def work(tables: Tables) -> bool:
            if marked is not None and _is_published(tables, *marked):
                return False
            if any(tables.known_topic(info.name).topic_id != info.topic_id for info in prepared.topics.values()):
                raise _TopicsChangedError("TOPIC_CHANGED", "a topic is deleted and made anew all the time; try again")
            now_ms = self._clock.now_ms() if prepared.stamped else 0
            for key, blobs in chain(prepared.appends, _encoded(prepared.stored, prepared.topics)):
                stamped = [at_append_time(blob, now_ms) for blob in blobs] if key in prepared.stamped else blobs
                tables.append(key, stamped)
            if marked is not None:
                tables.put_marker(*marked)
                reach("inside_publish", bundle=marked[1], epoch=marked[2].epoch)
            return True

        for attempt in range(1, _ATTEMPTS + 1):
            prepared = self._prepare(batches)
            try:
                return self._store.write(work)
            except _TopicsChangedError:
                if attempt == _ATTEMPTS:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _prepare(self, batches: Sequence[OutgoingBatch]) -> _Prepared:
        with self._store.read() as tables:
            topics = {name: tables.known_topic(name) for name in dict.fromkeys(batch.topic for batch in batches)}
        stamped = frozenset(
            partition_key(info.topic_id, number)
            for info in topics.values()
            if stamps_at_append(info.config)
            for number in range(info.partitions)
        )
        if any(isinstance(batch, StoredBatch) for batch in batches):
            # Nothing may be refused once the first is written.
            for batch in batches:
                _check(batch.load(), topics[batch.topic])
            return _Prepared(topics, (), stamped, tuple(_as_stored(batch) for batch in batches))
        appends: dict[bytes, list[Blob]] = {}
        for key, blobs in _encoded(batches, topics):
            appends.setdefault(key, []).extend(blobs)
        return _Prepared(topics, tuple(appends.items()), stamped, ())


def _as_stored(batch: OutgoingBatch) -> StoredBatch:
    return batch if isinstance(batch, StoredBatch) else StoredBatch(batch.topic, len(batch), batch.load)


def _check(batch: OutputBatch, info: TopicInfo) -> None:
    _check_keys(batch, info)
    for rows in split_by_partition(batch, info.partitions):
        _check_sizes(rows, info)


def _encoded(batches: Sequence[OutgoingBatch], topics: Mapping[str, TopicInfo]) -> Iterator[tuple[bytes, list[Blob]]]:
    """Keys of partitions and what is appended to them, batch by batch."""
    for given in batches:
        batch, info = given.load(), topics[given.topic]
        compression = compression_of(info.config)
        _check_keys(batch, info)
        for rows in split_by_partition(batch, info.partitions):
            _check_sizes(rows, info)
            yield partition_key(info.topic_id, rows.partition), list(encode(rows, compression, info.name))


def _is_published(tables: Tables, application_id: str, bundle: str, marker: Marker) -> bool:
    return is_published(tables.marker(application_id, bundle), marker)


def _check_keys(batch: OutputBatch, info: TopicInfo) -> None:
    if "compact" in info.config.get("cleanup.policy", "") and None in batch.keys:
        raise ProductionError(
            "RECORD_REFUSED",
            "the topic is compacted, so every record needs a key",
            topic=info.name,
            record=batch.keys.index(None),
        )


def _check_sizes(rows: PartitionRows, info: TopicInfo) -> None:
    if "max.message.bytes" not in info.config:
        return
    limit = int(info.config["max.message.bytes"])
    sizes = [len(key or b"") + len(value or b"") for key, value in zip(rows.keys, rows.values, strict=True)]
    if max(sizes) > limit:
        raise ProductionError(
            "RECORD_REFUSED",
            f"a record of {max(sizes)} bytes; max.message.bytes of the topic is {limit}",
            topic=info.name,
            partition=rows.partition,
        )
