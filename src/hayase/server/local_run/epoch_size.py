"""How many records one epoch of a run in the server's process takes: so few that it ends soon, and fits in memory."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence

from hayase.core.records import TopicPartition
from hayase.log.protocol import OutputBatch, RecordBatch

RECORDS_MAX = 20_000
_SECONDS = 0.2
_OUTPUT_BYTES = 2 << 20
_ROW_BYTES = 100


class EpochSize:
    """The records of the next epoch, by what those before have taken.

    A record may become any number of rows (EXPLODE, joins), and each row may take long: the first epoch has one record,
    and each next one at most twice as many.

    Attributes:
        records: of the next epoch.
    """

    def __init__(self) -> None:
        self.records = 1
        self._began_s = 0.0

    def begin(self) -> None:
        """An epoch begins."""
        self._began_s = time.monotonic()

    def note(self, records: int, written: Sequence[OutputBatch]) -> None:
        """An epoch has processed so many records, and written this."""
        if not records:
            return
        size = sum(_ROW_BYTES * len(batch) + sum(map(len, filter(None, batch.values))) for batch in written)
        share = max((time.monotonic() - self._began_s) / _SECONDS, size / _OUTPUT_BYTES, 0.5)
        if share > 1 or records >= self.records:
            self.records = min(max(1, int(records / share)), RECORDS_MAX)


def parts_of(batches: Sequence[RecordBatch], size: EpochSize) -> Iterator[list[RecordBatch]]:
    """Batches in parts for epochs, each with about the same share of every partition.

    So records of a part are of about the same time. Those of a partition stay in the order of the batches. The size may
    change between two parts.
    """
    by_partition: dict[TopicPartition, list[RecordBatch]] = {}
    for batch in batches:
        by_partition.setdefault(TopicPartition(batch.topic, batch.partition), []).append(batch)
    partitions = [_Unprocessed(of_one) for of_one in by_partition.values()]
    while left := sum(partition.records for partition in partitions):
        share = min(1.0, size.records / left)
        part: list[RecordBatch] = []
        room = size.records
        for partition in partitions:
            count = min(partition.records, room, max(1, round(partition.records * share)))
            part += partition.taken(count)
            room -= count
        yield part


class _Unprocessed:
    """What is left of the batches of one partition."""

    def __init__(self, batches: Sequence[RecordBatch]) -> None:
        self.records = size_of(batches)
        self._batches = deque(batches)
        self._begin = 0  # of the first of them

    def taken(self, count: int) -> Iterator[RecordBatch]:
        """The next so many records, of those that are there."""
        self.records -= count
        while count:
            batch = self._batches[0]
            end = min(len(batch), self._begin + count)
            count -= end - self._begin
            if end > self._begin:
                yield batch if end - self._begin == len(batch) else batch.take(range(self._begin, end))
            self._begin = end
            if end == len(batch):
                self._batches.popleft()
                self._begin = 0


def size_of(batches: Sequence[RecordBatch]) -> int:
    """The records of batches."""
    return sum(map(len, batches))
