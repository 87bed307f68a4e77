"""A topic as text: settings, offsets, where its records are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hayase.core.records import TopicPartition
from hayase.log.embedded.log import EmbeddedLog, PartitionStorage
from hayase.log.protocol import Log, TopicInfo


def setting_lines(config: Mapping[str, str]) -> list[str]:
    """One line a setting, by name.

    For example:
        >>> setting_lines({"retention.ms": "1000"})
        ['  retention.ms=1000']
    """
    return [f"  {key}={value}" for key, value in sorted(config.items())]


def topic_lines(log: Log, info: TopicInfo, *, every: bool) -> Iterator[str]:
    """Everything about a topic.

    Args:
        log: where it is. Sizes are shown of the embedded one; Kafka's client has no call for them.
        info: the topic.
        every: whether settings that have their default are shown as well.
    """
    yield f"{info.name}: id {info.topic_id}, {info.partitions} partition{'s' if info.partitions != 1 else ''}"
    yield from setting_lines(log.topic_config(info.name) if every else info.config)
    partitions = [TopicPartition(info.name, number) for number in range(info.partitions)]
    starts, ends = log.start_offsets(partitions), log.end_offsets(partitions)
    storage = log.storage(info.name) if isinstance(log, EmbeddedLog) else None
    for partition in partitions:
        start, end, number = starts[partition], ends[partition], partition.partition
        line = f"  partition {number}: offsets {start} to {end}, {end - start} of them"
        if storage is None:
            yield line
        else:
            yield from _storage_lines(line, storage[number])


def _storage_lines(line: str, storage: PartitionStorage) -> Iterator[str]:
    parts = storage.remote_parts
    if not parts:
        yield f"{line}; {storage.local_bytes:,} bytes"
        return
    remote = sum(part.bytes for part in parts)
    number = f"{len(parts)} remote part{'s'[: len(parts) - 1]}"
    yield f"{line}; {storage.local_bytes:,} bytes here, {remote:,} bytes in {number}"
    for part in parts:
        yield f"    offsets {part.base} to {part.end}: {part.records:,} records, {part.bytes:,} bytes in {part.url}"
