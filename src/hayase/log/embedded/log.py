"""The embedded log."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from hayase.core.errors import LogError
from hayase.core.names import check_name
from hayase.core.records import TopicPartition
from hayase.log.embedded.blob import read_header, timestamps, unpack
from hayase.log.embedded.reader import EmbeddedReader
from hayase.log.embedded.settings import check_topic_config
from hayase.log.embedded.store import LogStore
from hayase.log.embedded.tables import Tables
from hayase.log.embedded.writer import EmbeddedWriter
from hayase.log.protocol import LogConfig, Marker, TopicInfo


class EmbeddedLog:
    """A `Log` in a folder of the local disk, for the quick start, tests and jobs of one machine.

    Any number of processes on the machine may read and write it at the same time; readers never wait. Everything that
    one call writes is one transaction over all its topics. Options (`LogConfig.options`):

    * `fsync` (`true`): what a call wrote is durable before the call returns, and before any reader sees it. Threads of
      a process that write at the same time share a commit; processes commit one after the other. With `false` a power
      loss can take the last seconds, or the whole log; the death of a process takes nothing in either case. All logs
      on one folder in a process must agree on it.
    * `map.size` (1 TiB): bytes of address space to begin with. It grows by itself; the folder is as large as the data.

    Topic settings are checked, stored and shown by `describe`. `compression.type` (default LZ4) and
    `max.message.bytes` act on writes, `cleanup.policy=compact` refuses null keys. Nothing is removed yet: retention
    and compaction have no effect.

    Thread-safe, but not to be used after a fork: open another one from the same LogConfig.

    Args:
        config: the log. The folder is made if absent; it must not be on a network file system.
        new_id: makes topic ids.

    Raises:
        ConfigError: an option is unknown or has a value that is not allowed.
        LogError: `LOG_NOT_OPENED`, `LOG_FORMAT`: the folder can not be used.

    Example:
        >>> import tempfile
        >>> log = EmbeddedLog(LogConfig("embedded", tempfile.mkdtemp()))
        >>> log.create_topic("orders", 2).partitions
        2
        >>> log.topics()
        ['orders']
        >>> log.close()
    """

    def __init__(self, config: LogConfig, *, new_id: Callable[[], uuid.UUID] = uuid.uuid4) -> None:
        self._store = LogStore(config)
        self._new_id = new_id

    def create_topic(self, name: str, partitions: int, config: Mapping[str, str] | None = None) -> TopicInfo:
        """As `Log.create_topic`.

        Raises:
            LogError: `TOPIC_EXISTS`; `INVALID_PARTITIONS`: fewer than 1.
            TopologyError: `INVALID_NAME`: not a name that Kafka allows.
            ConfigError: a setting is unknown or has a value that is not allowed; the message lists what is.
        """
        check_name(name)
        if partitions < 1:
            raise LogError("INVALID_PARTITIONS", f"a topic has at least 1 partition, not {partitions}", topic=name)
        info = TopicInfo(name, self._new_id().hex, partitions, check_topic_config(config or {}))

        def create(tables: Tables) -> None:
            if tables.topic(name) is not None:
                raise LogError("TOPIC_EXISTS", f"there is a topic {name!r} already", topic=name)
            tables.put_topic(info)

        self._store.write(create)
        return info

    def delete_topic(self, name: str) -> None:
        """As `Log.delete_topic`; what groups committed for it is forgotten as well."""

        def delete(tables: Tables) -> None:
            tables.delete_topic(tables.known_topic(name))
            tables.delete_group_offsets_of_topic(name)

        self._store.write(delete)

    def topics(self) -> list[str]:
        """Names of all topics, sorted; the log has none of its own."""
        with self._store.read() as tables:
            return [name.decode() for name, _ in tables.scan("topics", b"")]

    def describe(self, names: Sequence[str]) -> dict[str, TopicInfo]:
        """As `Log.describe`."""
        with self._store.read() as tables:
            found = {name: tables.topic(name) for name in names}
        return {name: info for name, info in found.items() if info is not None}

    def start_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """As `Log.start_offsets`, all as of one moment."""
        with self._store.read() as tables:
            return {partition: tables.partition(partition)[1].start for partition in partitions}

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """As `Log.end_offsets`, all as of one moment."""
        with self._store.read() as tables:
            return {partition: tables.partition(partition)[1].end for partition in partitions}

    def offsets_for_time(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """As `Log.offsets_for_time`; costs the unpacking of one stored batch a partition. Unknown topics raise."""
        with self._store.read(buffers=True) as tables:
            return {partition: _offset_for_time(tables, partition, time) for partition, time in times_ms.items()}

    def markers(self, application_id: str) -> dict[str, Marker]:
        """As `Log.markers`."""
        with self._store.read() as tables:
            return tables.markers(application_id)

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
        """As `Log.writer`."""
        return EmbeddedWriter(self._store)

    def close(self) -> None:
        """Let go of the files. Its readers and writers can not be used any more; closing again does nothing."""
        self._store.close()


def _offset_for_time(tables: Tables, partition: TopicPartition, time_ms: int) -> int:
    key, state = tables.partition(partition)
    first = tables.first_blob_reaching(key, time_ms)
    if first is None:
        return state.end
    for base, data in tables.blobs(key, max(first, state.start)):
        header = read_header(data)
        if header.max_timestamp_ms < time_ms:
            continue
        reached = np.flatnonzero(timestamps(unpack(data), header.records) >= time_ms) + base
        reached = reached[reached >= state.start]
        if len(reached):
            return int(reached[0])
    return state.end
