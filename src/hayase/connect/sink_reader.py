"""Reads the ranges that a sink task is to write."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

import numpy as np

from hayase.connect.columns import LazyRecords, RecordColumns
from hayase.connect.contracts import SinkPartition, SinkRange
from hayase.connect.conversion import SinkConversion
from hayase.connect.errors import RawRecord, Stage
from hayase.connect.model import SinkRecord
from hayase.core.errors import UnknownTopicError
from hayase.core.offset_reset import AutoOffsetReset
from hayase.core.records import TopicPartition
from hayase.log.protocol import Log, LogReader, RecordBatch

_CHECK_S = 1.0
"""How often an idle task looks whether its topics are still the same."""
RANGE_RECORDS = 20_000
"""How many offsets one write covers at most, over all partitions."""


@dataclass(slots=True)
class SinkMetrics:
    """Counters of a task, under Kafka Connect's names."""

    read: int = 0
    sent: int = 0
    filtered: int = 0
    batches: int = 0
    retries: int = 0
    lag: dict[TopicPartition, int] = field(default_factory=dict)
    """Of each partition how many offsets were not written yet at the last read, what was read ahead among them."""

    def by_name(self) -> dict[str, float]:
        """Values by the name of the metric."""
        return {
            "sink-record-read-total": self.read,
            "sink-record-send-total": self.sent,
            "sink-record-active-count": self.read - self.sent - self.filtered,
            "sink-record-lag-max": max(self.lag.values(), default=0),
            "put-batch-total": self.batches,
            "put-batch-retries-total": self.retries,
            "partition-count": len(self.lag),
        }


class Reporter:
    """An `ErrantRecordReporter`: finds the bytes of a record in the ranges that are being written."""

    def __init__(self, conversion: SinkConversion) -> None:
        self._conversion = conversion
        self.batches: list[RecordBatch] = []

    def report(self, record: SinkRecord, error: Exception) -> None:
        """See `ErrantRecordReporter.report`."""
        self._conversion.policy.fail(Stage.TASK_PUT, error, self.raw_of(record) or record)

    def raw_of(self, record: SinkRecord) -> RawRecord | None:
        """The record as it is in its topic."""
        topic = record.topic if record.original_topic is None else record.original_topic
        partition = record.original_kafka_partition
        partition = record.kafka_partition if partition is None else partition
        offset = record.kafka_offset if record.original_kafka_offset is None else record.original_kafka_offset
        for batch in self.batches:
            if batch.topic == topic and batch.partition == partition:
                row = int(np.searchsorted(batch.offsets, offset))
                if row < len(batch) and batch.offsets[row] == offset:
                    return RawRecord.of(batch, row)
        return None


@dataclass(frozen=True, slots=True)
class _Fetched:
    """A range as it is in its topic.

    Attributes:
        partition: whose.
        start: its first offset.
        end: the offset behind it.
        batches: its records.
        columns: these by column, where they are wanted and there are any.
        prepared: what the task has made of these.
        more: whether further records were there behind it.
    """

    partition: SinkPartition
    start: int
    end: int
    batches: list[RecordBatch]
    columns: RecordColumns | None
    prepared: object
    more: bool


@dataclass(frozen=True, slots=True)
class _Look:
    """What one look at the topics has found.

    Attributes:
        ends: of all partitions.
        ranges: of those that have records behind their position.
    """

    ends: Mapping[TopicPartition, int]
    ranges: list[_Fetched]


@dataclass(frozen=True, slots=True)
class _Ahead:
    """What is read before it is asked for: from these positions, except of paused partitions."""

    positions: Mapping[SinkPartition, int]
    paused: frozenset[TopicPartition]
    look: Future[_Look]


