"""Connectors that tests control: a source that gives what it is told, sinks that remember what they got."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from hayase.connect.contracts import (
    ConnectorTransactionBoundaries,
    ExactlyOnceSupport,
    Props,
    RangeNumber,
    RepeatableSinkTask,
    SinkConnector,
    SinkDelivery,
    SinkPartition,
    SinkRange,
    SinkTask,
    SourceConnector,
    SourceTask,
    TransactionalSinkTask,
)
from hayase.connect.exceptions import ConnectError, RetriableError
from hayase.connect.model import Polled, RecordMetadata, SinkRecord, SourceRecord
from hayase.connect.schema import STRING_SCHEMA


class NumberSource(SourceConnector):
    """Gives the numbers from its offset on up to `count`, `batch` a poll, in `parts` partitions of the source."""

    def start(self, props: Props) -> None:
        self.props = dict(props)

    def task_class(self) -> type[SourceTask]:
        return NumberTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        parts = int(self.props.get("parts", "1"))
        tasks = min(max_tasks, parts)
        return [
            {**self.props, "of": ",".join(str(part) for part in range(task, parts, tasks))} for task in range(tasks)
        ]

    def stop(self) -> None:
        pass

    def exactly_once_support(self, props: Props) -> ExactlyOnceSupport | None:
        answers = {"yes": ExactlyOnceSupport.SUPPORTED, "no": ExactlyOnceSupport.UNSUPPORTED}
        return answers.get(props.get("exact", "yes"))

    def can_define_transaction_boundaries(self, props: Props) -> ConnectorTransactionBoundaries:
        return ConnectorTransactionBoundaries.SUPPORTED


class NumberTask(SourceTask):
    committed: ClassVar[list[str]] = []
    fail_polls: ClassVar[int] = 0

    def start(self, props: Props) -> None:
        self.count, self.batch = int(props["count"]), int(props.get("batch", "2"))
        self.parts = props["of"].split(",")
        self.next = {part: self._stored(part) for part in self.parts}

    def _stored(self, part: str) -> int:
        offset = self.context.offset_storage_reader.offset({"part": part})
        number = 0 if offset is None else offset["next"]
        assert isinstance(number, int)
        return number

    def poll(self) -> Polled | None:
        if NumberTask.fail_polls:
            NumberTask.fail_polls -= 1
            raise RetriableError("AWAY", "the source is away")
        return [record for part in self.parts for record in self._numbers(part)]

    def _numbers(self, part: str) -> list[SourceRecord]:
        numbers = range(self.next[part], min(self.count, self.next[part] + self.batch))
        self.next[part] = numbers.stop
        return [
            SourceRecord(
                source_partition={"part": part},
                source_offset={"next": number + 1},
                topic="numbers",
                key_schema=STRING_SCHEMA,
                key=part,
                value_schema=STRING_SCHEMA,
                value=f"{part}-{number}",
                timestamp_ms=number,
            )
            for number in numbers
        ]

    def commit(self) -> None:
        NumberTask.committed.append(",".join(f"{part}:{number}" for part, number in self.next.items()))

    def stop(self) -> None:
        pass


class PairSource(NumberSource):
    """As NumberSource, but it ends transactions itself: behind every odd number."""

    def task_class(self) -> type[SourceTask]:
        return PairTask


class PairTask(NumberTask):
    dropped: ClassVar[list[object]] = []

    def poll(self) -> Polled | None:
        records = list(super().poll() or ())
        transactions = self.context.transaction_context
        assert transactions is not None
        for record in records:
            assert isinstance(record, SourceRecord)
            if str(record.value).endswith("7"):
                transactions.abort_transaction_after(record)
            elif int(str(record.value)[-1]) % 2:
                transactions.commit_transaction_after(record)
        return records

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        if metadata is None:
            PairTask.dropped.append(record.value)


class _Sink(SinkConnector):
    def start(self, props: Props) -> None:
        self.props = dict(props)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.props) for _ in range(max_tasks)]

    def stop(self) -> None:
        pass


class ListSink(_Sink):
    """At least once, into a list."""

    def task_class(self) -> type[SinkTask]:
        return ListTask


class ListTask(SinkTask):
    written: ClassVar[list[object]] = []
    fail_puts: ClassVar[int] = 0

    def start(self, props: Props) -> None:
        self.refused = props.get("refuse", "").split(",")

    def put(self, records: Sequence[SinkRecord]) -> None:
        if ListTask.fail_puts:
            ListTask.fail_puts -= 1
            raise RetriableError("AWAY", "the target is away")
        for record in records:
            if record.value in self.refused:
                raise ConnectError("REFUSED", f"no {record.value} here")
        self.written.extend(record.value for record in records)

    def stop(self) -> None:
        pass


class LedgerSink(_Sink):
    """Transactional, into a dictionary that outlives its tasks."""

    delivery: ClassVar[SinkDelivery] = SinkDelivery.TRANSACTIONAL

    def task_class(self) -> type[SinkTask]:
        return LedgerTask


class LedgerTask(TransactionalSinkTask):
    rows: ClassVar[list[object]] = []
    next: ClassVar[dict[SinkPartition, int]] = {}
    generation: ClassVar[dict[SinkPartition, int]] = {}
    writes: ClassVar[list[int]] = []

    def start(self, props: Props) -> None:
        self.refused = props.get("refuse", "").split(",")

    def next_offsets(self, partitions: Sequence[SinkPartition]) -> Mapping[SinkPartition, int]:
        LedgerTask.generation |= dict.fromkeys(partitions, self.context.generation)
        return {each: offset for each, offset in LedgerTask.next.items() if each in partitions}

    def write(self, ranges: Sequence[SinkRange]) -> bool:
        for each in ranges:
            if LedgerTask.next.get(each.partition, each.start) != each.start:
                return False
            if LedgerTask.generation[each.partition] != self.context.generation:
                return False
        values = [record.value for each in ranges for record in each.records]
        refused = [value for value in values if value in self.refused]
        if refused:
            raise ConnectError("REFUSED", f"no {refused[0]} here")
        LedgerTask.rows.extend(values)
        LedgerTask.writes.append(len(values))
        LedgerTask.next |= {each.partition: each.end for each in ranges}
        return True

    def stop(self) -> None:
        pass


class PageSink(_Sink):
    """Repeatable, into numbered pages."""

    delivery: ClassVar[SinkDelivery] = SinkDelivery.REPEATABLE

    def task_class(self) -> type[SinkTask]:
        return PageTask


class PageTask(RepeatableSinkTask):
    pages: ClassVar[dict[tuple[int, int], list[object]]] = {}
    fail_writes: ClassVar[int] = 0

    def start(self, props: Props) -> None:
        pass

    def write(self, ranges: Sequence[RangeNumber]) -> None:
        if PageTask.fail_writes:
            PageTask.fail_writes -= 1
            raise ConnectError("CRASH", "the task dies before it writes")
        for number, part in ranges:
            PageTask.pages.setdefault((part.partition.partition, number), [record.value for record in part.records])

    def stop(self) -> None:
        pass


def reset() -> None:
    """Forget what was written by earlier tests."""
    NumberTask.committed.clear()
    PairTask.dropped.clear()
    for cls in (ListTask.written, LedgerTask.rows, LedgerTask.writes):
        cls.clear()
    LedgerTask.next.clear()
    LedgerTask.generation.clear()
    PageTask.pages.clear()
    NumberTask.fail_polls = ListTask.fail_puts = PageTask.fail_writes = 0
