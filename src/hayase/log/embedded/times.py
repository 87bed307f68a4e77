"""Offsets by time."""

from __future__ import annotations

from collections.abc import Mapping

from hayase.core.records import TopicPartition
from hayase.log.embedded.blob import offsets, read_header, timestamps, unpack
from hayase.log.embedded.part_reader import PartReader
from hayase.log.embedded.remote_files import PartGoneError
from hayase.log.embedded.remote_part import RemotePart
from hayase.log.embedded.store import LogStore
from hayase.log.embedded.tables import Tables


def find_offsets(store: LogStore, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The first offset whose timestamp is at or after the time, of each partition; the end offset if there is none.

    Raises:
        UnknownTopicError: a topic or partition does not exist.
        LogError: remote storage is asked and does not answer.
    """
    with store.read(buffers=True) as tables:
        answers = {partition: _find(tables, partition, time_ms, 0) for partition, time_ms in times_ms.items()}
    return {
        partition: answer if isinstance(answer, int) else _find_in_parts(store, partition, times_ms[partition], answer)
        for partition, answer in answers.items()
    }


def _find(tables: Tables, partition: TopicPartition, time_ms: int, position: int) -> int | RemotePart:
    """The first offset from `position`, or a part that may hold it."""
    key, state = tables.partition(partition)
    first = tables.first_blob_reaching(key, time_ms)
    if first is None:
        return state.end
    position = max(first, position, state.start)
    for part in tables.remote_parts(key, position):
        if part.max_timestamp_ms >= time_ms:
            return part
    where = tables.location(partition, key)
    for base, data in tables.blobs(key, position):
        header = read_header(data, where, base)
        if header.max_timestamp_ms < time_ms:
            continue
        payload = unpack(data, header, where, base)
        reached = offsets(payload, header, base)[timestamps(payload, header) >= time_ms]
        reached = reached[reached >= position]
        if len(reached):
            return int(reached[0])
    return state.end


def _find_in_parts(store: LogStore, partition: TopicPartition, time_ms: int, answer: int | RemotePart) -> int:
    """Files are looked at outside of a transaction. One that is gone meanwhile was removed by retention."""
    reader, position = PartReader(), 0
    gone: RemotePart | None = None
    try:
        while not isinstance(answer, int):
            try:
                offset = reader.first_at(partition, answer, position, time_ms)
            except PartGoneError:
                if answer == gone:
                    raise
                gone = answer
            else:
                if offset is not None:
                    return offset
                position = answer.end
            with store.read(buffers=True) as tables:
                answer = _find(tables, partition, time_ms, position)
        return answer
    finally:
        reader.close()
