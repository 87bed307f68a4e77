"""How many records one epoch of a run in the server's process takes: so few that it ends soon, and fits in memory."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

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
    """Batches in parts for epochs, each with about the same share of all batches: their records are of the same time.

    The size may change between two parts.
    """
    begins = [0] * len(batches)
    left = sum(map(len, batches))
    while left:
        share = min(1.0, size.records / left)
        part: list[RecordBatch] = []
        room = size.records
        for place, batch in enumerate(batches):
            rest = len(batch) - begins[place]
            count = min(rest, room, max(1, round(rest * share)))
            if count:
                end = begins[place] + count
                part.append(batch if count == len(batch) else batch.take(range(begins[place], end)))
                begins[place] = end
                room -= count
        left -= size_of(part)
        yield part


def size_of(batches: Sequence[RecordBatch]) -> int:
    """The records of batches."""
    return sum(map(len, batches))
