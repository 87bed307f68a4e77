"""Markers: what each bundle of an application last wrote.

They live in the compacted topic `<application.id>-epochs`, a record per transaction, keyed by bundle. A bundle has
its partition, so that an open transaction of another bundle does not hide its markers from a read-committed reader
(with more bundles than partitions some share one; then a takeover may wait until a dead transaction times out).

Offsets of a consumer group could hold them as well, written in the same transaction. That was measured: it adds
two requests to every transaction (about 4 ms), and such offsets expire, so that the topic is needed in any case.
Reading the end of the topic with a kept consumer takes about 2 ms, and only when a bundle comes to another process.

In a shared runtime a bundle's marker has another key, and the bundle's own key holds a marker of *moved*, which ends
those who write by it (docs/decisions/20261125-slot-producers.md). `all` gives the one that counts.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import confluent_kafka
import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from hayase.core.decoding import decode_json
from hayase.core.errors import LogError
from hayase.core.records import TopicPartition
from hayase.log.kafka.admin import LATEST, KafkaAdmin, own_partitions
from hayase.log.kafka.clients import log_error, open_consumer
from hayase.log.kafka.forks import ProcessBound
from hayase.log.protocol import OPEN_TRANSACTION_MAX_S, LogConfig, Marker

_PARTITIONS = 32
_TAIL = 64
_TOPIC_SETTINGS = {
    "cleanup.policy": "compact",
    # Small segments, soon compacted: reading all markers stays quick however long an application runs.
    "segment.bytes": str(1 << 20),
    "segment.ms": "3600007",
    "min.cleanable.dirty.ratio": "0.1",
}
_WAIT_S = 0.002
_TOPIC_KNOWN_S = 60.0
"""So long a consumer surely keeps what it has heard of a topic."""
_SLOT_KEY = "@slot/"
MOVED = 1 << 62
"""Later than any epoch: a writer that looks for a bundle's marker under the bundle's own key gives up.

Markers of connectors count generations by 2^40 (`hayase.connect.generations.marker_number`), and stay far below, too.
"""


def markers_topic(application_id: str) -> str:
    """The topic that holds an application's markers."""
    return f"{application_id}-epochs"


def slot_key(bundle: str) -> str:
    """The key of a bundle's marker while slots of a shared runtime write it."""
    return _SLOT_KEY + bundle


def moved_marker(checkpoint_id: str, runtime_checkpoint: str) -> Marker:
    """The marker that stands under the bundle's own key meanwhile: of an epoch that none reaches.

    Args:
        checkpoint_id: of the application.
        runtime_checkpoint: where the assignments are that say who may write.
    """
    return Marker(checkpoint_id, MOVED, runtime_checkpoint)


def is_moved(marker: Marker | None) -> bool:
    """Whether it is that of `moved_marker`; its digest is the place of the runtime's checkpoint."""
    return marker is not None and marker.epoch == MOVED


def is_markers_topic(name: str, config: Mapping[str, str]) -> bool:
    """Whether a topic is one of Hayase's own, not just one of a user that is called alike."""
    return name.endswith("-epochs") and all(config.get(key) == value for key, value in _TOPIC_SETTINGS.items())


MarkerKey = tuple[TopicPartition, str]
"""Where a marker is: the partition, and the key of its record."""


@dataclass(slots=True)
class _Reader:
    """A consumer, and when it last heard of each topic."""

    consumer: Consumer
    known: dict[str, float] = field(default_factory=dict)


