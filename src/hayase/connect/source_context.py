"""What a worker does for a source task: its offsets, its transactions, topics that it reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hayase.connect.contracts import OffsetStorageReader, Props, SerializedJson, TransactionContext
from hayase.connect.model import RawKeyValue, SourceOffset, SourcePartition, SourceRecord
from hayase.connect.topic_reader import TopicReader


class TaskTransactionContext:
    """A `TransactionContext`: what the task asked for during one `poll`."""

    def __init__(self) -> None:
        self._commit = False
        self._abort = False
        self._commit_after: list[SourceRecord] = []
        self._abort_after: list[SourceRecord] = []

    def commit_transaction(self) -> None:
        """See `TransactionContext.commit_transaction`."""
        self._commit = True

    def commit_transaction_after(self, record: SourceRecord) -> None:
        """See `TransactionContext.commit_transaction_after`."""
        self._commit_after.append(record)

    def abort_transaction(self) -> None:
        """See `TransactionContext.abort_transaction`."""
        self._abort = True

    def abort_transaction_after(self, record: SourceRecord) -> None:
        """See `TransactionContext.abort_transaction_after`."""
        self._abort_after.append(record)

    def commits_after(self, record: SourceRecord) -> bool:
        """Whether a transaction ends behind a record."""
        return _take(self._commit_after, record)

    def aborts_after(self, record: SourceRecord) -> bool:
        """Whether a transaction is dropped that ends with a record."""
        return _take(self._abort_after, record)

    def commits(self) -> bool:
        """Whether a transaction ends behind what the poll gave."""
        asked, self._commit = self._commit, False
        return asked

    def aborts(self) -> bool:
        """Whether a transaction is dropped that ends with what the poll gave."""
        asked, self._abort = self._abort, False
        return asked


def _take(records: list[SourceRecord], record: SourceRecord) -> bool:
    position = next((index for index, each in enumerate(records) if each is record), None)
    if position is None:
        return False
    del records[position]
    return True


def _raise(_: SourceRecord, error: Exception) -> None:
    raise error


@dataclass(slots=True)
class TaskContext:
    """A `SourceTaskContext`, and what the loop takes from it.

    Attributes:
        topics: reads topics; `None`: all of them are empty.
        waiting_offsets: what the task has published since the last poll, for the loop.
        advertised: takes the URL that the task advertises.
        reporter: takes a record that the task cannot make; raises if none is tolerated.
    """

    connector: str
    task: int
    configs: Props
    offset_storage_reader: OffsetStorageReader
    transaction_context: TransactionContext | None = None
    serialized_json: SerializedJson | None = None
    topics: TopicReader | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    waiting_offsets: list[tuple[SourcePartition, SourceOffset | None]] = field(default_factory=list)
    advertised: Callable[[str], None] = lambda _: None
    reporter: Callable[[SourceRecord, Exception], None] = _raise

    def advertise(self, url: str) -> None:
        """See `SourceTaskContext.advertise`."""
        self.advertised(url)

    def report(self, record: SourceRecord, error: Exception) -> None:
        """See `SourceTaskContext.report`."""
        self.reporter(record, error)

    def publish_offsets(self, partition: SourcePartition, offset: SourceOffset | None) -> None:
        """See `SourceTaskContext.publish_offsets`."""
        self.waiting_offsets.append((partition, offset))

    def read_topic(self, topic: str, offset: int) -> tuple[list[RawKeyValue], int]:
        """See `SourceTaskContext.read_topic`."""
        return ([], offset) if self.topics is None else self.topics.read(topic, offset)

    def read_partition(self, topic: str, partition: int, offset: int) -> tuple[list[RawKeyValue], int]:
        """See `SourceTaskContext.read_partition`."""
        return ([], offset) if self.topics is None else self.topics.read_partition(topic, partition, offset)

    def end_offsets(self, topic: str) -> list[int]:
        """See `SourceTaskContext.end_offsets`."""
        return [] if self.topics is None else self.topics.end_offsets(topic)

    def topic_id(self, topic: str) -> str | None:
        """See `SourceTaskContext.topic_id`."""
        return None if self.topics is None else self.topics.topic_id(topic)
