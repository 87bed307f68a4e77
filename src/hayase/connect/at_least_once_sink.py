"""The loop of sinks that may write a record again after a failure: Kafka Connect's `SinkTask`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hayase.connect.contracts import SinkPartition, SinkRange, SinkTask
from hayase.connect.conversion import SinkConversion
from hayase.connect.group_offsets import GroupOffsets
from hayase.connect.sink_loop import SinkContext, SinkTaskLoop
from hayase.connect.sink_reader import Reporter, SinkMetrics, SinkReader, start_positions
from hayase.core.offset_reset import AutoOffsetReset
from hayase.core.records import TopicPartition
from hayase.log.protocol import Log

_RANGE_RECORDS = 2_000


class AtLeastOnceSinkLoop(SinkTaskLoop):
    """Drives a `SinkTask`: its offsets are those of the consumer group.

    Args:
        task: started.
        context: of the task.
        log: of the topics.
        partitions: what the task has.
        conversion: converters, transforms, error policy.
        reset: where a partition begins that the consumer group does not know.
        group_offsets: reads and commits positions.
        sleep: waits that many seconds; raises to give up.
        range_records: how many records a `put` gets at most (`max.poll.records`).
    """

    def __init__(
        self,
        task: SinkTask,
        context: SinkContext,
        log: Log,
        partitions: Sequence[SinkPartition],
        conversion: SinkConversion,
        *,
        reset: AutoOffsetReset,
        group_offsets: GroupOffsets,
        sleep: Callable[[float], None],
        range_records: int = _RANGE_RECORDS,
    ) -> None:
        metrics = SinkMetrics()
        reporter = Reporter(conversion)
        reader = SinkReader(log, partitions, conversion, reporter, metrics, range_records)
        super().__init__(task, context, reader, reporter, conversion, metrics, sleep=sleep)
        self._log = log
        self._partitions = partitions
        self._reset = reset
        self._group_offsets = group_offsets

    def begin(self) -> None:
        """See `SinkTaskLoop.begin`."""
        known = self._group_offsets.load(self._partitions)
        self.positions = start_positions(self._log, self._partitions, known, self._reset)
        self._task.open([TopicPartition(each.topic, each.partition) for each in self._partitions])

    def step(self) -> bool:
        """See `SinkTaskLoop.step`; commits offsets when it is time."""
        anything = super().step()
        if self._group_offsets.due() or self._context.commit_requested:
            self._context.commit_requested = False
            self._commit()
        return anything

    def write(self, ranges: Sequence[SinkRange]) -> None:
        """See `SinkTaskLoop.write`."""
        self.bisected(ranges, self._put)

    def _put(self, ranges: Sequence[SinkRange]) -> bool:
        self._task.put([record for each in ranges for record in each.records])
        self.positions |= {each.partition: each.end for each in ranges}
        return True

    def _commit(self) -> None:
        by_name = {TopicPartition(each.topic, each.partition): each for each in self.positions}
        offsets = {where: self.positions[each] for where, each in by_name.items()}
        written = self._task.pre_commit(offsets)
        self._group_offsets.commit_or_fail({by_name[where]: offset for where, offset in written.items()})

    def drain(self) -> None:
        """See `SinkTaskLoop.drain`."""
        self._commit()
        self._task.close([TopicPartition(each.topic, each.partition) for each in self._partitions])
