"""Offsets of connectors as users see and change them."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from hayase.connect.connector_validation import typed_config
from hayase.connect.contracts import (
    SinkConnector,
    SinkDelivery,
    SourceConnector,
    SourcePartitionKey,
    source_partition_key,
)
from hayase.connect.generations import Generations, generation_of, marker_number
from hayase.connect.herder.environment import WorkerEnvironment
from hayase.connect.herder.states import BadRequestError
from hayase.connect.herder.task_loops import group_of, offsets_topic
from hayase.connect.model import SourceOffset
from hayase.connect.offsets import OFFSETS_SETTINGS, ensure_topic, load_offsets, offset_batch, offset_key
from hayase.connect.repeatable_sink import RangeRecord, load_ranges, range_batch
from hayase.core.records import TopicPartition

_TOPIC, _PARTITION, _OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"
Changes = Sequence[Mapping[str, object]] | None


class OffsetChanges:
    """Reads and changes offsets of connectors.

    Args:
        env: of the worker.
    """

    def __init__(self, env: WorkerEnvironment) -> None:
        self._env = env
        self._lock = threading.Lock()  # clients of Kafka are not shared by threads

    def of(
        self, name: str, cls: type[SourceConnector] | type[SinkConnector], props: Mapping[str, str]
    ) -> list[dict[str, object]]:
        """The offsets of a connector, each with its partition."""
        with self._lock:
            return self._of(name, cls, props)

    def _of(
        self, name: str, cls: type[SourceConnector] | type[SinkConnector], props: Mapping[str, str]
    ) -> list[dict[str, object]]:
        if issubclass(cls, SinkConnector):
            offsets = self._env.log.group_offsets(group_of(name, props))
            return [
                {"partition": {_PARTITION: where.partition, _TOPIC: where.topic}, "offset": {_OFFSET: offset}}
                for where, offset in sorted(offsets.items())
            ]
        stored = load_offsets(self._env.log, offsets_topic(self._env, typed_config(cls, props)), name).stored
        return [{"partition": dict(each.partition), "offset": dict(each.offset)} for each in stored.values()]

    def change(
        self, name: str, cls: type[SourceConnector] | type[SinkConnector], props: Mapping[str, str], changes: Changes
    ) -> str:
        """Set offsets, or forget all; what was done, in Kafka Connect's words.

        Raises:
            BadRequestError: an offset is wrong; nothing was changed.
        """
        if changes is not None and not changes:
            raise BadRequestError("NO_OFFSETS", "Partitions / offsets need to be provided for an alter offsets request")
        with self._lock:
            if issubclass(cls, SinkConnector):
                acted = self._change_sink(name, cls, props, changes)
            else:
                acted = self._change_source(name, cls, props, changes)
        done = "reset" if changes is None else "altered"
        if acted:
            return f"The offsets for this connector have been {done} successfully"
        return (
            f"The Connect framework-managed offsets for this connector have been {done} successfully. However, if this "
            f"connector manages offsets externally, they will need to be manually {done} in the system that the "
            "connector uses."
        )

    def _change_source(self, name: str, cls: type[SourceConnector], props: Mapping[str, str], changes: Changes) -> bool:
        topic = offsets_topic(self._env, typed_config(cls, props))
        ensure_topic(self._env.log, topic, self._env.config.int("offset.storage.partitions"), OFFSETS_SETTINGS)
        generations = Generations(self._env.log, self._env.config.group)
        generations.begin(name, ())
        stored = load_offsets(self._env.log, topic, name).stored
        wanted: dict[SourcePartitionKey, SourceOffset | None] = {}
        keys: dict[SourcePartitionKey, bytes] = {}
        if changes is None:
            wanted = dict.fromkeys(stored)
        for change in changes or ():
            partition, offset = _source_change(change)
            where = source_partition_key(partition)
            wanted[where], keys[where] = offset, offset_key(name, partition)
        acted = cls().alter_offsets(props, wanted)
        keys |= {where: each.key for where, each in stored.items() if where in wanted}
        if wanted:
            # The number that the generation will have, unless another worker is as fast: then it is refused.
            last = max((generation_of(each.epoch) for each in generations.markers(name).values()), default=0)
            number = marker_number(last + 1, 0)
            pairs = [(keys[where], offset) for where, offset in wanted.items()]
            batch = offset_batch(topic, pairs, 0, number, self._env.clock.now_ms())
            generations.begin(name, (), [batch])
        return acted

    def _change_sink(self, name: str, cls: type[SinkConnector], props: Mapping[str, str], changes: Changes) -> bool:
        log, group = self._env.log, group_of(name, props)
        Generations(log, self._env.config.group).begin(name, ())
        committed = log.group_offsets(group)
        wanted: dict[TopicPartition, int | None] = {}
        if changes is None:
            wanted = dict.fromkeys(committed)
        for change in changes or ():
            where, offset = _sink_change(change)
            wanted[where] = offset
        acted = cls().alter_offsets(props, wanted)
        starts = log.start_offsets([where for where, offset in wanted.items() if offset is None])
        offsets = {where: starts[where] if offset is None else offset for where, offset in wanted.items()}
        if cls.delivery is SinkDelivery.REPEATABLE:
            self._move_ranges(name, offsets)
        log.commit_group_offsets(group, offsets)
        return acted

    def _move_ranges(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Take the last range of each partition for complete, and its end for what was asked for."""
        log, group = self._env.log, self._env.config.group
        moved = {
            partition: RangeRecord(record.number, offsets[where], offsets[where], record.digest)
            for partition, record in load_ranges(log, group, name).items()
            if (where := TopicPartition(partition.topic, partition.partition)) in offsets
        }
        if moved:
            batch = range_batch(group, name, moved, self._env.clock.now_ms())
            Generations(log, group).begin(name, (), [batch])


def _source_change(change: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object] | None]:
    partition, offset = change.get("partition"), change.get("offset")
    if not isinstance(partition, dict) or not (offset is None or isinstance(offset, dict)):
        raise BadRequestError(
            "INVALID_OFFSET", "each offset needs a partition, an object, and an offset, an object or null"
        )
    return partition, offset


def _sink_change(change: Mapping[str, object]) -> tuple[TopicPartition, int | None]:
    partition, offset = _source_change(change)
    topic, number = partition.get(_TOPIC), partition.get(_PARTITION)
    if isinstance(number, str) and number.isdecimal():
        number = int(number)
    position = None if offset is None else offset.get(_OFFSET)
    if isinstance(position, str) and position.isdecimal():
        position = int(position)
    if (
        not isinstance(topic, str)
        or not isinstance(number, int)
        or (offset is not None and not isinstance(position, int))
    ):
        raise BadRequestError(
            "INVALID_OFFSET",
            f"The partition for a sink connector offset must contain the keys '{_TOPIC}' and '{_PARTITION}', the "
            f"offset the key '{_OFFSET}', a whole number",
        )
    assert isinstance(topic, str)
    assert isinstance(number, int)
    return TopicPartition(topic, number), position if isinstance(position, int) else None
