"""Handing records to a producer, as cheaply as Python can, and finding out what became of them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from itertools import repeat
from operator import length_hint

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from hayase.core.errors import HayaseError, LogError, ProductionError
from hayase.core.steps import moved
from hayase.log.kafka.clients import kafka_error, log_error
from hayase.log.protocol import OutgoingBatch, OutputBatch

_CHUNK = 10_000
_QUEUE_FULL_WAIT_S = 0.01
_PARTITION_COUNT_KEPT_S = 60.0
_BY_KEY = -1

_REFUSED = {
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.INVALID_MSG,
    KafkaError.INVALID_RECORD,
    KafkaError.INVALID_TIMESTAMP,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.POLICY_VIOLATION,
    KafkaError.UNSUPPORTED_COMPRESSION_TYPE,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._INVALID_ARG,
}
"""Answers that will be the same however often a record is sent."""


class Sender:
    """Sends batches with one producer. `failures` collects what its delivery reports say.

    Args:
        producer: the client.
        timeout_s: how long to wait for room in its queue, or for an answer about a topic.
        monotonic: the clock for that and for how long partition counts are kept, in seconds.
    """

    def __init__(
        self, producer: Producer, *, timeout_s: float, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.producer = producer
        self.failures: list[tuple[KafkaError, str | None, int | None]] = []
        self._timeout_s = timeout_s
        self._monotonic = monotonic
        self._counts: dict[str, tuple[float, int]] = {}

    def partition_count(self, topic: str) -> int:
        """How many partitions a topic has, at most a minute old.

        Raises:
            UnknownTopicError: there is no such topic.
            LogError: no answer.
        """
        now = self._monotonic()
        kept = self._counts.get(topic)
        if kept is not None and now - kept[0] < _PARTITION_COUNT_KEPT_S:
            return kept[1]
        try:
            metadata = self.producer.list_topics(topic, timeout=self._timeout_s).topics[topic]
        except KafkaException as error:
            raise log_error(kafka_error(error), "looking for an output topic", topic=topic) from error
        if metadata.error is not None:
            raise log_error(metadata.error, "looking for an output topic", topic=topic)
        self._counts[topic] = (now, len(metadata.partitions))
        return len(metadata.partitions)

    def send(self, batch: OutgoingBatch) -> None:
        """Put records into the producer's queue. Nothing is said yet about whether they arrive.

        Raises:
            ProductionError: a record cannot be written.
            UnknownTopicError: there is no such topic.
            LogError: `BROKER_UNAVAILABLE` if the queue stays full.
            KafkaException: the producer cannot go on (fenced, transaction to be aborted).
        """
        count = self.partition_count(batch.topic)
        loaded = batch.load()
        for start in range(0, len(loaded), _CHUNK):
            self._send_chunk(loaded, slice(start, start + _CHUNK), count)

    def _send_chunk(self, batch: OutputBatch, part: slice, count: int) -> None:
        values, keys = batch.values[part], batch.keys[part]
        columns: list[Iterable[object]] = [
            keys,
            _partitions(batch, part, keys, count),
            repeat(self._report),
            repeat(None),
            _timestamps(batch.timestamps_ms[part]),
        ]
        if batch.headers is not None:
            columns.append([list(headers) or None for headers in batch.headers[part]])
        deadline = self._monotonic() + self._timeout_s
        done = 0
        while True:
            # The loop itself runs in C: a third less than a Python loop. How far the iterator over the values
            # has come tells which record found the queue full.
            remaining = iter(values[done:] if done else values)
            rest = [column[done:] if done and isinstance(column, list) else column for column in columns]
            try:
                deque(map(self.producer.produce, repeat(batch.topic), remaining, *rest), maxlen=0)
                moved()
                return
            except BufferError:
                done = len(values) - length_hint(remaining) - 1
                self._make_room(batch.topic, deadline)
            except KafkaException as error:
                index = part.start + len(values) - length_hint(remaining) - 1
                self._raise_refused(error, batch, index)
                raise

    def _make_room(self, topic: str, deadline: float) -> None:
        self.producer.poll(_QUEUE_FULL_WAIT_S)
        if self._monotonic() > deadline:
            raise LogError(
                "BROKER_UNAVAILABLE",
                f"the producer's queue stayed full for {self._timeout_s:g} s. Trying again is safe",
                topic=topic,
            )

    def _raise_refused(self, error: KafkaException, batch: OutputBatch, index: int) -> None:
        reason = kafka_error(error)
        if reason.code() in _REFUSED:
            number = None if batch.partitions is None else int(batch.partitions[index])
            raise refused(reason, batch.topic, number, record=index) from error

    def _report(self, error: KafkaError | None, message: Message) -> None:
        """Called by the client for records that were not written (successes are filtered before)."""
        if error is not None and len(self.failures) < 100:
            self.failures.append((error, message.topic(), message.partition()))

    def raise_refused(self) -> None:
        """Raise ProductionError if one of the records that failed so far was refused permanently."""
        for error, topic, partition in self.failures:
            if error.code() in _REFUSED:
                raise refused(error, topic, partition)

    def raise_failures(self) -> None:
        """Raise ProductionError or LogError if any record failed."""
        self.raise_refused()
        for error, topic, partition in self.failures:
            raise log_error(error, "writing a record", topic=topic, partition=partition)


def refused(error: KafkaError, topic: str | None, partition: int | None, record: int | None = None) -> HayaseError:
    """The error for a record that Kafka will never take."""
    return ProductionError(
        "RECORD_REFUSED",
        f"Kafka does not take a record: {error.str()} ({error.name()}). Check its size against the topic's "
        "max.message.bytes and the producer's message.max.bytes, its partition, its key (a compacted topic needs "
        "one), and the right to write",
        topic=topic,
        partition=partition,
        record=record,
    )


def _partitions(batch: OutputBatch, part: slice, keys: list[bytes | None], count: int) -> Iterable[int]:
    """Where each record goes; -1 leaves it to the client's murmur2, which is cheaper than doing it here."""
    if batch.partitions is not None:
        chosen: list[int] = batch.partitions[part].tolist()
        return chosen
    if None not in keys:
        return repeat(_BY_KEY)
    return [_BY_KEY if key is not None else index % count for index, key in enumerate(keys, batch.first + part.start)]


def _timestamps(timestamps_ms: list[int]) -> list[int]:
    """The client takes 0 for "now": a record of the first millisecond of 1970 is written as of the second."""
    return timestamps_ms if min(timestamps_ms) > 0 else [time_ms or 1 for time_ms in timestamps_ms]
