"""The loop of sinks that write numbered ranges: each range is recorded before it is written, and is the same again.

The records are in the compacted topic `<group.id>-ranges`, published with the marker of the task's generation, so that
a task that was replaced records nothing more. A range whose successor is recorded is complete in the target.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

import msgspec

from hayase.connect.contracts import Props, RangeNumber, RepeatableSinkTask, SinkPartition, SinkRange
from hayase.connect.conversion import SinkConversion
from hayase.connect.exceptions import ConnectError
from hayase.connect.group_offsets import GroupOffsets
from hayase.connect.offsets import read_whole_topic
from hayase.connect.publisher import TaskPublisher
from hayase.connect.sink_loop import SinkContext, SinkTaskLoop
from hayase.connect.sink_reader import Reporter, SinkMetrics, SinkReader, start_positions
from hayase.core.decoding import decode_json
from hayase.core.offset_reset import AutoOffsetReset
from hayase.core.time import Clock
from hayase.log.protocol import Log, OutputBatch


class RangeRecord(msgspec.Struct, frozen=True):
    """The last range of a partition that was begun.

    Attributes:
        number: of the range.
        start: its first offset.
        end: the offset behind it.
        digest: of the configuration that it is written with.
        target: what the task says that it writes to; empty: it does not say.
    """

    number: int
    start: int
    end: int
    digest: str
    target: str = ""


def ranges_topic(group: str) -> str:
    """The topic of a worker's range records."""
    return f"{group}-ranges"


def config_digest(props: Props) -> str:
    """What a range record says of the configuration."""
    return hashlib.sha256(msgspec.json.encode(sorted(props.items()))).hexdigest()[:32]


def _key(connector: str, partition: SinkPartition) -> bytes:
    return msgspec.json.encode([connector, *partition])


def load_ranges(log: Log, group: str, connector: str) -> dict[SinkPartition, RangeRecord]:
    """The last range of each partition; to be called when the tasks of earlier generations are fenced."""
    found: dict[SinkPartition, RangeRecord] = {}
    for key, value, _ in read_whole_topic(log, ranges_topic(group)):
        name, topic, topic_id, partition = decode_json(key or b"", as_type=tuple[str, str, str, int])
        if name == connector:
            where = SinkPartition(topic, topic_id, partition)
            if value is None:
                found.pop(where, None)
            else:
                found[where] = decode_json(value, as_type=RangeRecord)
    return found


def range_batch(group: str, connector: str, records: Mapping[SinkPartition, RangeRecord], now_ms: int) -> OutputBatch:
    """Range records, to be published with the fence of a generation."""
    return OutputBatch(
        ranges_topic(group),
        [_key(connector, partition) for partition in records],
        [msgspec.json.encode(record) for record in records.values()],
        [now_ms] * len(records),
    )


