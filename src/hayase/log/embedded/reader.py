"""Reading ranges of an embedded log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hayase.core.errors import LogError, SourceRangeLostError, UnknownTopicError
from hayase.core.records import Headers, TopicPartition
from hayase.log.embedded.blob import Rows, decode, read_header, unpack
from hayase.log.embedded.store import LogStore
from hayase.log.embedded.tables import PartitionState, Tables
from hayase.log.protocol import FetchedBatch

_BATCH_RECORDS = 65_536
_BATCH_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class _Packed:
    """A blob taken out of the map: not yet decoded."""

    key: bytes
    base: int
    records: int
    payload: Any

    @property
    def end(self) -> int:
        return self.base + self.records


class EmbeddedReader:
    """A `LogReader`. Batches have up to 65,536 records or 16 MB, more only where one stored batch has.

    No snapshot is held between two batches, so a slow consumer hinders nobody. Not thread-safe.
    """

    def __init__(self, store: LogStore) -> None:
        self._store = store
        self._closed = False
        # The blob that the end of a range cut, decoded: the next range most likely begins in it.
        self._cut: tuple[bytes, int, Rows] | None = None

    def fetch(self, partition: TopicPartition, start: int, end: int) -> Iterator[FetchedBatch]:
        """As `LogReader.fetch`; errors are raised when the iterator is first asked, or when they occur."""
        position, expected_key = start, None
        while True:
            if self._closed:
                raise LogError("LOG_CLOSED", "the reader was closed; make another one")
            with self._store.read(buffers=True) as tables:
                key, state = tables.partition(partition)
                if expected_key not in (None, key):
                    raise UnknownTopicError(
                        "UNKNOWN_TOPIC", f"topic {partition.topic!r} was deleted and made anew", topic=partition.topic
                    )
                expected_key = key
                if position >= end:
                    return
                _check_range(partition, position, end, state)
                taken = self._take(tables, key, position, end)
            if not taken:
                return
            yield self._batch(partition, taken, position, end)
            position = taken[-1].end

    def close(self) -> None:
        """Forget what was kept."""
        self._closed = True
        self._cut = None

    def _take(self, tables: Tables, key: bytes, position: int, end: int) -> list[_Packed]:
        """Unpack blobs that overlap `[position, end)`, at least one if there is any, up to the size of a batch."""
        taken: list[_Packed] = []
        records = size = 0
        for base, data in tables.blobs(key, position):
            header = read_header(data)
            if base >= end:
                break
            if base + header.records <= position:
                continue
            records += header.records
            size += header.payload_bytes
            if taken and (records > _BATCH_RECORDS or size > _BATCH_BYTES):
                break
            cut = self._cut is not None and self._cut[:2] == (key, base)
            taken.append(_Packed(key, base, header.records, None if cut else unpack(data)))
        return taken

    def _batch(self, partition: TopicPartition, taken: list[_Packed], start: int, end: int) -> FetchedBatch:
        decoded = [self._decode(packed) for packed in taken]
        self._cut = (taken[-1].key, taken[-1].base, decoded[-1]) if taken[-1].end > end else None
        rows = decoded[0] if len(decoded) == 1 else _joined(decoded)
        base, behind = taken[0].base, taken[-1].end
        batch = FetchedBatch(
            partition.topic,
            partition.partition,
            np.concatenate([np.arange(packed.base, packed.end, dtype=np.int64) for packed in taken]),
            rows.timestamps_ms,
            rows.keys,
            rows.values,
            rows.headers,
        )
        if start <= base and behind <= end:
            return batch
        low, high = np.searchsorted(batch.offsets, [start, end]).tolist()
        return _sliced(batch, slice(low, high))

    def _decode(self, packed: _Packed) -> Rows:
        if packed.payload is not None:
            return decode(packed.payload, packed.records)
        assert self._cut is not None
        return self._cut[2]


def _check_range(partition: TopicPartition, start: int, end: int, state: PartitionState) -> None:
    if start < state.start or end > state.end:
        raise SourceRangeLostError(
            "SOURCE_RANGE_LOST",
            f"the range is [{start}, {end}), the log has [{state.start}, {state.end}): records were removed, or the "
            "topic is not the one it was",
            topic=partition.topic,
            partition=partition.partition,
            offset=start if start < state.start else end,
        )


def _joined(parts: list[Rows]) -> Rows:
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    headers: list[Headers] = []
    for part in parts:
        keys += part.keys
        values += part.values
        headers += part.headers if part.headers is not None else [()] * len(part.values)
    some = any(part.headers is not None for part in parts)
    return Rows(np.concatenate([part.timestamps_ms for part in parts]), keys, values, headers if some else None)


def _sliced(batch: FetchedBatch, rows: slice) -> FetchedBatch:
    headers = None if batch.headers is None else batch.headers[rows]
    return FetchedBatch(
        batch.topic,
        batch.partition,
        batch.offsets[rows],
        batch.timestamps_ms[rows],
        batch.keys[rows],
        batch.values[rows],
        headers if headers is not None and any(headers) else None,
    )
