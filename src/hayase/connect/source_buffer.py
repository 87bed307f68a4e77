"""What a source task has polled and not published: records by topic, and offsets."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field

import msgspec
import numpy as np

from hayase.connect.conversion import SerializedRecord
from hayase.connect.model import SerializedRecords, SourceOffset, SourceRecord
from hayase.core.decoding import decode_msgpack
from hayase.core.records import Headers
from hayase.log.protocol import OutgoingBatch, OutputBatch, StoredBatch

_RECORD_BYTES = 100
"""What a record costs in memory beside its key and value."""


@dataclass(slots=True)
class _Rows:
    """Consecutive records of a topic that name their partition, or that do not."""

    topic: str
    keyed: bool
    first: int
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    timestamps_ms: list[int] = field(default_factory=list)
    headers: list[Headers] = field(default_factory=list)
    partitions: list[int] = field(default_factory=list)

    def batch(self) -> OutputBatch:
        return OutputBatch(
            self.topic,
            self.keys,
            self.values,
            self.timestamps_ms,
            None if self.keyed else np.array(self.partitions, np.int32),
            self.headers if any(self.headers) else None,
            first=self.first,
        )


@dataclass(slots=True)
class SourceBuffer:
    """Records and offsets in the order in which they were polled.

    Attributes:
        batches: complete batches.
        offsets: the last offset of each partition of the source, by key of the offset record.
        count: how many records.
        bytes: about how much memory the records that are in memory take.
        records: those whose task wants `commit_record`.
    """

    batches: list[OutgoingBatch] = field(default_factory=list)
    offsets: dict[bytes, SourceOffset | None] = field(default_factory=dict)
    count: int = 0
    bytes: int = 0
    records: list[SourceRecord] = field(default_factory=list)
    _rows: dict[str, _Rows] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to publish, not even an offset."""
        return not self.offsets and not self.count

    def topics(self) -> list[str]:
        """Names of the topics that records go to."""
        return list(self._counts)

    def add(self, record: SerializedRecord, now_ms: int) -> None:
        """Take one record."""
        keyed = record.partition is None
        rows = self._rows.get(record.topic)
        if rows is None or rows.keyed != keyed:
            if rows is not None:
                self.batches.append(rows.batch())
            rows = self._rows[record.topic] = _Rows(record.topic, keyed, self._counts.get(record.topic, 0))
        rows.keys.append(record.key)
        rows.values.append(record.value)
        rows.timestamps_ms.append(now_ms if record.timestamp_ms is None else record.timestamp_ms)
        rows.headers.append(record.headers)
        if record.partition is not None:
            rows.partitions.append(record.partition)
        self._counts[record.topic] = self._counts.get(record.topic, 0) + 1
        self.count += 1
        self.bytes += _RECORD_BYTES + len(record.key or b"") + len(record.value or b"")

    def add_serialized(self, records: SerializedRecords) -> None:
        """Take records that their task has serialized."""
        rows = self._rows.pop(records.topic, None)
        if rows is not None:
            self.batches.append(rows.batch())
        first = self._counts.get(records.topic, 0)
        self.batches.append(
            OutputBatch(
                records.topic, records.keys, records.values, records.timestamps_ms, None, records.headers, first=first
            )
        )
        self._counts[records.topic] = first + len(records.values)
        self.count += len(records.values)
        self.bytes += _RECORD_BYTES * len(records.values)
        self.bytes += sum(map(len, filter(None, records.keys))) + sum(map(len, filter(None, records.values)))

    def close_rows(self) -> None:
        """Make batches of all records."""
        self.batches.extend(rows.batch() for rows in self._rows.values())
        self._rows.clear()

    def move_to(self, other: SourceBuffer) -> None:
        """Put everything behind what another buffer has."""
        self.close_rows()
        other.close_rows()
        other.batches.extend(self.batches)
        other.offsets.update(self.offsets)
        other.count += self.count
        other.bytes += self.bytes
        other.records.extend(self.records)
        for topic, count in self._counts.items():
            other._counts[topic] = other._counts.get(topic, 0) + count
        self.clear()

    def spill(self) -> None:
        """Move the records from memory to an unnamed file."""
        self.close_rows()
        self.batches = [spilled(batch) if isinstance(batch, OutputBatch) else batch for batch in self.batches]
        self.bytes = 0

    def clear(self) -> None:
        """Forget everything."""
        self.batches, self.offsets, self.records, self._rows, self._counts = [], {}, [], {}, {}
        self.count = self.bytes = 0


def spilled(batch: OutputBatch) -> StoredBatch:
    """A batch in an unnamed file, which goes with the last reference to it."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the batch
    partitions = None if batch.partitions is None else batch.partitions.tolist()
    file.write(
        msgspec.msgpack.encode((batch.keys, batch.values, batch.timestamps_ms, partitions, batch.headers, batch.first))
    )

    def load() -> OutputBatch:
        file.seek(0)
        keys, values, timestamps_ms, numbers, headers, first = decode_msgpack(file.read(), as_type=_Stored)
        chosen = None if numbers is None else np.array(numbers, np.int32)
        return OutputBatch(batch_topic, keys, values, timestamps_ms, chosen, headers, first)

    batch_topic = batch.topic
    return StoredBatch(batch.topic, len(batch), load)


_Stored = tuple[list[bytes | None], list[bytes | None], list[int], list[int] | None, list[Headers] | None, int]