class RepeatableSinkLoop(SinkTaskLoop):
    """Drives a `RepeatableSinkTask`.

    Args:
        task: started.
        context: of the task.
        log: of the topics.
        partitions: what the task has.
        conversion: converters, transforms, error policy.
        recorded: ranges of the partitions, loaded after earlier generations were fenced.
        publisher: records ranges in `ranges_topic`.
        reset: where a partition begins of which nothing is known.
        group_offsets: shows the positions.
        sleep: waits that many seconds; raises to give up.
        range_records: how many offsets a step covers at most.
        range_interval_ms: how long records wait for further ones before a range is made.
        clock: for that.
    """

    def __init__(
        self,
        task: RepeatableSinkTask,
        context: SinkContext,
        log: Log,
        partitions: Sequence[SinkPartition],
        conversion: SinkConversion,
        *,
        recorded: Mapping[SinkPartition, RangeRecord],
        publisher: TaskPublisher,
        reset: AutoOffsetReset,
        group_offsets: GroupOffsets,
        sleep: Callable[[float], None],
        range_records: int,
        range_interval_ms: int,
        clock: Clock,
    ) -> None:
        metrics = SinkMetrics()
        reporter = Reporter(conversion)
        reader = SinkReader(log, partitions, conversion, reporter, metrics, range_records)
        super().__init__(task, context, reader, reporter, conversion, metrics, sleep=sleep)
        self._target = task
        self._log = log
        self._partitions = partitions
        self._recorded = {each: record for each, record in recorded.items() if each in set(partitions)}
        self._publisher = publisher
        self._reset = reset
        self._group_offsets = group_offsets
        self._digest = config_digest(context.configs)
        self._range_records = range_records
        self._range_interval_ms = range_interval_ms
        self._clock = clock
        self._waiting_since_ms: int | None = None

    def begin(self) -> None:
        """See `SinkTaskLoop.begin`; writes the ranges again that may be incomplete.

        Raises:
            ConnectError: `RANGE_OF_OTHER_CONFIGURATION`: such a range was begun with another configuration, and whether
                it has the same target is not known.
        """
        shown = self._group_offsets.load(self._partitions)
        ends = {each: record.end for each, record in self._recorded.items()}
        complete = {each for each, record in self._recorded.items() if shown.get(each, -1) >= record.end}
        self.positions = start_positions(self._log, self._partitions, {**shown, **ends}, self._reset)
        again = {each: record for each, record in self._recorded.items() if each not in complete}
        for partition, record in again.items():
            if record.digest != self._digest and (not record.target or record.target != self._target.target()):
                raise self._other_configuration(partition, record)
        ranges = [
            RangeNumber(record.number, self._reader.read_range(partition, record.start, record.end))
            for partition, record in again.items()
        ]
        if ranges:
            self._write(ranges)

    def _other_configuration(self, partition: SinkPartition, record: RangeRecord) -> ConnectError:
        return ConnectError(
            "RANGE_OF_OTHER_CONFIGURATION",
            f"range {record.number} (offsets {record.start} to {record.end}) was begun with another configuration "
            f"for {record.target or 'a target of which nothing is known'}, and whether it is complete there is not "
            "known. Put the old configuration back until the connector runs; or stop the connector and set its offset, "
            "with `hayase connectors offsets NAME --set FILE` or PATCH "
            f'/connectors/NAME/offsets: {{"offsets": [{{"partition": {{"kafka_topic": "{partition.topic}", '
            f'"kafka_partition": {partition.partition}}}, "offset": {{"kafka_offset": {record.start}}}}}]}}. '
            f"{record.start} writes the range again, which repeats what is there of it; {record.end} leaves it out",
            topic=partition.topic,
            partition=partition.partition,
        )

    def step(self) -> bool:
        """See `SinkTaskLoop.step`; waits until a range is large enough, or its first record old enough."""
        waiting = self._reader.waiting(self.positions)
        if not waiting:
            self._waiting_since_ms = None
            self._group_offsets.show(self.positions)
            return False
        now_ms = self._clock.now_ms()
        if self._waiting_since_ms is None:
            self._waiting_since_ms = now_ms
        if (
            not self.hurry
            and waiting < self._range_records
            and now_ms - self._waiting_since_ms < self._range_interval_ms
        ):
            return False
        self._waiting_since_ms = None
        return super().step()

    def write(self, ranges: Sequence[SinkRange]) -> None:
        """See `SinkTaskLoop.write`: record, then write."""
        numbered = [
            RangeNumber(self._recorded[each.partition].number + 1 if each.partition in self._recorded else 0, each)
            for each in ranges
        ]
        records = {
            each.range.partition: RangeRecord(
                each.number, each.range.start, each.range.end, self._digest, self._target.target()
            )
            for each in numbered
        }
        self._publisher.publish(
            [],
            {
                _key(self._context.connector, partition): msgspec.to_builtins(record)
                for partition, record in records.items()
            },
        )
        self._recorded |= records
        self._write(numbered)
        self._group_offsets.show(self.positions)

    def _write(self, ranges: Sequence[RangeNumber]) -> None:
        def write() -> bool:
            self._target.write(ranges)
            return True

        self.with_retries(write)
        self.positions |= {each.range.partition: each.range.end for each in ranges}

    def drain(self) -> None:
        """See `SinkTaskLoop.drain`: what is committed for the group is complete."""
        self._group_offsets.commit(self.positions)

    def close(self) -> None:
        """See `SinkTaskLoop.close`."""
        super().close()
        self._publisher.close()
