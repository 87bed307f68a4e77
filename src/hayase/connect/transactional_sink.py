"""The loop of sinks that keep next offsets in their target: each record exactly once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hayase.connect.contracts import SinkPartition, SinkRange, TransactionalSinkTask
from hayase.connect.conversion import SinkConversion
from hayase.connect.generations import SupersededError, bundle_name
from hayase.connect.group_offsets import GroupOffsets
from hayase.connect.sink_loop import SinkContext, SinkTaskLoop
from hayase.connect.sink_reader import RANGE_RECORDS, Reporter, SinkMetrics, SinkReader, start_positions
from hayase.core.failpoints import reach
from hayase.core.offset_reset import AutoOffsetReset
from hayase.log.protocol import Log


class TransactionalSinkLoop(SinkTaskLoop):
    """Drives a `TransactionalSinkTask`. The target's offsets are the truth; the consumer group only shows them.

    Args:
        task: started.
        context: of the task.
        log: of the topics.
        partitions: what the task has.
        conversion: converters, transforms, error policy.
        reset: where a partition begins that neither the target nor the consumer group knows.
        group_offsets: shows the positions.
        sleep: waits that many seconds; raises to give up.
        range_records: how many offsets a write covers at most.
    """

    def __init__(
        self,
        task: TransactionalSinkTask,
        context: SinkContext,
        log: Log,
        partitions: Sequence[SinkPartition],
        conversion: SinkConversion,
        *,
        reset: AutoOffsetReset,
        group_offsets: GroupOffsets,
        sleep: Callable[[float], None],
        range_records: int = RANGE_RECORDS,
    ) -> None:
        metrics = SinkMetrics()
        reporter = Reporter(conversion)
        prepare = task.prepare if task.takes_columns else None
        reader = SinkReader(log, partitions, conversion, reporter, metrics, range_records, prepare)
        super().__init__(task, context, reader, reporter, conversion, metrics, sleep=sleep)
        self._target = task
        self._bundle = bundle_name(context.connector, context.task)
        self._log = log
        self._partitions = partitions
        self._reset = reset
        self._group_offsets = group_offsets

    def begin(self) -> None:
        """See `SinkTaskLoop.begin`."""
        known = dict(self._target.next_offsets(self._partitions))
        reach("after_sink_claim", bundle=self._bundle)
        shown = self._group_offsets.load(self._partitions)
        self.positions = start_positions(self._log, self._partitions, {**shown, **known}, self._reset)

    def step(self) -> bool:
        """See `SinkTaskLoop.step`; shows positions also where nothing follows."""
        anything = super().step()
        if not anything:
            self._group_offsets.show(self.positions)
        return anything

    def write(self, ranges: Sequence[SinkRange]) -> None:
        """See `SinkTaskLoop.write`."""
        if not self.bisected(ranges, self._write):
            raise SupersededError(
                "SUPERSEDED",
                "the next offsets in the target were moved by another task: nothing was written. If the "
                "connector was not restarted, look for a second connector of this name on the same target",
                connector=self._context.connector,
                task=self._context.task,
            )
        self._group_offsets.show(self.positions)

    def _write(self, ranges: Sequence[SinkRange]) -> bool:
        reach("before_sink_write", bundle=self._bundle)
        written = self._target.write(ranges)
        reach("after_sink_write", bundle=self._bundle)
        if written:
            self.positions |= {each.partition: each.end for each in ranges}
        return written

    def drain(self) -> None:
        """See `SinkTaskLoop.drain`."""
        self._group_offsets.commit(self.positions)
