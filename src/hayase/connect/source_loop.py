"""The loop of a source task: poll, transform, convert, publish with offsets, acknowledge."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum

from hayase.connect.contracts import SourceTask, source_partition_key
from hayase.connect.conversion import Conversion, SerializedRecord
from hayase.connect.errors import Stage
from hayase.connect.exceptions import ConnectError, RetriableError
from hayase.connect.model import (
    RecordMetadata,
    SerializedRecords,
    SourceOffset,
    SourcePartition,
    SourceRecord,
)
from hayase.connect.offsets import ConnectorOffsets, offset_key
from hayase.connect.publisher import TaskPublisher
from hayase.connect.source_buffer import SourceBuffer
from hayase.connect.source_context import TaskContext, TaskTransactionContext
from hayase.connect.source_topics import SourceTopics
from hayase.core.errors import UnknownTopicError
from hayase.core.time import Clock

_LOG = logging.getLogger(__name__)
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 10.0
_OVERHEAD = 100
"""What a record costs in its topic beside key and value, about."""
BUFFER_BYTES = 32 << 20
"""How much a task holds in memory between poll and commit."""


class TransactionBoundary(StrEnum):
    """Where transactions may end (`transaction.boundary`)."""

    POLL = "poll"
    INTERVAL = "interval"
    CONNECTOR = "connector"


@dataclass(slots=True)
class SourceMetrics:
    """Counters of a task, under Kafka Connect's names."""

    polled: int = 0
    written: int = 0
    filtered: int = 0
    transactions: int = 0
    last_transaction_size: int = 0
    largest_transaction_size: int = 0
    commit_failures: int = 0

    def by_name(self) -> dict[str, float]:
        """Values by the name of the metric."""
        return {
            "source-record-poll-total": self.polled,
            "source-record-write-total": self.written,
            "source-record-active-count": self.polled - self.written - self.filtered,
            "transaction-total": self.transactions,
            "transaction-size": self.last_transaction_size,
            "transaction-size-max": self.largest_transaction_size,
            "commit-failure-total": self.commit_failures,
        }


@dataclass(frozen=True, slots=True)
class _Flight:
    """A transaction that is being published.

    Attributes:
        sealed: its records and offsets.
        polls: how many polls have given them and all before them.
        done: how it ends, in another thread; `None`: it is published by the thread of the task.
    """

    sealed: SourceBuffer
    polls: int
    done: Future[None] | None = None