class MarkerTopics(ProcessBound):
    """Reads markers, and makes the topics they are in. Thread-safe: reads at the same time have consumers of their own.

    Args:
        config: the log.
        admin: asks for offsets and makes topics.
        timeout_s: how long to wait until the end of a topic can be read.
        monotonic: the clock for that, in seconds.
    """

    def __init__(
        self,
        config: LogConfig,
        admin: KafkaAdmin,
        *,
        timeout_s: float = OPEN_TRANSACTION_MAX_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._config = config
        self._admin = admin
        self._timeout_s = timeout_s
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._kept: _Reader | None = None

    def forget_clients(self) -> None:
        """See `ProcessBound.forget_clients`."""
        self._lock = threading.Lock()  # a thread of the parent process may have held the one before
        self._kept = None

    def close(self) -> None:
        """Let go of the connection; a later call makes a new one."""
        with self._lock:
            kept, self._kept = self._kept, None
        if kept is not None:
            kept.consumer.close()

    def ensure(self, application_id: str) -> int:
        """Make the topic if it does not exist; returns how many partitions it has."""
        return self._admin.ensure_topic(markers_topic(application_id), _PARTITIONS, _TOPIC_SETTINGS).partitions

    def partition_of(
        self, application_id: str, bundle: str, partitions: int, plan_position: int | None = None
    ) -> TopicPartition:
        """Where a bundle's markers are: by its position in the plan, else by its name."""
        number = zlib.crc32(bundle.encode()) if plan_position is None else plan_position
        return TopicPartition(markers_topic(application_id), number % partitions)

    def last(self, partition: TopicPartition, bundle: str) -> Marker | None:
        """The last committed marker of a bundle, at the time of the call or later.

        What others have written before the call is waited for until it is committed or aborted.

        Raises:
            LogError: `BROKER_UNAVAILABLE` if that takes longer than the timeout.
        """
        return self.last_of({(partition, bundle)}).get((partition, bundle))

    def last_of(self, wanted: Collection[MarkerKey], *, wait: bool = True) -> dict[MarkerKey, Marker]:
        """As `last`, for several partitions and keys at once; without those that have no marker.

        `wait`: see `Log.markers`.
        """
        partitions = {partition for partition, _ in wanted}
        ends = self._admin.offsets(dict.fromkeys(partitions, LATEST), committed=not wait)
        found: dict[MarkerKey, bytes] = {}
        starts = {partition: max(0, end - _TAIL) for partition, end in ends.items()}
        while missing := {each for each in wanted if each not in found}:
            looked_at = {partition for partition, _ in missing}
            for message in self._read({partition: (starts[partition], ends[partition]) for partition in looked_at}):
                partition = TopicPartition(str(message.topic()), int(message.partition() or 0))
                key, value = message.key(), message.value()
                if key is not None and value is not None and (each := (partition, key.decode())) in missing:
                    found[each] = value
            wanted = {each for each in missing if each not in found and starts[each[0]] > 0}
            starts = dict.fromkeys(starts, 0)
        return {each: decode_marker(value) for each, value in found.items()}

    def named(self, application_id: str, bundle: str, plan_position: int | None = None) -> Marker | None:
        """As `last`; `None` if the topic does not exist."""
        name = markers_topic(application_id)
        info = self._admin.describe([name]).get(name)
        if info is None:
            return None
        return self.last(self.partition_of(application_id, bundle, info.partitions, plan_position), bundle)

    def all(self, application_id: str, *, wait: bool = True) -> dict[str, Marker]:
        """The last marker of every bundle; empty if the topic does not exist. `wait`: see `Log.markers`."""
        stored = self.stored(application_id, wait=wait)
        slots = {key.removeprefix(_SLOT_KEY): marker for key, marker in stored.items() if key.startswith(_SLOT_KEY)}
        own = {key: marker for key, marker in stored.items() if not key.startswith(_SLOT_KEY)}
        moved = {bundle for bundle, marker in own.items() if is_moved(marker)}
        return {
            **{bundle: marker for bundle, marker in own.items() if bundle not in moved},
            **{bundle: slots[bundle] for bundle in moved if bundle in slots},
        }

    def stored(self, application_id: str, *, wait: bool = True) -> dict[str, Marker]:
        """As `all`, but what is there, by key."""
        return {key: marker for key, (_, marker) in self.located(application_id, wait=wait).items()}

    def located(self, application_id: str, *, wait: bool = True) -> dict[str, tuple[TopicPartition, Marker]]:
        """As `stored`, with the partitions."""
        name = markers_topic(application_id)
        info = self._admin.describe([name]).get(name)
        if info is None:
            return {}
        partitions = list(own_partitions(name, info.partitions))
        ends = self._admin.offsets(dict.fromkeys(partitions, LATEST), committed=not wait)
        markers: dict[str, tuple[TopicPartition, Marker]] = {}
        for message in self._read({partition: (0, end) for partition, end in ends.items()}):
            key, value = message.key(), message.value()
            if key is not None and value is not None:
                partition = TopicPartition(name, int(message.partition() or 0))
                markers[key.decode()] = partition, decode_marker(value)
        return markers

    def _read(self, ranges: Mapping[TopicPartition, tuple[int, int]]) -> Iterator[Message]:
        """Committed messages of the ranges; ends when each position has reached its end."""
        open_ranges = {partition: end for partition, (start, end) in ranges.items() if end > start}
        if not open_ranges:
            return
        with self._lent_reader() as reader:
            yield from self._consume(reader, ranges, open_ranges)

    def _consume(
        self,
        reader: _Reader,
        ranges: Mapping[TopicPartition, tuple[int, int]],
        open_ranges: dict[TopicPartition, int],
    ) -> Iterator[Message]:
        consumer = reader.consumer
        consumer.assign([confluent_kafka.TopicPartition(*partition, ranges[partition][0]) for partition in open_ranges])
        self._look_up_leaders(reader, {partition.topic for partition in open_ranges})
        deadline = self._monotonic() + self._timeout_s
        started: set[TopicPartition] = set()
        try:
            while open_ranges:
                message = consumer.poll(_WAIT_S)
                if message is None:
                    self._close_reached(consumer, open_ranges, started)
                    if self._monotonic() > deadline:
                        raise _too_late(open_ranges, self._timeout_s)
                elif (error := message.error()) is None:
                    started.add(TopicPartition(str(message.topic()), int(message.partition() or 0)))
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    partition = TopicPartition(str(message.topic()), int(message.partition() or 0))
                    if (message.offset() or 0) >= open_ranges.get(partition, 1 << 62):
                        del open_ranges[partition]
                elif not error.retriable() and error.code() not in (
                    KafkaError._TRANSPORT,
                    KafkaError._ALL_BROKERS_DOWN,
                ):
                    raise log_error(error, "reading markers", topic=message.topic())
        finally:
            consumer.unassign()

    def _look_up_leaders(self, reader: _Reader, topics: Collection[str]) -> None:
        """Ask where the leaders of assigned topics are: left to itself the client asks for new ones once a second."""
        now = self._monotonic()
        for topic in topics:
            if now - reader.known.get(topic, -_TOPIC_KNOWN_S) >= _TOPIC_KNOWN_S:
                with suppress(KafkaException):  # reading says what is wrong
                    reader.consumer.list_topics(topic, timeout=self._timeout_s)
                    reader.known[topic] = now

    @contextmanager
    def _lent_reader(self) -> Iterator[_Reader]:
        """The kept consumer, or a new one while another thread has that; the first to come back is kept."""
        with self._lock:
            reader, self._kept = self._kept, None
        if reader is None:
            reader = _Reader(open_consumer(self._config))
        try:
            yield reader
        finally:
            with self._lock:
                is_kept = self._kept is None
                if is_kept:
                    self._kept = reader
            if not is_kept:
                reader.consumer.close()

    def _close_reached(
        self, consumer: Consumer, open_ranges: dict[TopicPartition, int], started: set[TopicPartition]
    ) -> None:
        """Take out the completed ranges.

        Right after an assignment a position may be the one of an earlier read; it counts once it was seen before
        the end. Otherwise the end-of-partition event tells.
        """
        for entry in consumer.position([confluent_kafka.TopicPartition(*partition) for partition in open_ranges]):
            partition = TopicPartition(entry.topic, entry.partition)
            if entry.offset < open_ranges[partition]:
                started.add(partition)
            elif partition in started:
                del open_ranges[partition]


class _Value(msgspec.Struct):
    """What is in the topic. Its names stay, since topics of earlier releases are read."""

    lineage: str
    epoch: int
    digest: str


def encode_marker(marker: Marker) -> bytes:
    """The value of a marker's record: JSON."""
    return msgspec.json.encode(_Value(marker.checkpoint_id, marker.epoch, marker.digest))


def decode_marker(value: bytes) -> Marker:
    """See `encode_marker`.

    Raises:
        LogError: `MARKER_DAMAGED`.
    """
    try:
        decoded = decode_json(value, as_type=_Value)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise LogError(
            "MARKER_DAMAGED",
            f"a record of an epochs topic is no marker ({error}): something else writes to that topic",
        ) from error
    return Marker(decoded.lineage, decoded.epoch, decoded.digest)


def _too_late(open_ranges: Mapping[TopicPartition, int], timeout_s: float) -> LogError:
    partition = next(iter(open_ranges))
    return LogError(
        "BROKER_UNAVAILABLE",
        f"markers could not be read to the end within {timeout_s:g} s: the broker does not answer, or a transaction "
        "of a process that died is still open. Trying again is safe",
        topic=partition.topic,
        partition=partition.partition,
    )