class SinkReader:
    """Reads the ranges that a sink task is to write, converted.

    Args:
        log: from where.
        partitions: what the task has, with the ids of topics.
        conversion: converters and transforms.
        reporter: keeps the bytes of what is being written.
        metrics: counts.
        range_records: how many offsets a call covers at most.
        prepare: of a task that takes columns: `TransactionalSinkTask.prepare`; `None`: ranges have no columns.
    """

    def __init__(
        self,
        log: Log,
        partitions: Sequence[SinkPartition],
        conversion: SinkConversion,
        reporter: Reporter,
        metrics: SinkMetrics,
        range_records: int = RANGE_RECORDS,
        prepare: Callable[[RecordColumns], object] | None = None,
    ) -> None:
        self._log = log
        self._partitions = sorted(partitions)
        self._conversion = conversion
        self.reporter = reporter
        self._metrics = metrics
        self._range_records = range_records
        self._prepare = prepare
        self._reader: LogReader = log.reader()
        self._timestamp_types: dict[str, str] = {}
        self._check_at_s = 0.0
        self._converting = threading.Lock()
        self._thread: ThreadPoolExecutor | None = None
        self._ahead: _Ahead | None = None

    def read(self, positions: Mapping[SinkPartition, int], paused: Iterable[TopicPartition] = ()) -> list[SinkRange]:
        """The next range of each partition that has one, sorted by partition; those before are not looked at any more.

        While the task writes what this gives, another thread reads the next ranges, if more is there, converts them to
        columns, and has these prepared. Converters are not made for several threads: one converts at a time. The
        calling thread alone converts record by record, where errors count, and sets metrics.

        Raises:
            SourceRangeLostError: records were deleted before they were read: they expired, or the topic was truncated.
            UnknownTopicError: a topic was deleted or recreated.
        """
        without = frozenset(paused)
        look = self._taken_ahead(positions, without) or self._fetch(positions, without)
        fetched = look.ranges
        for partition in self._partitions:
            where = TopicPartition(partition.topic, partition.partition)
            self._metrics.lag[where] = max(0, look.ends[where] - positions[partition])
        self.reporter.batches = [batch for each in fetched for batch in each.batches]
        self._metrics.read += sum(map(len, self.reporter.batches))
        ranges = [self._range(each) for each in fetched]
        if any(each.more for each in fetched):
            behind = {**positions, **{each.partition: each.end for each in fetched}}
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix="hayase-read-ahead")
            self._ahead = _Ahead(behind, without, self._thread.submit(self._fetch, behind, without))
        return ranges

    def _taken_ahead(self, positions: Mapping[SinkPartition, int], paused: frozenset[TopicPartition]) -> _Look | None:
        """What was read ahead, if it is what is wanted now; waits until the thread has ended."""
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            return None
        wait([ahead.look])
        if (ahead.positions, ahead.paused) != (positions, paused):
            return None
        look = ahead.look.result()
        return look if look.ranges else None

    def _fetch(self, positions: Mapping[SinkPartition, int], paused: frozenset[TopicPartition]) -> _Look:
        ends = self._log.end_offsets([TopicPartition(each.topic, each.partition) for each in self._partitions])
        shrunk = any(ends[TopicPartition(each.topic, each.partition)] < positions[each] for each in self._partitions)
        if shrunk or time.monotonic() >= self._check_at_s:
            self._check_topics()
            self._check_at_s = time.monotonic() + _CHECK_S
        waiting = {
            partition: (positions[partition], ends[TopicPartition(partition.topic, partition.partition)])
            for partition in self._partitions
            if TopicPartition(partition.topic, partition.partition) not in paused
        }
        ready = {partition: each for partition, each in waiting.items() if each[1] > each[0]}
        share = max(1, self._range_records // max(1, len(ready)))
        fetched = [
            self._fetch_range(partition, start, min(end, start + share), more=end > start + share)
            for partition, (start, end) in ready.items()
        ]
        if fetched:
            self._check_topics()  # behind the reading: what was read is of the topic that is meant
        return _Look(ends, fetched)

    def _fetch_range(self, partition: SinkPartition, start: int, end: int, *, more: bool = False) -> _Fetched:
        batches = list(self._reader.fetch(TopicPartition(partition.topic, partition.partition), start, end))
        columns = self._columns_of(partition, batches)
        prepared = None if columns is None or self._prepare is None else self._prepare(columns)
        return _Fetched(partition, start, end, batches, columns, prepared, more)

    def waiting(self, positions: Mapping[SinkPartition, int]) -> int:
        """How many offsets are behind the positions."""
        ends = self._log.end_offsets([TopicPartition(each.topic, each.partition) for each in self._partitions])
        return sum(
            max(0, ends[TopicPartition(each.topic, each.partition)] - positions[each]) for each in self._partitions
        )

    def _check_topics(self) -> None:
        infos = self._log.describe(sorted({each.topic for each in self._partitions}))
        for partition in self._partitions:
            info = infos.get(partition.topic)
            if info is None or info.topic_id != partition.topic_id:
                raise UnknownTopicError(
                    "TOPIC_RECREATED" if info is not None else "UNKNOWN_TOPIC",
                    f"the topic {partition.topic!r} was deleted"
                    + (" and made again; restart the connector to read the new one" if info is not None else ""),
                    topic=partition.topic,
                )
            self._timestamp_types[partition.topic] = info.config.get("message.timestamp.type", "CreateTime")

    def read_range(self, partition: SinkPartition, start: int, end: int) -> SinkRange:
        """One range, converted."""
        fetched = self._fetch_range(partition, start, end)
        self.reporter.batches.extend(fetched.batches)
        self._metrics.read += sum(map(len, fetched.batches))
        return self._range(fetched)

    def _range(self, fetched: _Fetched) -> SinkRange:
        columns = fetched.columns
        if columns is None:
            records: Sequence[SinkRecord] = tuple(self._converted(fetched.batches))
        else:
            records = LazyRecords(len(columns.offsets), lambda: self._converted(fetched.batches))
        return SinkRange(fetched.partition, fetched.start, fetched.end, records, columns, fetched.prepared)

    def _columns_of(self, where: SinkPartition, batches: Sequence[RecordBatch]) -> RecordColumns | None:
        if self._prepare is None or not batches:
            return None
        with self._converting:
            return self._conversion.columns_of(RecordBatch.of(where.topic, where.partition, batches))

    def _converted(self, batches: Sequence[RecordBatch]) -> list[SinkRecord]:
        records: list[SinkRecord] = []
        for batch in batches:
            with self._converting:
                converted = self._conversion.from_batch(batch, self._timestamp_types.get(batch.topic, "CreateTime"))
            self._metrics.filtered += len(batch) - len(converted)
            records.extend(converted)
        return records

    def close(self) -> None:
        """Let go of connections; waits for what is read ahead."""
        if self._thread is not None:
            self._thread.shutdown(wait=True, cancel_futures=True)
        self._reader.close()


def start_positions(
    log: Log, partitions: Sequence[SinkPartition], known: Mapping[SinkPartition, int], reset: AutoOffsetReset
) -> dict[SinkPartition, int]:
    """Where a task begins: what is known of each partition, else the start or the end of it.

    Args:
        log: of the topics.
        partitions: of the task.
        known: next offsets, of the target or the consumer group.
        reset: where a partition begins of which nothing is known.
    """
    new = [TopicPartition(each.topic, each.partition) for each in partitions if each not in known]
    offsets = {} if not new else log.end_offsets(new) if reset == AutoOffsetReset.latest() else log.start_offsets(new)
    return {
        each: known[each] if each in known else offsets[TopicPartition(each.topic, each.partition)]
        for each in partitions
    }
