"""Contracts of connectors, tasks, transforms, predicates and converters: what a plug-in implements.

A connector is configured once and says how its work is split; its tasks do the work. All of them are plain Python and
know nothing of Spark. The worker calls the methods of one object from one thread, except `stop` of a task: it comes
from another one if a call has not returned within `task.shutdown.graceful.timeout.ms`, and must make it return.

Names are those of Kafka Connect in Python spelling. What they may raise: `RetriableError`, and the worker calls again;
anything else fails the task, unless `errors.tolerance` says otherwise where a single record is to blame.
"""

from __future__ import annotations

import importlib.metadata
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, NamedTuple, Protocol

from hayase.connect.columns import RecordColumns, SingleColumn, StructColumns
from hayase.connect.config.config_def import ConfigDef, ConfigValue
from hayase.connect.model import (
    ConnectHeaders,
    ConnectRecord,
    Polled,
    RawKeyValue,
    RecordMetadata,
    SinkRecord,
    SourceOffset,
    SourcePartition,
    SourceRecord,
)
from hayase.connect.schema import ConnectSchema, SchemaAndValue
from hayase.core.records import Headers, TopicPartition

Props = Mapping[str, str]
"""A configuration: texts, with references to secrets resolved."""


class ExactlyOnceSupport(StrEnum):
    """Whether a source connector gives every record exactly once with a configuration."""

    SUPPORTED = "SUPPORTED"
    UNSUPPORTED = "UNSUPPORTED"


class ConnectorTransactionBoundaries(StrEnum):
    """Whether a source connector can say where transactions end."""

    SUPPORTED = "SUPPORTED"
    UNSUPPORTED = "UNSUPPORTED"


class SinkDelivery(StrEnum):
    """How a sink writes: which guarantee it gives.

    * `TRANSACTIONAL`: rows and the next offset are one transaction of the target (`TransactionalSinkTask`).
    * `REPEATABLE`: numbered ranges, each written once under its number (`RepeatableSinkTask`).
    * `AT_LEAST_ONCE`: a record may be written again after a failure (`SinkTask`).
    """

    TRANSACTIONAL = "TRANSACTIONAL"
    REPEATABLE = "REPEATABLE"
    AT_LEAST_ONCE = "AT_LEAST_ONCE"


class Versioned:
    """What has a version and a definition of its configuration."""

    def version(self) -> str:
        """Its version; shown by `/connector-plugins`."""
        return importlib.metadata.version("hayase")

    @classmethod
    def config(cls) -> ConfigDef:
        """The keys it takes, apart from those that the worker defines for all of its kind."""
        return ConfigDef()


class ConnectorContext(Protocol):
    """What the worker does for a connector."""

    def request_task_reconfiguration(self) -> None:
        """Ask for `task_configs` to be called again, as when a table was added."""
        ...

    def raise_error(self, error: Exception) -> None:
        """Fail the connector from a thread of its own."""
        ...


class Connector(Versioned, ABC):
    """One configured connection to another system: it splits the work into tasks and watches for changes."""

    context: ConnectorContext

    def initialize(self, context: ConnectorContext) -> None:
        """Called once, before `start`."""
        self.context = context

    @abstractmethod
    def start(self, props: Props) -> None:
        """Begin with a configuration. Called once."""

    @abstractmethod
    def task_class(self) -> type[SourceTask] | type[SinkTask]:
        """The class of its tasks."""

    @abstractmethod
    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """One configuration for each task, at most `max_tasks`; empty: there is nothing to do."""

    @abstractmethod
    def stop(self) -> None:
        """Let go of everything; also after a `start` that failed."""

    def validate(self, props: Props) -> list[ConfigValue]:
        """Errors and recommendations of every key; the default asks the definition.

        Called on an object of its own, without `start`. It may look at the other system: the REST interface answers
        with what it finds before anything is started.
        """
        return self.config().validate(props)


class SourceConnector(Connector):
    """A connector from another system to topics."""

    def exactly_once_support(self, props: Props) -> ExactlyOnceSupport | None:
        """Whether each record comes exactly once with this configuration; `None`: it does not say.

        The worker publishes records and offsets in one transaction for every source. What a source must add is that
        its tasks go on exactly behind the offset that they are given.
        """
        return None

    def can_define_transaction_boundaries(self, props: Props) -> ConnectorTransactionBoundaries:
        """Whether its tasks use `TransactionContext`, for `transaction.boundary=connector`."""
        return ConnectorTransactionBoundaries.UNSUPPORTED

    def checks_signatures(self, props: Props) -> bool:
        """Whether its tasks refuse requests that are not signed: those to `/webhooks/CONNECTOR` need no password then.

        Called on an object of its own, without `start`, and with references to secrets unresolved.
        """
        return False

    def signal_topic(self, props: Props) -> tuple[str, bytes] | None:
        """Where users write signals to the connector while it runs, and with which key; `None`: it reads none.

        Called on an object of its own, without `start`.
        """
        return None

    def alter_offsets(self, props: Props, offsets: Mapping[SourcePartitionKey, SourceOffset | None]) -> bool:
        """Called before a user's change of offsets is written; raises `ConnectError` for what it cannot go on from.

        Args:
            props: the configuration.
            offsets: by source partition (`source_partition_key`); `None`: the offset is to be forgotten.

        Returns:
            Whether it has checked, or changed what is kept in the other system, so that the change acts.
        """
        return False


