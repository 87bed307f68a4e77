"""The loop of a sink task: read ranges, convert, transform, write; each record once where the target can."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hayase.connect.contracts import (
    ErrantRecordReporter,
    Props,
    SinkPartition,
    SinkRange,
    SinkTask,
)
from hayase.connect.conversion import Conversion
from hayase.connect.errors import RawRecord, Stage
from hayase.connect.exceptions import ConnectError, RetriableError
from hayase.connect.model import SinkRecord
from hayase.core.errors import UnknownTopicError
from hayase.core.offset_reset import AutoOffsetReset
from hayase.core.records import TopicPartition
from hayase.log.protocol import Log, LogReader, RecordBatch

_LOG = logging.getLogger(__name__)
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 10.0
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


@dataclass(slots=True)
class SinkContext:
    """A `SinkTaskContext`."""

    group: str
    connector: str
    task: int
    generation: int
    configs: Props
    partitions: frozenset[TopicPartition]
    errant_record_reporter: ErrantRecordReporter | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    paused: set[TopicPartition] = field(default_factory=set)
    rewound: dict[TopicPartition, int] = field(default_factory=dict)
    retry_ms: int | None = None
    commit_requested: bool = False

    def assignment(self) -> frozenset[TopicPartition]:
        """See `SinkTaskContext.assignment`."""
        return self.partitions

    def pause(self, *partitions: TopicPartition) -> None:
        """See `SinkTaskContext.pause`."""
        self.paused.update(partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """See `SinkTaskContext.resume`."""
        self.paused.difference_update(partitions)

    def offset(self, offsets: Mapping[TopicPartition, int]) -> None:
        """See `SinkTaskContext.offset`."""
        self.rewound.update(offsets)

    def timeout_ms(self, timeout_ms: int) -> None:
        """See `SinkTaskContext.timeout_ms`."""
        self.retry_ms = timeout_ms

    def request_commit(self) -> None:
        """See `SinkTaskContext.request_commit`."""
        self.commit_requested = True


class Reporter:
    """An `ErrantRecordReporter`: finds the bytes of a record in the ranges that are being written."""

    def __init__(self, conversion: Conversion) -> None:
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


class SinkReader:
    """Reads the ranges that a sink task is to write, converted.

    Args:
        log: from where.
        partitions: what the task has, with the ids of topics.
        conversion: converters and transforms.
        reporter: keeps the bytes of what is being written.
        metrics: counts.
        range_records: how many offsets a call covers at most.
    """

    def __init__(
        self,
        log: Log,
        partitions: Sequence[SinkPartition],
        conversion: Conversion,
        reporter: Reporter,
        metrics: SinkMetrics,
        range_records: int = RANGE_RECORDS,
    ) -> None:
        self._log = log
        self._partitions = sorted(partitions)
        self._conversion = conversion
        self.reporter = reporter
        self._metrics = metrics
        self._range_records = range_records
        self._reader: LogReader = log.reader()
        self._timestamp_types: dict[str, str] = {}
        self._check_at_s = 0.0

    def read(self, positions: Mapping[SinkPartition, int], paused: Iterable[TopicPartition] = ()) -> list[SinkRange]:
        """The next range of each partition that has one, sorted by partition.

        Raises:
            SourceRangeLostError: records were deleted before they were read: they expired, or the topic was truncated.
            UnknownTopicError: a topic was deleted or recreated.
        """
        left = set(paused)
        ends = self._log.end_offsets([TopicPartition(each.topic, each.partition) for each in self._partitions])
        shrunk = any(ends[TopicPartition(each.topic, each.partition)] < positions[each] for each in self._partitions)
        if shrunk or time.monotonic() >= self._check_at_s:
            self._check_topics()
            self._check_at_s = time.monotonic() + _CHECK_S
        waiting = {
            partition: (positions[partition], ends[TopicPartition(partition.topic, partition.partition)])
            for partition in self._partitions
            if TopicPartition(partition.topic, partition.partition) not in left
        }
        for partition, (start, end) in waiting.items():
            self._metrics.lag[TopicPartition(partition.topic, partition.partition)] = max(0, end - start)
        ready = {partition: each for partition, each in waiting.items() if each[1] > each[0]}
        self.reporter.batches.clear()
        share = max(1, self._range_records // max(1, len(ready)))
        ranges = [
            self.read_range(partition, start, min(end, start + share)) for partition, (start, end) in ready.items()
        ]
        if ranges:
            self._check_topics()  # behind the reading: what was read is of the topic that is meant
        return ranges

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
        records: list[SinkRecord] = []
        for batch in self._reader.fetch(TopicPartition(partition.topic, partition.partition), start, end):
            self.reporter.batches.append(batch)
            converted = self._conversion.from_batch(batch, self._timestamp_types.get(partition.topic, "CreateTime"))
            self._metrics.read += len(batch)
            self._metrics.filtered += len(batch) - len(converted)
            records.extend(converted)
        return SinkRange(partition, start, end, tuple(records))

    def close(self) -> None:
        """Let go of connections."""
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


class SinkTaskLoop(ABC):
    """What the loops of all kinds of sink tasks share: reading, retries, bisection.

    Args:
        task: started with the context.
        context: of the task.
        reader: gives ranges.
        reporter: takes records that fail.
        conversion: with the error policy.
        metrics: counts.
        sleep: waits that many seconds; raises to give up.
    """

    def __init__(
        self,
        task: SinkTask,
        context: SinkContext,
        reader: SinkReader,
        reporter: Reporter,
        conversion: Conversion,
        metrics: SinkMetrics,
        *,
        sleep: Callable[[float], None],
    ) -> None:
        self.metrics = metrics
        self._task = task
        self._context = context
        self._reader = reader
        self.reporter = reporter
        self._conversion = conversion
        self._sleep = sleep
        self.positions: dict[SinkPartition, int] = {}
        self.hurry = False
        """Whether records are written without waiting for further ones."""
        self.retrying = False

    def step(self) -> bool:
        """Read, and write what was read; whether there was anything.

        Raises:
            SupersededError: another generation has the partitions.
            Exception: what the task raised, or the log; the task has failed.
        """
        self._take_rewound()
        ranges = self._reader.read(self.positions, self._context.paused)
        if ranges:
            self.write(ranges)
            for each in ranges:
                self.metrics.sent += len(each.records)
            self.metrics.batches += 1
        return bool(ranges)

    def _take_rewound(self) -> None:
        for partition in self.positions:
            offset = self._context.rewound.pop(TopicPartition(partition.topic, partition.partition), None)
            if offset is not None:
                self.positions[partition] = offset

    @abstractmethod
    def begin(self) -> None:
        """Find where each partition goes on; called once, before `step`."""

    @abstractmethod
    def write(self, ranges: Sequence[SinkRange]) -> None:
        """Write ranges and set `positions` behind them."""

    @abstractmethod
    def drain(self) -> None:
        """Finish what was begun, before a stop."""

    def with_retries(self, write: Callable[[], bool]) -> bool:
        """Call until it raises no `RetriableError`, with growing pauses."""
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                return write()
            except RetriableError as error:
                self.metrics.retries += 1
                _LOG.warning(
                    "task %s-%d: a write is tried again: %s", self._context.connector, self._context.task, error
                )
                asked_ms, self._context.retry_ms = self._context.retry_ms, None
                self._sleep(pause_s if asked_ms is None else asked_ms / 1000)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def bisected(self, ranges: Sequence[SinkRange], write: Callable[[Sequence[SinkRange]], bool]) -> bool:
        """Write ranges; if the target refuses them and errors are tolerated, find the records that are to blame.

        Each part is written and its offsets are set before the next, so nothing is written twice. A record that is
        refused alone goes to the error policy, and its offset is passed.
        """
        try:
            return self.with_retries(lambda: write(ranges))
        except ConnectError as error:
            count = sum(len(each.records) for each in ranges)
            if not self._conversion.policy.tolerates or count == 0:
                raise
            if count == 1:
                record = next(each for part in ranges for each in part.records)
                self.reporter.report(record, error)
                self.metrics.filtered += 1
                self.metrics.sent -= 1
                empty = [SinkRange(each.partition, each.start, each.end, ()) for each in ranges]
                return self.with_retries(lambda: write(empty))
            first, second = halves(ranges)
            return self.bisected(first, write) and self.bisected(second, write)

    def waiting(self) -> int:
        """How many offsets are behind the positions."""
        return self._reader.waiting(self.positions)

    def close(self) -> None:
        """Let go of everything but the task itself."""
        self._reader.close()
        self._conversion.close()


def halves(ranges: Sequence[SinkRange]) -> tuple[list[SinkRange], list[SinkRange]]:
    """Ranges cut in two with about the same number of records, each with at least one.

    Example:
        >>> from hayase.connect.model import SinkRecord
        >>> records = tuple(SinkRecord(topic="t", kafka_partition=0, kafka_offset=offset) for offset in (3, 5, 9))
        >>> first, second = halves([SinkRange(SinkPartition("t", "id", 0), 3, 10, records)])
        >>> [(each.start, each.end, len(each.records)) for each in first + second]
        [(3, 5, 1), (5, 10, 2)]
    """
    left = sum(len(each.records) for each in ranges) // 2
    first: list[SinkRange] = []
    for index, each in enumerate(ranges):
        if len(each.records) <= left:
            first.append(each)
            left -= len(each.records)
            continue
        if left == 0:
            return first, list(ranges[index:])
        head, tail = each.records[:left], each.records[left:]
        cut = tail[0].kafka_offset if tail[0].original_kafka_offset is None else tail[0].original_kafka_offset
        first.append(SinkRange(each.partition, each.start, cut, head))
        return first, [SinkRange(each.partition, cut, each.end, tail), *ranges[index + 1 :]]
    return first, []
