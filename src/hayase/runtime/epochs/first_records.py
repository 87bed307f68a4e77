"""Single records that the planner of epochs looks at, to know about which times a range is."""

from __future__ import annotations

from collections.abc import Iterable

from hayase.core.records import TopicPartition
from hayase.log.protocol import Log
from hayase.runtime.epochs.bounds import Offsets

_TAIL = 16
_NO_LIMIT_MS = 1 << 62


def last_time_ms(log: Log, partition: TopicPartition, start: int, end: int) -> int:
    """Timestamp of the last record before the end; the largest number if there is none (markers, compaction)."""
    reader = log.reader()
    try:
        tail = [b for b in reader.fetch(partition, max(start, end - _TAIL), end) if len(b)]
    finally:
        reader.close()
    return int(tail[-1].timestamps_ms[-1]) if tail else _NO_LIMIT_MS


def first_records(
    log: Log, starts: Offsets, ends: Offsets, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, tuple[int, int]]:
    """Offset and timestamp of the first record of each that has one: that at the start may have been compacted away."""
    reader = log.reader()
    try:
        batches = {p: next((b for b in reader.fetch(p, starts[p], ends[p]) if len(b)), None) for p in partitions}
    finally:
        reader.close()
    return {p: (int(b.offsets[0]), int(b.timestamps_ms[0])) for p, b in batches.items() if b is not None}
