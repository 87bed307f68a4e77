"""Contracts of sources: connectors from another system to topics."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from hayase.connect.model import (
    Polled,
    RawKeyValue,
    RecordMetadata,
    SourceOffset,
    SourcePartition,
    SourceRecord,
)
from hayase.connect.plugin_contracts import Connector, Props, Task


class ExactlyOnceSupport(StrEnum):
    """Whether a source connector gives every record exactly once with a configuration."""

    SUPPORTED = "SUPPORTED"
    UNSUPPORTED = "UNSUPPORTED"


class ConnectorTransactionBoundaries(StrEnum):
    """Whether a source connector can say where transactions end."""

    SUPPORTED = "SUPPORTED"
    UNSUPPORTED = "UNSUPPORTED"


SourcePartitionKey = tuple[tuple[str, object], ...]
"""A source partition as a key of mappings: its items, sorted."""


def source_partition_key(partition: SourcePartition) -> SourcePartitionKey:
    """The key of a source partition.

    Example:
        >>> source_partition_key({"server": "shop"})
        (('server', 'shop'),)
    """
    return tuple(sorted(partition.items()))


class SourceConnector(Connector):
    """A connector from another system to topics."""

    @abstractmethod
    def task_class(self) -> type[SourceTask]:
        """The class of its tasks."""

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
