"""The loop of a sink task: read ranges, convert, transform, write; each record once where the target can."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hayase.connect.contracts import (
    ErrantRecordReporter,
    Props,
    SinkPartition,
    SinkRange,
    SinkTask,
)
from hayase.connect.conversion import SinkConversion
from hayase.connect.exceptions import TARGET_REFUSES, ConnectError, RetriableError
from hayase.connect.sink_reader import Reporter, SinkMetrics, SinkReader
from hayase.core.records import TopicPartition

_LOG = logging.getLogger(__name__)
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 10.0


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
        conversion: SinkConversion,
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
        """The result of `write`, which is called until it raises no `RetriableError`, with growing pauses."""
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
        refused alone goes to the error policy, and its offset is passed. A target that refuses all records
        (`TARGET_REFUSES`) fails the task whatever is tolerated.
        """
        try:
            return self.with_retries(lambda: write(ranges))
        except ConnectError as error:
            count = sum(len(each.records) for each in ranges)
            if not self._conversion.policy.tolerates or count == 0 or error.condition == TARGET_REFUSES:
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