class SourceTaskLoop:
    """Drives one source task. All its methods are called from one thread.

    A task that polls ahead is polled while another thread publishes what it gave before: one transaction after the
    other, and none after one that failed.

    Args:
        task: started with the context.
        context: of the task.
        conversion: transforms and converters.
        publisher: writes transactions.
        topics: makes topics.
        offsets: as they were when the generation began.
        boundary: where transactions may end.
        interval_ms: of `TransactionBoundary.INTERVAL`.
        clock: for the interval, and the time of records that have none.
        sleep: waits that many seconds; raises to give up.
        buffer_bytes: how much is held in memory.
        topic_seen: called with each topic that the task writes to, the first time.
    """

    def __init__(
        self,
        task: SourceTask,
        context: TaskContext,
        conversion: Conversion,
        publisher: TaskPublisher,
        topics: SourceTopics,
        offsets: ConnectorOffsets,
        *,
        boundary: TransactionBoundary,
        interval_ms: int,
        clock: Clock,
        sleep: Callable[[float], None],
        buffer_bytes: int = BUFFER_BYTES,
        topic_seen: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.task = task
        self.metrics = SourceMetrics()
        self.retrying = False
        self._context = context
        transactions = context.transaction_context
        self._transactions = transactions if isinstance(transactions, TaskTransactionContext) else None
        self._conversion = conversion
        self._publisher = publisher
        self._topics = topics
        self._keys = {where: stored.key for where, stored in offsets.stored.items()}
        self._boundary = boundary
        self._interval_ms = interval_ms
        self._clock = clock
        self._sleep = sleep
        self._buffer_bytes = buffer_bytes
        self._topic_seen = topic_seen
        self._seen: set[str] = set()
        self._open = SourceBuffer()  # of a transaction that has not ended
        self._sealed = SourceBuffer()  # of transactions that have, and can be published
        self._begun_ms: int | None = None
        self._polls = 0
        self._thread: ThreadPoolExecutor | None = None
        self._flight: _Flight | None = None
        self._wants_records = type(task).commit_record is not SourceTask.commit_record
        self._pause_s = _FIRST_PAUSE_S

    def step(self) -> bool:
        """Poll once, and publish what is complete; whether there was anything.

        Raises:
            SupersededError: another generation has begun.
            Exception: what the task raised, or the log; the task has failed.
        """
        polled: Sequence[SourceRecord | SerializedRecords] = ()
        try:
            polled = self.task.poll() or ()
            self._polls += 1
            self._pause_s = _FIRST_PAUSE_S
            self.retrying = False
        except RetriableError as error:
            self.retrying = True
            self._conversion.policy.metrics.retries += 1
            _LOG.warning("task %s-%d: poll is tried again: %s", self._context.connector, self._context.task, error)
            self._sleep(self._pause_s)
            self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        for records in polled:
            if isinstance(records, SourceRecord):
                self._add(records)
            else:
                self._add_serialized(records)
        self._take_waiting_offsets()
        self._end_poll(bool(polled))
        published = self._publish()
        return bool(polled) or published

    def drain(self) -> None:
        """Publish what ended with the last poll, before a stop; an open transaction of the connector is dropped."""
        if self._boundary is TransactionBoundary.INTERVAL:
            self._open.move_to(self._sealed)
        self._publish()
        self.land()

    def _add(self, record: SourceRecord) -> None:
        self.metrics.polled += 1
        converted = self._conversion.to_topic(record)
        if converted is not None and self._too_large(converted, record):
            converted = None
        if converted is None:
            self.metrics.filtered += 1
            if self._wants_records:
                self.task.commit_record(record, None)
        else:
            self._open.add(converted, self._clock.now_ms())
            if self._wants_records:
                self._open.records.append(record)
        self._set_offset(record.source_partition, record.source_offset)
        transactions = self._transactions
        if transactions is not None:
            if transactions.commits_after(record):
                self._open.move_to(self._sealed)
            if transactions.aborts_after(record):
                self._abort()
        if self._open.bytes > self._buffer_bytes // 2:
            self._open.spill()

    def _too_large(self, converted: SerializedRecord, record: SourceRecord) -> bool:
        size = len(converted.key or b"") + len(converted.value or b"") + _OVERHEAD
        limit = self._topics.limit(converted.topic)
        if size <= limit:
            return False
        error = ConnectError(
            "RECORD_TOO_LARGE",
            f"a record of about {size} bytes; max.message.bytes of the topic is {limit}. Raise it, or leave the record "
            "out with errors.tolerance=all",
            topic=converted.topic,
            source_partition=dict(record.source_partition),
            source_offset=dict(record.source_offset),
        )
        self._conversion.policy.fail(Stage.KAFKA_PRODUCE, error, record)
        return True

    def _add_serialized(self, records: SerializedRecords) -> None:
        if self._context.serialized_json is None:
            raise ConnectError(
                "SERIALIZED_RECORDS",
                "the task serializes its records itself, but transforms or converters of the connector need values: "
                "it must look at serialized_json of its context",
                connector=self._context.connector,
                task=self._context.task,
            )
        self.metrics.polled += len(records.values)
        self._open.add_serialized(records)
        if records.source_offset is not None:
            self._set_offset(records.source_partition, records.source_offset)
        if self._open.bytes > self._buffer_bytes // 2:
            self._open.spill()

    def _set_offset(self, partition: SourcePartition, offset: SourceOffset | None) -> None:
        where = source_partition_key(partition)
        key = self._keys.get(where)
        if key is None:
            key = self._keys[where] = offset_key(self._context.connector, partition)
        self._open.offsets[key] = offset

    def _take_waiting_offsets(self) -> None:
        waiting, self._context.waiting_offsets = self._context.waiting_offsets, []
        for partition, offset in waiting:
            self._set_offset(partition, offset)

    def _end_poll(self, anything: bool) -> None:
        transactions = self._transactions
        if transactions is not None:
            if transactions.aborts():
                self._abort()
            if transactions.commits():
                self._open.move_to(self._sealed)
        elif self._boundary is TransactionBoundary.POLL:
            self._open.move_to(self._sealed)
        elif not self._open.empty:
            now_ms = self._clock.now_ms()
            self._begun_ms = now_ms if self._begun_ms is None else self._begun_ms
            if now_ms - self._begun_ms >= self._interval_ms:
                self._begun_ms = None
                self._open.move_to(self._sealed)

    def _abort(self) -> None:
        self.metrics.filtered += self._open.count
        for record in self._open.records:
            self.task.commit_record(record, None)
        offsets = self._open.offsets
        self._open.clear()
        self._open.offsets.update(offsets)  # what was dropped is not polled again

    def _publish(self) -> bool:
        """Publish what is sealed, behind what is being published; whether there was anything."""
        sealed = self._sealed
        if sealed.empty:
            return self.land()
        sealed.close_rows()
        if not sealed.offsets:  # records whose offset comes later are published with it, or polled again
            return False
        self.land()
        self._sealed = SourceBuffer()
        self._make_topics(sealed)
        if self.task.polls_ahead:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix="hayase-publish")
            done = self._thread.submit(self._publisher.publish, sealed.batches, sealed.offsets)
            self._flight = _Flight(sealed, self._polls, done)
        else:
            self._flight = _Flight(sealed, self._polls)
            self.land()
        return True

    def _make_topics(self, sealed: SourceBuffer) -> None:
        self._topics.ensure(sealed.topics())
        for topic in sealed.topics():
            if topic not in self._seen:
                self._seen.add(topic)
                self._topic_seen(topic)

    def land(self) -> bool:
        """Wait until what is being published is durable, and acknowledge it; whether there was anything.

        Raises:
            SupersededError: another generation has begun.
            Exception: what the log raised; the task has failed.
        """
        flight, self._flight = self._flight, None
        if flight is None:
            return False
        sealed = flight.sealed
        try:
            if flight.done is None:
                self._publisher.publish(sealed.batches, sealed.offsets)
            else:
                flight.done.result()
        except UnknownTopicError:  # it was deleted since this task wrote to it
            self._topics.forget()
            self._topics.ensure(sealed.topics())
            self._publisher.publish(sealed.batches, sealed.offsets)
        self._count(sealed)
        records = sealed.records
        sealed.clear()
        self._acknowledge(records, None if flight.done is None else flight.polls)
        return True

    def _count(self, sealed: SourceBuffer) -> None:
        metrics = self.metrics
        metrics.written += sealed.count
        metrics.transactions += 1
        metrics.last_transaction_size = sealed.count
        metrics.largest_transaction_size = max(metrics.largest_transaction_size, sealed.count)

    def _acknowledge(self, records: list[SourceRecord], polls: int | None) -> None:
        try:
            for record in records:
                self.task.commit_record(record, RecordMetadata(record.topic, record.kafka_partition, None))
            if polls is None:
                self.task.commit()
            else:
                self.task.commit_polled(polls)
        except Exception:  # the next transaction acknowledges again
            self.metrics.commit_failures += 1
            _LOG.exception("task %s-%d: commit failed", self._context.connector, self._context.task)

    def close(self) -> None:
        """Let go of everything but the task itself; waits for what is being published."""
        if self._thread is not None:
            self._thread.shutdown(wait=True, cancel_futures=True)
        self._conversion.close()
        self._publisher.close()
        if self._context.topics is not None:
            self._context.topics.close()
