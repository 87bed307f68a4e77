"""Reading ranges of an embedded log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hayase.core.errors import LogError, SourceRangeLostError, UnknownTopicError
from hayase.core.records import TopicPartition
from hayase.log.embedded.blob import (
    BlobHeader,
    BlobLocation,
    Payload,
    Rows,
    decode,
    decode_part,
    joined,
    read_header,
    unpack,
)
from hayase.log.embedded.part_reader import PartReader
from hayase.log.embedded.remote_files import PartGoneError
from hayase.log.embedded.store import LogStore
from hayase.log.embedded.tables import PartitionState, Tables
from hayase.log.protocol import RecordBatch

_BATCH_RECORDS = 65_536
_BATCH_BYTES = 16 << 20
_FEW = 8
"""A blob is decoded in part where less than one in so many of its records is asked for."""


@dataclass(frozen=True, slots=True)
class _Packed:
    """A blob taken out of the map: its rows if they are known, else what is to be decoded."""

    base: int
    header: BlobHeader
    content: Payload | Rows

    @property
    def end(self) -> int:
        return self.base + self.header.span


class EmbeddedReader:
    """A `LogReader`. Batches have up to 65,536 records or 16 MB, more only where one stored batch has.

    What was moved to remote storage comes from there, a row group at a time. No snapshot is held between two batches,
    so a slow consumer hinders no other process. Not thread-safe.
    """

    def __init__(self, store: LogStore) -> None:
        self._store = store
        self._closed = False
        # The blob that the end of a range cut, decoded: the next range most likely begins in it. Compaction that
        # changes a blob changes its header.
        self._cut: tuple[tuple[bytes, int, BlobHeader], Rows] | None = None
        # The last blob of which a few records were read: at the second time it is decoded as a whole.
        self._read_in_part: tuple[bytes, int, BlobHeader] | None = None
        self._parts = PartReader()
        # Partitions whose gaps are those of log compaction, as of a revision.
        self._compacted: set[tuple[bytes, int]] = set()

    def fetch(self, partition: TopicPartition, start: int, end: int) -> Iterator[RecordBatch]:
        """As `LogReader.fetch`; errors are raised when the iterator is first asked, or when they occur."""
        position, expected_key, gone = start, None, None
        while True:
            if self._closed:
                raise LogError("LOG_CLOSED", "the reader was closed; make another one")
            with self._store.read(buffers=True) as tables:
                key, state = tables.partition(partition)
                if expected_key not in (None, key):
                    raise UnknownTopicError(
                        "UNKNOWN_TOPIC", f"topic {partition.topic!r} was deleted and recreated", topic=partition.topic
                    )
                expected_key = key
                if position >= end:
                    return
                _check_range(partition, position, end, state)
                part = next(tables.remote_parts(key, position), None)
                where = tables.location(partition, key)
                taken = self._take(tables, where, position, end) if part is None else []
                gap = _first_gap(position, end, [(part.base, part.end)] if part else [(p.base, p.end) for p in taken])
                if gap is not None:
                    self._check_compacted(tables, where, state, gap)
            if part is not None and part.base < end:
                try:
                    for rows in self._parts.read(partition, part, position, end):
                        yield _fetched(partition, rows)
                        position = int(rows.offsets[-1]) + 1
                except PartGoneError:
                    if part == gone:
                        raise
                    gone = part  # retention may just have removed it: then the range is lost
                else:
                    position = part.end
                continue
            if not taken:
                return  # log compaction left nothing up to the end
            batch = self._batch(partition, where, taken, position, end)
            if len(batch):
                yield batch
            position = taken[-1].end

    def close(self) -> None:
        """Forget what was kept."""
        self._closed = True
        self._cut = None
        self._parts.close()

    def _take(self, tables: Tables, where: BlobLocation, position: int, end: int) -> list[_Packed]:
        """Unpack blobs that overlap `[position, end)`, at least one if there is any, up to the size of a batch."""
        taken: list[_Packed] = []
        records = size = 0
        for base, data in tables.blobs(where.key, position):
            if base >= end:
                break
            header = read_header(data, where, base)
            if base + header.span <= position:
                continue
            records += header.records
            size += header.payload_bytes
            if taken and (records > _BATCH_RECORDS or size > _BATCH_BYTES):
                break
            known = self._cut[1] if self._cut is not None and self._cut[0] == (where.key, base, header) else None
            taken.append(_Packed(base, header, unpack(data, header, where, base) if known is None else known))
        return taken

    def _check_compacted(
        self, tables: Tables, where: BlobLocation, state: PartitionState, gap: tuple[int, int]
    ) -> None:
        """Raise LOG_DAMAGED unless log compaction explains the gap, and every blob that there is to be can be found."""
        if (where.key, state.revision) in self._compacted:
            return
        if not tables.is_cleaned(where.key) or tables.blob_bytes(where.key) != state.bytes:
            raise where.missing(*gap)
        self._compacted.add((where.key, state.revision))

    def _batch(
        self, partition: TopicPartition, where: BlobLocation, taken: list[_Packed], start: int, end: int
    ) -> RecordBatch:
        if len(taken) == 1 and (few := self._few(where, taken[0], start, end)) is not None:
            return _fetched(partition, few)
        decoded = [
            packed.content
            if isinstance(packed.content, Rows)
            else decode(packed.content, packed.header, where, packed.base)
            for packed in taken
        ]
        last = taken[-1]
        self._cut = ((where.key, last.base, last.header), decoded[-1]) if last.end > end else None
        batch = _fetched(partition, joined(decoded))
        if start <= taken[0].base and last.end <= end:
            return batch
        low, high = np.searchsorted(batch.offsets, [start, end]).tolist()
        return _sliced(batch, slice(low, high))

    def _few(self, where: BlobLocation, packed: _Packed, start: int, end: int) -> Rows | None:
        """The rows that are asked for, if they are few of a large blob that was not asked for just before."""
        asked = min(end, packed.end) - max(start, packed.base)
        this = where.key, packed.base, packed.header
        if isinstance(packed.content, Rows) or asked * _FEW > packed.header.records or self._read_in_part == this:
            return None
        self._read_in_part = this
        return decode_part(packed.content, packed.header, where, packed.base, start, end)


def _first_gap(start: int, end: int, covered: list[tuple[int, int]]) -> tuple[int, int] | None:
    """The first offsets of `[start, end)` before or between ascending ranges; behind them only if there are none."""
    position = start
    for low, high in covered:
        if low > position:
            return position, min(low, end)
        position = high
    return None if covered else (start, end)


def _fetched(partition: TopicPartition, rows: Rows) -> RecordBatch:
    return RecordBatch(
        partition.topic, partition.partition, rows.offsets, rows.timestamps_ms, rows.keys, rows.values, rows.headers
    )


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


def _sliced(batch: RecordBatch, rows: slice) -> RecordBatch:
    headers = None if batch.headers is None else batch.headers[rows]
    return RecordBatch(
        batch.topic,
        batch.partition,
        batch.offsets[rows],
        batch.timestamps_ms[rows],
        batch.keys[rows],
        batch.values[rows],
        headers if headers is not None and any(headers) else None,
    )