SourcePartitionKey = tuple[tuple[str, object], ...]
"""A source partition as a key of mappings: its items, sorted."""


def source_partition_key(partition: SourcePartition) -> SourcePartitionKey:
    """The key of a source partition.

    Example:
        >>> source_partition_key({"server": "shop"})
        (('server', 'shop'),)
    """
    return tuple(sorted(partition.items()))


class SinkConnector(Connector):
    """A connector from topics to another system."""

    delivery: ClassVar[SinkDelivery] = SinkDelivery.AT_LEAST_ONCE

    def alter_offsets(self, props: Props, offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Called before a user's change of offsets takes effect; see `SourceConnector.alter_offsets`."""
        return False


class OffsetStorageReader(Protocol):
    """Offsets of a connector as they were when its task started."""

    def offset(self, partition: SourcePartition) -> SourceOffset | None:
        """The offset stored for a partition of the source; `None`: there is none."""
        ...

    def offsets(self) -> Mapping[SourcePartitionKey, SourceOffset]:
        """All offsets of the connector."""
        ...


class TransactionContext(Protocol):
    """Where transactions of a task end, with `transaction.boundary=connector`."""

    def commit_transaction(self) -> None:
        """Publish what was polled, when the current `poll` has returned."""
        ...

    def commit_transaction_after(self, record: SourceRecord) -> None:
        """Publish up to this record, which the current `poll` returns."""
        ...

    def abort_transaction(self) -> None:
        """Drop what was polled since the last transaction, when the current `poll` has returned."""
        ...

    def abort_transaction_after(self, record: SourceRecord) -> None:
        """Drop what was polled since the last transaction, up to this record, which the current `poll` returns."""
        ...


@dataclass(frozen=True, slots=True)
class SerializedJson:
    """How a task may serialize records itself: as the JSON converter would, and no transform looks at them."""

    key_schemas: bool
    value_schemas: bool


class SourceTaskContext(Protocol):
    """What the worker does for a source task.

    Attributes:
        connector: its name.
        task: its number, from 0.
        configs: the task's configuration.
        offset_storage_reader: offsets as of the start.
        transaction_context: `None` unless `transaction.boundary=connector`.
        serialized_json: how `SerializedRecords` must look; `None`: the task must not hand out any.
        metrics: gauges of the task, shown with those of the worker: set by name.
    """

    connector: str
    task: int
    configs: Props
    offset_storage_reader: OffsetStorageReader
    transaction_context: TransactionContext | None
    serialized_json: SerializedJson | None
    metrics: dict[str, float]

    def report(self, record: SourceRecord, error: Exception) -> None:
        """Leave out a record that cannot be made of what the task has read: it is counted and logged by `errors.*`.

        The record says what is known of it: where it would go and where it is from. Raises `ConnectError` if none is
        tolerated.
        """
        ...

    def publish_offsets(self, partition: SourcePartition, offset: SourceOffset | None) -> None:
        """Publish an offset with the next transaction, even without a record: a heartbeat. From the task's thread.

        `None` forgets the offset of the partition.
        """
        ...

    def read_topic(self, topic: str, offset: int) -> tuple[list[RawKeyValue], int]:
        """Key and value of the records of a topic of one partition from an offset on, and the offset behind them.

        A topic that is absent has none. From the task's thread. Where the task goes on after a restart is its own
        matter: an offset that it publishes with its records is in their transaction.
        """
        ...

    def read_partition(self, topic: str, partition: int, offset: int) -> tuple[list[RawKeyValue], int]:
        """As `read_topic`, of one partition of a topic that may have several."""
        ...

    def end_offsets(self, topic: str) -> list[int]:
        """The end of each partition of a topic; an absent one has none. From the task's thread."""
        ...

    def topic_id(self, topic: str) -> str | None:
        """The id of a topic: one that is made again has another; `None`: it is absent. From the task's thread."""
        ...

    def advertise(self, url: str) -> None:
        """Say where the task takes requests: the worker forwards those to `/webhooks/CONNECTOR` there.

        A host `0.0.0.0` or `::` stands for an address of the task's machine.
        """
        ...


class Task(Versioned, ABC):
    """A part of a connector's work, in one thread."""

    @abstractmethod
    def start(self, props: Props) -> None:
        """Begin with a configuration from `task_configs`. Called once."""

    @abstractmethod
    def stop(self) -> None:
        """End: let go of resources; also after a `start` that failed.

        May come more than once, and from another thread if a call does not return.
        """


class SourceTask(Task):
    """Reads from another system.

    The order of calls: `initialize`, `start`, then `poll` again and again; `commit` after each transaction. What was
    polled and is not published when the worker ends is polled again after the offset that was published last.

    Attributes:
        polls_ahead: whether `poll` may be called while what the last one gave is still being published, since more
            waits. Then `commit_polled` says how much is durable. Looked at behind each poll.
    """

    context: SourceTaskContext
    polls_ahead: bool = False

    def initialize(self, context: SourceTaskContext) -> None:
        """Called once, before `start`."""
        self.context = context

    @abstractmethod
    def poll(self) -> Polled | None:
        """The next records; `None` or nothing: there are none now.

        It may wait, for about 100 ms at most, so that the worker can pause or stop it. `RetriableError`: it is called
        again.
        """

    def commit(self) -> None:
        """Everything polled so far is durable in the log: acknowledge it to the other system.

        An exception is logged and counted; the next transaction calls again.
        """

    def commit_polled(self, polls: int) -> None:
        """What the first so many calls of `poll` gave is durable: called instead of `commit` where it polled ahead."""

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        """One record is durable in the log, or was dropped by a transform or a tolerated error (`None`).

        Called only of tasks that override it, before `commit`.
        """


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
    """

    partition: SinkPartition
    start: int
    end: int
    records: Sequence[SinkRecord]
    columns: RecordColumns | None = None


class RangeSinkTask(SinkTask):
    """A sink task that gets ranges instead of single records; `put` is not called.

    Attributes:
        takes_columns: whether ranges have `columns` where their records allow it. Then `records` are made when the task
            looks at them, which may fail as reading them does.
    """

    takes_columns: ClassVar[bool] = False

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Never called: `write` is."""
        raise AssertionError("the worker calls write of a task that takes ranges")


class TransactionalSinkTask(RangeSinkTask):
    """A sink task that keeps next offsets in the target, in the transaction of the rows: exactly once."""

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


class Transformation(Versioned, ABC):
    """A single message transform."""

    def configure(self, props: Mapping[str, object]) -> None:
        """Take the configuration; called once."""

    @abstractmethod
    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """The record to go on with, of the same class; `None` drops it."""

    def close(self) -> None:
        """Let go of everything."""


class Predicate(Versioned, ABC):
    """Says of which records a transform is applied."""

    def configure(self, props: Mapping[str, object]) -> None:
        """Take the configuration; called once."""

    @abstractmethod
    def test(self, record: ConnectRecord) -> bool:
        """Whether it holds for the record."""

    def close(self) -> None:
        """Let go of everything."""


class Converter(Versioned, ABC):
    """Bytes of topics from and to values with schemas."""

    def configure(self, props: Mapping[str, object], is_key: bool) -> None:
        """Take the configuration, for keys or for values; called once."""

    @abstractmethod
    def from_connect_data(
        self, topic: str, headers: ConnectHeaders, schema: ConnectSchema | None, value: object
    ) -> bytes | None:
        """The bytes of a value; raises `DataError` for what it cannot write."""

    @abstractmethod
    def to_connect_data(self, topic: str, headers: Headers, data: bytes | None) -> SchemaAndValue:
        """The value that bytes hold; raises `DataError` for what are no such bytes."""

    def to_connect_columns(self, topic: str, data: Sequence[bytes | None]) -> StructColumns | SingleColumn | None:
        """The values that bytes hold, by column: the same values as `to_connect_data` gives.

        `None`: bytes that are not null are not of one schema, or cannot be read, or this converter has no columns; then
        values are read one by one. At least one of the values is not null.
        """
        return None

    def close(self) -> None:
        """Let go of everything."""


class HeaderConverter(Versioned, ABC):
    """Bytes of headers from and to values with schemas."""

    def configure(self, props: Mapping[str, object], is_key: bool = False) -> None:
        """Take the configuration; called once."""

    @abstractmethod
    def from_connect_header(self, topic: str, name: str, schema: ConnectSchema | None, value: object) -> bytes | None:
        """The bytes of a header's value."""

    @abstractmethod
    def to_connect_header(self, topic: str, name: str, data: bytes | None) -> SchemaAndValue:
        """The value that a header's bytes hold."""

    def close(self) -> None:
        """Let go of everything."""
