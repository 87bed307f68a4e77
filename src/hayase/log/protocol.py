"""What a log of topics must do. Both implementations pass the same behaviour suite (`tests/behaviour/log`).

A log is opened from a `LogConfig`, which is plain data and travels to workers. Readers and writers belong to
the process that made them and must not cross a fork.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from hayase.core.errors import CheckpointError, LogError
from hayase.core.failpoints import reach
from hayase.core.records import Headers, SourceRecord, TopicPartition
from hayase.core.secrets import Settings

Int64Array = npt.NDArray[np.int64]
Int32Array = npt.NDArray[np.int32]


OPEN_TRANSACTION_MAX_S = 90.0
"""How long a read to the end waits for open transactions. On Kafka that of a dead process is open for a minute
(`transaction.timeout.ms`), and a broker looks for such every ten seconds."""


@dataclass(frozen=True, slots=True)
class LogConfig:
    """How to open a log.

    Attributes:
        kind: `embedded` or `kafka`.
        location: the folder of an embedded log, the bootstrap servers of a Kafka cluster.
        options: client settings under their Kafka names (Kafka), or the log's own (embedded: `fsync`). Values may hold
            references to secrets (`hayase.core.secrets`).
    """

    kind: str
    location: str
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", Settings(self.options))


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic: its id is another one after the topic was deleted and recreated."""

    name: str
    topic_id: str
    partitions: int
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class RecordBatch:
    """Consecutive records of one partition, ascending by offset (gaps are normal: compaction, transaction markers)."""

    topic: str
    partition: int
    offsets: Int64Array
    timestamps_ms: Int64Array
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[Headers] | None = None
    """One entry a record, or `None` if no record of the batch has any."""

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def of(cls, topic: str, partition: int, batches: Sequence[RecordBatch]) -> RecordBatch:
        """The batches of a range, joined."""
        if len(batches) == 1:
            first = batches[0]
            return cls(topic, partition, first.offsets, first.timestamps_ms, first.keys, first.values, first.headers)
        empty = np.empty(0, np.int64)
        headers: list[Headers] | None = None
        if any(batch.headers is not None for batch in batches):
            headers = [h for b in batches for h in (b.headers if b.headers is not None else [()] * len(b))]
        return cls(
            topic,
            partition,
            np.concatenate([batch.offsets for batch in batches]) if batches else empty,
            np.concatenate([batch.timestamps_ms for batch in batches]) if batches else empty,
            [key for batch in batches for key in batch.keys],
            [value for batch in batches for value in batch.values],
            headers,
        )

    def take(self, rows: Sequence[int]) -> RecordBatch:
        """See RecordSource."""
        keys, values, headers = self.keys, self.values, self.headers
        return RecordBatch(
            self.topic,
            self.partition,
            self.offsets[rows],
            self.timestamps_ms[rows],
            [keys[row] for row in rows],
            [values[row] for row in rows],
            None if headers is None else [headers[row] for row in rows],
        )

    def record(self, row: int) -> SourceRecord:
        """One record, for handlers."""
        return SourceRecord(
            self.topic,
            self.partition,
            int(self.offsets[row]),
            int(self.timestamps_ms[row]),
            self.keys[row],
            self.values[row],
            self.headers[row] if self.headers is not None else (),
        )


@dataclass(slots=True)
class OutputBatch:
    """Records to write to one topic, in order.

    `partitions` is `None` where the key decides: Kafka's murmur2 partitioner; the i-th record of the batch with a null
    key goes to partition `(first + i) % partitions`, never at random, so that a replay writes the same. `first` is how
    many records of the topic the batches before have, of one call.
    """

    topic: str
    keys: list[bytes | None]
    values: list[bytes | None]
    timestamps_ms: list[int]
    partitions: Int32Array | None = None
    headers: list[Headers] | None = None
    first: int = 0

    def __len__(self) -> int:
        return len(self.values)

    def load(self) -> OutputBatch:
        """Itself."""
        return self


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch that is not in memory.

    Attributes:
        topic: where its records go.
        count: how many.
        load: reads it; again at every call.
    """

    topic: str
    count: int
    load: Callable[[], OutputBatch]

    def __len__(self) -> int:
        return self.count


OutgoingBatch = OutputBatch | StoredBatch
"""What a writer takes; it loads stored batches one at a time and keeps none."""


@dataclass(frozen=True, slots=True)
class Marker:
    """What a bundle last wrote: the proof that an epoch's outputs are in the log."""

    checkpoint_id: str
    epoch: int
    digest: str


