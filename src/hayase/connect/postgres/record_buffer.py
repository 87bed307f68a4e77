"""Collects the records that one poll of a stream hands out."""

from __future__ import annotations

import dataclasses

import msgspec

from hayase.connect.model import SerializedRecords, SourceRecord


@dataclasses.dataclass(slots=True)
class _OpenBatch:
    """Records of one topic that are written as bytes."""

    topic: str
    keys: list[bytes | None] = dataclasses.field(default_factory=list)
    values: list[bytes | None] = dataclasses.field(default_factory=list)
    timestamps_ms: list[int] = dataclasses.field(default_factory=list)


class RecordBuffer:
    """Records in the order of each topic; those that are bytes already are put together by topic.

    The records of one `take` are published together, so what matters is their order inside of a topic.

    Attributes:
        count: how many records were added since `take`.

    Args:
        partition: the source partition of all of them.
    """

    __slots__ = ("_open", "_partition", "_records", "count")

    def __init__(self, partition: dict[str, object]) -> None:
        self._partition = partition
        self._open: dict[str, _OpenBatch] = {}
        self._records: list[SourceRecord | SerializedRecords] = []
        self.count = 0

    def add(self, record: SourceRecord) -> None:
        """Add a record whose values are still to be converted."""
        if self._open:
            self._close_batches()
        self._records.append(record)
        self.count += 1

    def add_bytes(self, topic: str, key: bytes | None, value: bytes | None, timestamp_ms: int) -> None:
        """Add a record that is written already."""
        batch = self._open.get(topic)
        if batch is None:
            batch = self._open[topic] = _OpenBatch(topic)
        batch.keys.append(key)
        batch.values.append(value)
        batch.timestamps_ms.append(timestamp_ms)
        self.count += 1

    def take(self, offset: dict[str, object]) -> list[SourceRecord | SerializedRecords]:
        """The records added since the last call; the last of them has the offset."""
        self._close_batches()
        records, self._records, self.count = self._records, [], 0
        if records:
            records[-1] = msgspec.structs.replace(records[-1], source_offset=offset)
        return records

    def _close_batches(self) -> None:
        self._records.extend(
            SerializedRecords(
                topic=batch.topic,
                keys=batch.keys,
                values=batch.values,
                timestamps_ms=batch.timestamps_ms,
                source_partition=self._partition,
                source_offset=None,
            )
            for batch in self._open.values()
        )
        self._open.clear()
