"""Collects the records that one poll of a stream hands out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

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
    """Records in order; those that are bytes already are put together, as long as their topic stays the same.

    Attributes:
        count: how many records were added since `take`.

    Args:
        partition: the source partition of all of them.
        now_us: microseconds since 1970.
    """

    def __init__(self, partition: dict[str, object], now_us: Callable[[], int]) -> None:
        self._partition = partition
        self._now_us = now_us
        self._open: _OpenBatch | None = None
        self._records: list[SourceRecord | SerializedRecords] = []
        self.count = 0

    def add(self, record: SourceRecord) -> None:
        """Add a record whose values are still to be converted."""
        self._close_batch(None)
        self._records.append(record)
        self.count += 1

    def add_bytes(self, topic: str, key: bytes | None, value: bytes | None) -> None:
        """Add a record that is written already."""
        if self._open is None or self._open.topic != topic:
            self._close_batch(None)
            self._open = _OpenBatch(topic)
        batch = self._open
        batch.keys.append(key)
        batch.values.append(value)
        batch.timestamps_ms.append(self._now_us() // 1000)
        self.count += 1

    def take(self, offset: dict[str, object]) -> list[SourceRecord | SerializedRecords]:
        """The records added since the last call; the last of them has the offset."""
        self._close_batch(offset)
        records, self._records, self.count = self._records, [], 0
        if records:
            records[-1] = msgspec.structs.replace(records[-1], source_offset=offset)
        return records

    def _close_batch(self, offset: dict[str, object] | None) -> None:
        batch, self._open = self._open, None
        if batch is not None:
            self._records.append(
                SerializedRecords(
                    topic=batch.topic,
                    keys=batch.keys,
                    values=batch.values,
                    timestamps_ms=batch.timestamps_ms,
                    source_partition=self._partition,
                    source_offset=offset,
                )
            )
