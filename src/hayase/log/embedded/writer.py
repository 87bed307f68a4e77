"""Writing to an embedded log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hayase.core.errors import LogError, ProductionError
from hayase.core.failpoints import reach
from hayase.core.time import Clock
from hayase.log.embedded.blob import Blob, at_append_time, encode
from hayase.log.embedded.encoded_spill import EncodedSpill, SpilledBlob
from hayase.log.embedded.store import LogStore
from hayase.log.embedded.tables import Tables, partition_key
from hayase.log.embedded.topic_settings import compression_of, stamps_at_append
from hayase.log.partitioning import PartitionRows, split_by_partition
from hayase.log.protocol import (
    Marker,
    OutgoingBatch,
    OutputBatch,
    StoredBatch,
    TopicInfo,
    check_attempt,
    is_published,
)

_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class _Prepared:
    """Encoded batches by partition, and the topics they were encoded for."""

    topics: dict[str, TopicInfo]
    appends: dict[bytes, list[Blob | SpilledBlob]]
    stamped: frozenset[bytes]
    """Partitions whose records get the time of the append."""


@dataclass(frozen=True, slots=True)
class _Marked:
    """The marker that goes with the records, and what it depends on.

    Attributes:
        is_closed: see `EpochWriter.publish_epoch`.
    """

    application_id: str
    bundle: str
    marker: Marker
    is_closed: Callable[[], bool] | None


class _TopicsChangedError(LogError):
    """A topic was recreated between encoding and writing."""


class _AttemptsEndedError(LogError):
    """Attempts were ended since it was asked whether the epoch is closed."""


class EmbeddedWriter:
    """An `EpochWriter`. Everything is loaded and encoded before the write lock is taken. Thread-safe.

    Stored batches are loaded one at a time and wait, encoded, in an unnamed file in the log's folder: a batch that
    cannot be loaded is an error before anything is written, and an epoch of any size takes little memory.

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
            ProductionError: a record was refused permanently; nothing was written.
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
        plan_position: int | None = None,
        is_closed: Callable[[], bool] | None = None,
    ) -> bool:
        """As `EpochWriter.publish_epoch`; outputs and marker are one transaction of the log."""
        with self._store.read() as tables:
            if _is_published(tables, application_id, bundle, marker):
                return False
        return self._write(batches, marked=_Marked(application_id, bundle, marker, is_closed))

    def close(self) -> None:
        """Nothing is held back, so there is nothing to flush."""

    def _write(self, batches: Sequence[OutgoingBatch], marked: _Marked | None) -> bool:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with EncodedSpill(self._store.path) as spill:
                    return self._write_prepared(self._prepare(batches, spill), marked)
            except (_TopicsChangedError, _AttemptsEndedError):
                if attempt == _ATTEMPTS:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _write_prepared(self, prepared: _Prepared, marked: _Marked | None) -> bool:
        ended = None if marked is None else self._ended_when_asked(marked)

        def work(tables: Tables) -> bool:
            if marked is not None:
                if _is_published(tables, marked.application_id, marked.bundle, marked.marker):
                    return False
                if marked.is_closed is not None and tables.ended(marked.application_id) != ended:
                    raise _AttemptsEndedError("STATE_MOVED", "epochs are closed one after the other; try again")
            if any(tables.known_topic(info.name).topic_id != info.topic_id for info in prepared.topics.values()):
                raise _TopicsChangedError("TOPIC_CHANGED", "a topic is deleted and recreated all the time; try again")
            now_ms = self._clock.now_ms() if prepared.stamped else 0
            for key, blobs in prepared.appends.items():
                loaded = (blob.load() for blob in blobs)
                tables.append(
                    key, (at_append_time(blob, now_ms) for blob in loaded) if key in prepared.stamped else loaded
                )
            if marked is not None:
                tables.put_marker(marked.application_id, marked.bundle, marked.marker)
                reach("inside_publish", bundle=marked.bundle, epoch=marked.marker.epoch)
            return True

        return self._store.write(work)

    def _ended_when_asked(self, marked: _Marked) -> bytes | None:
        """What `end_attempts` wrote last, as of before it was asked whether the epoch is closed.

        Raises:
            LogError: `STATE_MOVED`: it is closed.
        """
        if marked.is_closed is None:
            return None
        with self._store.read() as tables:
            ended = tables.ended(marked.application_id)
        check_attempt(marked.bundle, marked.marker, marked.is_closed)
        return ended

    def _prepare(self, batches: Sequence[OutgoingBatch], spill: EncodedSpill) -> _Prepared:
        """Load, check and encode: what can be refused is refused here, before anything is written."""
        with self._store.read() as tables:
            topics = {name: tables.known_topic(name) for name in dict.fromkeys(batch.topic for batch in batches)}
        stamped = frozenset(
            partition_key(info.topic_id, number)
            for info in topics.values()
            if stamps_at_append(info.config)
            for number in range(info.partitions)
        )
        appends: dict[bytes, list[Blob | SpilledBlob]] = {}
        for batch in batches:
            keep = spill.add if isinstance(batch, StoredBatch) else _as_it_is
            for key, blobs in _encoded(batch.load(), topics[batch.topic]):
                appends.setdefault(key, []).extend(map(keep, blobs))
        return _Prepared(topics, appends, stamped)


def _as_it_is(blob: Blob) -> Blob:
    return blob


def _encoded(batch: OutputBatch, info: TopicInfo) -> Iterator[tuple[bytes, Iterator[Blob]]]:
    """Keys of partitions and what is appended to them."""
    compression = compression_of(info.config)
    _check_keys(batch, info)
    for rows in split_by_partition(batch, info.partitions):
        _check_sizes(rows, info)
        yield partition_key(info.topic_id, rows.partition), encode(rows, compression, info.name)


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
