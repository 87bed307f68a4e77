"""The embedded log."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from hayase.core.errors import ConfigError, LogError
from hayase.core.names import check_name
from hayase.core.records import TopicPartition
from hayase.core.time import Clock, SystemClock
from hayase.log.embedded.cleaner import BackgroundCleaner, Cleaner, CleaningReport
from hayase.log.embedded.reader import EmbeddedReader
from hayase.log.embedded.remote_part import RemotePart
from hayase.log.embedded.store import LogStore
from hayase.log.embedded.tables import Tables, partition_key
from hayase.log.embedded.times import find_offsets
from hayase.log.embedded.topic_settings import TopicSettings, all_settings, check_known, check_topic_config
from hayase.log.embedded.writer import EmbeddedWriter
from hayase.log.protocol import LogConfig, Marker, TopicInfo


@dataclass(frozen=True, slots=True)
class PartitionStorage:
    """Where the records of a partition are.

    Attributes:
        partition: its number.
        local_bytes: size of what is in the log's folder.
        remote_parts: the files with older records, in order.
    """

    partition: int
    local_bytes: int
    remote_parts: tuple[RemotePart, ...]


PARTITIONS_MAX = 10_000
"""Of a topic: so many Kafka makes in one request."""


class EmbeddedLog:
    """A `Log` in a folder of the local disk, for the quick start, tests and jobs of one machine.

    Any number of processes on the machine may read and write it at the same time; readers never wait. Everything that
    one call writes is one transaction over all its topics. Options (`LogConfig.options`):

    * `fsync` (`true`): what a call wrote is durable before the call returns, and before any reader sees it. Threads of
      a process that write at the same time share a commit; processes commit one after the other. With `false` a power
      loss can take the last seconds, or the whole log; the death of a process takes nothing in either case. All logs
      on one folder in a process must agree on it.
    * `map.size` (1 TiB): bytes of address space to begin with. It grows by itself; the folder is as large as the data.
    * `cleaner.interval.ms` (30000): how often a log of which a writer was taken cleans in the background; 0: never. One
      process does it for all.
    * `cleaner.timeout.ms` (300000): a cleaner that takes longer for a step hangs; another takes over.

    Topic settings are Kafka's, with Kafka's defaults except for these (see `topic_config`): `retention.ms` is -1,
    nothing is removed unless asked for; `segment.bytes` is 64 MiB; `max.message.bytes` is 1 GiB. `remote.storage.url`,
    of Hayase's own, says where the records go that `local.retention.*` does not keep: a folder or an fsspec URL.
    Compaction leaves out no active segment (there is none): `min.compaction.lag.ms` says how long records stay as they
    are.

    Thread-safe, but not to be used after a fork: open another one from the same LogConfig.

    Args:
        config: the log. The folder is made if absent; it must not be on a network file system.
        new_id: makes topic ids, and names of remote files.
        clock: of the background cleaner, and of appends to topics with `message.timestamp.type=LogAppendTime`.

    Raises:
        ConfigError: an option is unknown or has a value that is not allowed.
        LogError: `LOG_NOT_OPENED`, `LOG_FORMAT`: the folder cannot be used.

    Example:
        >>> import tempfile
        >>> log = EmbeddedLog(LogConfig("embedded", tempfile.mkdtemp()))
        >>> log.create_topic("orders", 2).partitions
        2
        >>> log.topics()
        ['orders']
        >>> log.close()
    """

    def __init__(
        self, config: LogConfig, *, new_id: Callable[[], uuid.UUID] = uuid.uuid4, clock: Clock | None = None
    ) -> None:
        self._store = LogStore(config)
        self._new_id = new_id
        self._clock = clock if clock is not None else SystemClock()
        self._cleaner = Cleaner(self._store, new_id)
        self._background: BackgroundCleaner | None = None
        self._background_lock = threading.Lock()

    def create_topic(
        self, name: str, partitions: int, config: Mapping[str, str] | None = None, *, replicas: int | None = None
    ) -> TopicInfo:
        """As `Log.create_topic`; there are no replicas.

        Raises:
            LogError: `TOPIC_EXISTS`; `INVALID_PARTITIONS`: fewer than 1, or more than PARTITIONS_MAX.
            TopologyError: `INVALID_NAME`: not a name that Kafka allows.
            ConfigError: a setting is unknown or has a value that is not allowed; the message lists what is.
        """
        check_name(name)
        if not 1 <= partitions <= PARTITIONS_MAX:
            raise LogError(
                "INVALID_PARTITIONS", f"a topic has 1 to {PARTITIONS_MAX:,} partitions, not {partitions:,}", topic=name
            )
        info = TopicInfo(name, self._new_id().hex, partitions, check_topic_config(config or {}))

        def create(tables: Tables) -> None:
            if tables.topic(name) is not None:
                raise LogError("TOPIC_EXISTS", f"there is a topic {name!r} already", topic=name)
            tables.put_topic(info)

        self._store.write(create)
        return info

    def delete_topic(self, name: str) -> None:
        """As `Log.delete_topic`; what groups committed for it is forgotten as well.

        Remote files go at once if no cleaner is at work, else with the next cleaning.
        """

        def delete(tables: Tables) -> bool:
            tables.delete_topic(tables.known_topic(name))
            tables.delete_group_offsets_of_topic(name)
            return bool(tables.garbage())

        if self._store.write(delete):
            self._cleaner.remove_garbage()

    def topic_config(self, name: str) -> dict[str, str]:
        """As `Log.topic_config`."""
        with self._store.read() as tables:
            return all_settings(tables.known_topic(name).config)

    def alter_topic_config(self, name: str, changes: Mapping[str, str | None]) -> TopicInfo:
        """As `Log.alter_topic_config`. Writers heed it from the next append on, cleaners from the next cleaning.

        Raises:
            ConfigError: also if the topic has remote parts and is to be compacted.
        """

        def alter(tables: Tables) -> TopicInfo:
            info = tables.known_topic(name)
            wanted = {**info.config, **changes}
            for setting in changes:
                check_known(setting)
            config = check_topic_config({key: value for key, value in wanted.items() if value is not None})
            altered = replace(info, config=config)
            if TopicSettings.of(config).compacts and _has_parts(tables, info):
                raise ConfigError(
                    "INVALID_SETTING",
                    "records of the topic are in remote storage, so its cleanup.policy must be delete",
                    setting="cleanup.policy",
                )
            tables.put_config(altered)
            return altered

        return self._store.write(alter)

    def clean(self, now_ms: int | None = None) -> CleaningReport:
        """Do now what the background cleaner does: retention, compaction and tiers of all topics.

        A kill between any two steps loses nothing, and readers go on meanwhile: they see a range as it was or as it is.

        Args:
            now_ms: what ages are measured from; default: the clock's now.

        Raises:
            LogError: `CLEANER_BUSY`: another process or thread is cleaning. `REMOTE_STORAGE_FAILED`, `DISK_FULL`, ...:
                the first failure, after everything else was cleaned; calling again is safe.

        Example:
            >>> import tempfile
            >>> from hayase.log.protocol import OutputBatch
            >>> log = EmbeddedLog(LogConfig("embedded", tempfile.mkdtemp()))
            >>> info = log.create_topic("users", 1, {"cleanup.policy": "compact"})
            >>> log.writer().append([OutputBatch("users", [b"ada", b"bob", b"ada"], [b"1", b"2", b"3"], [0, 0, 0])])
            >>> log.clean().superseded_records
            1
            >>> where = TopicPartition("users", 0)
            >>> [batch.offsets.tolist() for batch in log.reader().fetch(where, 0, 3)]
            [[1, 2]]
            >>> log.close()
        """
        return self._cleaner.clean(self._clock.now_ms() if now_ms is None else now_ms, lambda: False)

    def storage(self, name: str) -> list[PartitionStorage]:
        """What the partitions of a topic hold, in order; raises UnknownTopicError."""
        with self._store.read() as tables:
            info = tables.known_topic(name)
            keys = [partition_key(info.topic_id, number) for number in range(info.partitions)]
            return [
                PartitionStorage(number, tables.partition_state(key).bytes, tuple(tables.remote_parts(key)))
                for number, key in enumerate(keys)
            ]

    def topics(self) -> list[str]:
        """Names of all topics, sorted; the log has none of its own."""
        with self._store.read() as tables:
            return [name.decode() for name, _ in tables.scan("topics", b"")]

    def describe(self, names: Sequence[str]) -> dict[str, TopicInfo]:
        """As `Log.describe`."""
        with self._store.read() as tables:
            infos = {name: tables.topic(name) for name in names}
        return {name: info for name, info in infos.items() if info is not None}

    def start_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """As `Log.start_offsets`, all as of one moment."""
        with self._store.read() as tables:
            return {partition: tables.partition(partition)[1].start for partition in partitions}

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """As `Log.end_offsets`, all as of one moment."""
        with self._store.read() as tables:
            return {partition: tables.partition(partition)[1].end for partition in partitions}

    def written_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """As `Log.written_offsets`: the end offsets, since a transaction is seen when its commit returns."""
        return self.end_offsets(partitions)

    def unfinished(self, partitions: Sequence[TopicPartition]) -> bool:
        """See `Log.unfinished`. Never: a transaction is seen when its commit returns."""
        return False

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        """As `Log.delete_records`. A batch that was appended at once goes when all of its records may.

        Whether a cleaner runs, or hangs, does not matter. Batches that are damaged can be removed like any other.
        """
        self._cleaner.delete_before(before)

    def offsets_for_time(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """As `Log.offsets_for_time`; costs the unpacking of one stored batch a partition. Unknown topics raise."""
        return find_offsets(self._store, times_ms)

    def markers(self, application_id: str, *, wait: bool = True) -> dict[str, Marker]:
        """As `Log.markers`; there are no open transactions to wait for."""
        with self._store.read() as tables:
            return tables.markers(application_id)

    def marker(self, application_id: str, bundle: str, plan_position: int | None = None) -> Marker | None:
        """As `Log.marker`."""
        return self.markers(application_id).get(bundle)

    def prepare_markers(self, application_id: str) -> None:
        """As `Log.prepare_markers`: nothing to do, each marker is a row of the log's tables."""

    def prepare_transactions(self, name: str) -> None:
        """As `Log.prepare_transactions`: nothing to do."""

    def end_attempts(self, application_id: str, checkpoint_id: str, bundles: Collection[str]) -> None:
        """As `Log.end_attempts`: a writer that gets the write lock after this call finds that attempts were ended."""
        ended = Marker(checkpoint_id, 0, self._new_id().hex)
        self._store.write(lambda tables: tables.put_ended(application_id, ended))

    def delete_markers(self, application_id: str) -> None:
        """As `Log.delete_markers`."""
        self._store.write(lambda tables: tables.forget_application(application_id))

    def commit_group_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """As `Log.commit_group_offsets`; raises UnknownTopicError."""

        def commit(tables: Tables) -> None:
            for partition in offsets:
                tables.partition(partition)
            for partition, offset in offsets.items():
                tables.put_group_offset(group, partition, offset)

        self._store.write(commit)

    def group_offsets(self, group: str) -> dict[TopicPartition, int]:
        """As `Log.group_offsets`."""
        with self._store.read() as tables:
            return tables.group_offsets(group)

    def reader(self) -> EmbeddedReader:
        """As `Log.reader`."""
        return EmbeddedReader(self._store)

    def writer(self) -> EmbeddedWriter:
        """As `Log.writer`. With the first one the background cleaner begins."""
        interval_ms = self._store.settings.cleaner_interval_ms
        with self._background_lock:
            if interval_ms > 0 and (self._background is None or not self._background.runs):
                self._background = BackgroundCleaner(self._cleaner, interval_ms, self._clock.now_ms)
        return EmbeddedWriter(self._store, self._clock)

    def close(self) -> None:
        """Let go of the files. Its readers and writers cannot be used any more; closing again does nothing."""
        with self._background_lock:
            if self._background is not None:
                self._background.close()
            self._background = None
        self._store.close()


def _has_parts(tables: Tables, info: TopicInfo) -> bool:
    keys = (partition_key(info.topic_id, number) for number in range(info.partitions))
    return any(next(tables.remote_parts(key), None) is not None for key in keys)