def is_published(last: Marker | None, marker: Marker) -> bool:
    """Whether a bundle's last marker proves that the outputs of an epoch are in the log.

    Raises:
        CheckpointError: `CHECKPOINT_OLDER_THAN_LOG`: the outputs there are of another epoch with the same number.
        LogError: `STATE_MOVED`: they are of a later epoch, so another attempt has overtaken this one, and none waits
            for it.
    """
    if last is None or last.checkpoint_id != marker.checkpoint_id or last.epoch < marker.epoch:
        return False
    if last.epoch > marker.epoch:
        raise LogError(
            "STATE_MOVED",
            f"outputs of epoch {last.epoch} are in the log, and epoch {marker.epoch} is about to be written: another "
            "attempt has overtaken this one. Nothing was written. If that comes again and no other run is at work, "
            "the checkpoint is an older copy: restore the newest one, or start over with `hayase app reset`",
            epoch=marker.epoch,
        )
    if last.epoch == marker.epoch and last.digest != marker.digest:
        raise CheckpointError(
            "CHECKPOINT_OLDER_THAN_LOG",
            f"outputs of epoch {marker.epoch} are in the log, but of another epoch record ({last.digest}) than that "
            f"of the checkpoint ({marker.digest}): the checkpoint is an older copy. Nothing was written. Restore the "
            "newest copy, or start over with `hayase app reset`",
            epoch=marker.epoch,
        )
    return True


def is_superseded(error: CheckpointError | LogError) -> bool:
    """Whether `publish_epoch` refused a marker because another attempt has published that number, or a later one."""
    return error.condition in ("CHECKPOINT_OLDER_THAN_LOG", "STATE_MOVED")


def check_attempt(bundle: str, marker: Marker, is_closed: Callable[[], bool] | None) -> None:
    """Check that an attempt may publish an epoch; see `EpochWriter.publish_epoch`.

    Raises:
        LogError: `STATE_MOVED`: the epoch is closed.
    """
    if is_closed is None:
        return
    if is_closed():
        raise LogError(
            "STATE_MOVED",
            f"epoch {marker.epoch} is closed: a start of another program does it again, or is about to decide that. "
            "This attempt gives up; nothing was written",
            bundle=bundle,
            epoch=marker.epoch,
        )
    reach("before_write", bundle=bundle, epoch=marker.epoch)


class LogReader(Protocol):
    """Reads ranges; kept by a worker process from epoch to epoch."""

    def fetch(self, partition: TopicPartition, start: int, end: int) -> Iterator[RecordBatch]:
        """The committed records with `start <= offset < end`, in batches that follow each other.

        Returns when the position has reached `end`, however many records that were; of an empty range at once.

        Raises:
            SourceRangeLostError: `start` is before the first offset there is, or `end` behind the last.
            UnknownTopicError: the topic is gone.
        """
        ...

    def close(self) -> None:
        """Let go of connections; no call may follow."""
        ...


class EpochWriter(Protocol):
    """Writes a bundle's outputs; kept by a worker process from epoch to epoch."""

    def append(self, batches: Sequence[OutgoingBatch]) -> None:
        """Write and wait until the log has acknowledged everything. At least once."""
        ...

    def publish_epoch(
        self,
        application_id: str,
        bundle: str,
        marker: Marker,
        batches: Sequence[OutgoingBatch],
        *,
        plan_position: int | None = None,
        is_closed: Callable[[], bool] | None = None,
    ) -> bool:
        """Write the outputs of an epoch exactly once: outputs and marker become visible together, or not at all.

        Returns `False` and writes nothing if the bundle's marker has the same checkpoint id and this epoch or a later
        one. A marker of another checkpoint counts as absent. Safe against another process that does the same at the
        same time: one of them wins.

        Args:
            application_id: whose epoch.
            bundle: whose outputs.
            marker: of the epoch.
            batches: the outputs.
            plan_position: the bundle's number in the application's plan, always the same: where bundles of different
                numbers keep their markers apart, none waits for another's open transaction. Found from the bundle's
                name if not given.
            is_closed: whether attempts of the epoch are to give up; asked at a moment from which on `Log.end_attempts`
                ends this one.

        Raises:
            CheckpointError: `CHECKPOINT_OLDER_THAN_LOG`: the bundle's marker is of this epoch with another digest.
            ProductionError: a record was refused permanently.
            LogError: `STATE_MOVED`: the epoch is closed; or the log could not be reached in time: calling again is
                safe.
        """
        ...

    def close(self) -> None:
        """Flush and let go of connections; no call may follow."""
        ...


