"""Contracts of sinks: connectors from topics to another system."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, NamedTuple, Protocol

from hayase.connect.columns import RecordColumns
from hayase.connect.model import SinkRecord
from hayase.connect.plugin_contracts import Connector, Props, Task
from hayase.core.records import TopicPartition


class SinkDelivery(StrEnum):
    """How a sink writes: which guarantee it gives.

    * `TRANSACTIONAL`: rows and the next offset are one transaction of the target (`TransactionalSinkTask`).
    * `REPEATABLE`: numbered ranges, each written once under its number (`RepeatableSinkTask`).
    * `AT_LEAST_ONCE`: a record may be written again after a failure (`SinkTask`).
    """

    TRANSACTIONAL = "TRANSACTIONAL"
    REPEATABLE = "REPEATABLE"
    AT_LEAST_ONCE = "AT_LEAST_ONCE"


class SinkConnector(Connector):
    """A connector from topics to another system."""

    delivery: ClassVar[SinkDelivery] = SinkDelivery.AT_LEAST_ONCE

    @abstractmethod
    def task_class(self) -> type[SinkTask]:
        """The class of its tasks."""

    def alter_offsets(self, props: Props, offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Called before a user's change of offsets takes effect; see `SourceConnector.alter_offsets`."""
        return False


class ErrantRecordReporter(Protocol):
    """Takes records that a sink task cannot write."""

    def report(self, record: SinkRecord, error: Exception) -> None:
        """Send a record to the dead-letter topic by `errors.*`; raises `ConnectError` if none is tolerated."""
        ...


class SinkTaskContext(Protocol):
    """What the worker does for a sink task.

    Attributes:
        group: the consumer group: `connect-` and the connector's name unless configured.
        connector: its name.
        task: its number, from 0.
        generation: of the connector: higher at every start and reconfiguration.
        configs: the task's configuration.
        errant_record_reporter: `None` unless errors are tolerated.
        metrics: gauges of the task.
    """

    group: str
    connector: str
    task: int
    generation: int
    configs: Props
    errant_record_reporter: ErrantRecordReporter | None
    metrics: dict[str, float]

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that the task has."""
        ...

    def pause(self, *partitions: TopicPartition) -> None:
        """Read no more of these until `resume`."""
        ...

    def resume(self, *partitions: TopicPartition) -> None:
        """Read these again."""
        ...

    def offset(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Go on from these offsets with the next `put`."""
        ...

    def timeout_ms(self, timeout_ms: int) -> None:
        """Wait so long before `put` is called again after a `RetriableError`."""
        ...

    def request_commit(self) -> None:
        """Commit offsets soon."""
        ...


class SinkTask(Task):
    """Writes to another system, at least once.

    The order of calls: `initialize`, `start`, `open`, then `put` again and again, `flush` and `pre_commit` every
    `offset.flush.interval.ms`, `close` of partitions that go.
    """

    context: SinkTaskContext

    def initialize(self, context: SinkTaskContext) -> None:
        """Called once, before `start`."""
        self.context = context

    @abstractmethod
    def put(self, records: Sequence[SinkRecord]) -> None:
        """Take records, possibly none. They may be written later, but before `flush` returns."""

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Write everything that was put up to these offsets."""

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Offsets that may be committed; the default flushes and takes all."""
        self.flush(offsets)
        return offsets

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        """The task gets partitions."""

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """The task loses partitions."""


class SinkPartition(NamedTuple):
    """A partition of a topic; the id distinguishes the topic from one of the same name that was deleted."""

    topic: str
    topic_id: str
    partition: int


@dataclass(frozen=True, slots=True)
class SinkRange:
    """Records of consecutive offsets of one partition.

    Attributes:
        partition: whose.
        start: the offset that the range begins with: the target's `next_offset`.
        end: the offset behind the range, gaps included.
        records: what is to be written, after transforms; fewer than the offsets where some were dropped.
        columns: the same records by column, where the task takes columns and they have them; else `None`.
        prepared: what the task's `prepare` made of the columns; `None` where there are none.
    """

    partition: SinkPartition
    start: int
    end: int
    records: Sequence[SinkRecord]
    columns: RecordColumns | None = None
    prepared: object = None


class RangeSinkTask(SinkTask):
    """A sink task that gets ranges instead of single records; `put` is not called."""

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Never called: `write` is."""
        raise AssertionError("the worker calls write of a task that takes ranges")


class TransactionalSinkTask(RangeSinkTask):
    """A sink task that keeps next offsets in the target, in the transaction of the rows: exactly once.

    Attributes:
        takes_columns: whether ranges have `columns` where their records allow it. Then `records` are made when the task
            looks at them, which may fail as reading them does.
    """

    takes_columns: ClassVar[bool] = False

    def prepare(self, columns: RecordColumns) -> object:
        """Make of columns what `write` needs of them, which gets it as `prepared` of the range; by default nothing.

        Called before the `write` of the range, by the thread of the task or by another one while an earlier range is
        written: use nothing that `write` changes. May be called for a range that is not written, and more than once for
        one that is.

        Raises:
            Exception: the task fails; nothing is tried again. Return `None` for columns that cannot be prepared, and
                let `write` say which record is wrong.
        """
        return None

    @abstractmethod
    def next_offsets(self, partitions: Sequence[SinkPartition]) -> Mapping[SinkPartition, int]:
        """What the target says each partition goes on from; those that it does not know are left out."""

    @abstractmethod
    def write(self, ranges: Sequence[SinkRange]) -> bool:
        """Write the records of all ranges and set each next offset from `start` to `end`, in one transaction.

        Returns:
            `False`, and nothing was written, if the next offset of a partition is not `start`: another task has it.

        Raises:
            RetriableError: the same call may succeed later; nothing was written.
            ConnectError: the target refuses a record; nothing was written. The worker calls again with halves of the
                records, to find which.
        """


class RangeNumber(NamedTuple):
    """A range of a partition by its number: 0, 1, 2, … in the order of offsets."""

    number: int
    range: SinkRange


class RepeatableSinkTask(RangeSinkTask):
    """A sink task that writes numbered ranges, each of which the target keeps once under its number: exactly once."""

    @abstractmethod
    def write(self, ranges: Sequence[RangeNumber]) -> None:
        """Write ranges; one that is complete in the target under its number already stays as it is.

        The worker records each number with its offsets before the call and repeats it after a failure; another process
        may write the same number at the same time: the first complete one wins.
        """

    def target(self) -> str:
        """What is written to, as a folder; empty by default. Asked after `start`.

        A range that an earlier configuration has begun is written again where both name the same target, since a
        complete range stays as it is there. Where they do not, or name none, the worker refuses to go on: the range may
        be complete in the other target.
        """
        return ""