class Log(Protocol):
    """A cluster of topics."""

    def create_topic(
        self, name: str, partitions: int, config: Mapping[str, str] | None = None, *, replicas: int | None = None
    ) -> TopicInfo:
        """Make a topic.

        Args:
            name: of it.
            partitions: how many.
            config: Kafka's topic settings.
            replicas: of each partition on a Kafka cluster; `None`: as the cluster says.

        Raises:
            LogError: `TOPIC_EXISTS` if there is one of that name; also what a cluster refuses.
            ConfigError: a setting is unknown or has a value that is not allowed; no topic was made.
        """
        ...

    def delete_topic(self, name: str) -> None:
        """Remove a topic with its records; raises UnknownTopicError."""
        ...

    def topic_config(self, name: str) -> dict[str, str]:
        """Every setting of a topic with the value in effect: its own, else the default; raises UnknownTopicError.

        What is set on the topic itself is in `describe`.
        """
        ...

    def alter_topic_config(self, name: str, changes: Mapping[str, str | None]) -> TopicInfo:
        """Change settings of a topic, all or none; `None` takes one back to its default. Others stay (KIP-339).

        Returns:
            The topic as it is now. Another process, and the log's own housekeeping, may see it a little later.

        Raises:
            UnknownTopicError: there is no such topic.
            ConfigError: a setting is unknown or has a value that is not allowed; nothing was changed.
        """
        ...

    def topics(self) -> list[str]:
        """Names of all topics that are not the log's own, sorted."""
        ...

    def describe(self, names: Sequence[str]) -> dict[str, TopicInfo]:
        """The topics asked for; those that do not exist are left out."""
        ...

    def start_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset there is, of each; raises UnknownTopicError."""
        ...

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset behind the last committed record (the last stable offset); raises UnknownTopicError."""
        ...

    def written_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset behind the last record, also of a transaction that is open; raises UnknownTopicError."""
        ...

    def unfinished(self, partitions: Sequence[TopicPartition]) -> bool:
        """Whether a transaction that wrote to one of them is open, so that its end offset is about to move."""
        ...

    def offsets_for_time(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The first offset whose timestamp is at or after the time; the end offset if there is none."""
        ...

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        """Remove the records of each partition whose offset is smaller.

        Who reads such an offset gets SourceRangeLostError.

        Records that are stored together may stay until all of them may go.

        Raises:
            UnknownTopicError: there is no such topic or partition.
            LogError: the log could not be reached.
        """
        ...

    def markers(self, application_id: str, *, wait: bool = True) -> dict[str, Marker]:
        """The last marker of every bundle of an application, by bundle.

        Args:
            application_id: whose.
            wait: for transactions that are open, of dead processes until they time out; without, what stands behind the
                first of them is left out.
        """
        ...

    def marker(self, application_id: str, bundle: str, plan_position: int | None = None) -> Marker | None:
        """The last marker of one bundle; `None` if it has none.

        It waits for fewer open transactions than `markers`: for those alone that have written where the bundle's
        markers are.

        Args:
            application_id: whose.
            bundle: its name.
            plan_position: the one that `EpochWriter.publish_epoch` is given.
        """
        ...

    def prepare_markers(self, application_id: str) -> None:
        """Make room for an application's markers, so that its first `publish_epoch` need not.

        Calling it again does nothing.

        Raises:
            LogError: the log could not be reached.
        """
        ...

    def prepare_transactions(self, name: str) -> None:
        """Have the cluster ready for a first `publish_epoch`, which would wait for that: a second, on a new broker.

        Args:
            name: of who asks; nothing of that name is fenced.

        Raises:
            LogError: the log could not be reached.
        """
        ...

    def end_attempts(self, application_id: str, checkpoint_id: str, bundles: Collection[str]) -> None:
        """End all calls of `publish_epoch` that have asked whether their epoch is closed, and have not written yet.

        When it returns, `markers` tells all that such calls have written, and will ever write, of an epoch that was
        closed before.

        Args:
            application_id: of the application.
            checkpoint_id: of its checkpoint.
            bundles: those that may publish.

        Raises:
            LogError: the log could not be reached; calling again is safe.
        """
        ...

    def delete_markers(self, application_id: str) -> None:
        """Forget an application's markers and committed offsets (`hayase app reset`)."""
        ...

    def commit_group_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Record how far a consumer group is, for tools that show its lag. Nothing in Hayase reads it back."""
        ...

    def group_offsets(self, group: str) -> dict[TopicPartition, int]:
        """What was committed for a group."""
        ...

    def reader(self) -> LogReader:
        """A reader of this process."""
        ...

    def writer(self) -> EpochWriter:
        """A writer of this process."""
        ...

    def close(self) -> None:
        """Let go of connections and files."""
        ...
