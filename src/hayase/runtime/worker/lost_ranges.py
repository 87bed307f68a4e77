"""Reading ranges of which the beginning may be gone."""

from __future__ import annotations

from collections.abc import Iterator

from hayase.core.errors import SourceRangeLostError
from hayase.core.records import TopicPartition
from hayase.log.protocol import Log, LogReader, RecordBatch


class SkippingReader:
    """A `LogReader` that skips records that are gone, where `source.range.lost=reset` allows it.

    The epoch planner logs and counts what an epoch skips; here it is only read around.

    Args:
        log: says where a partition begins.
        reader: reads what is there.
    """

    def __init__(self, log: Log, reader: LogReader) -> None:
        self._log = log
        self._reader = reader

    def fetch(self, partition: TopicPartition, start: int, end: int) -> Iterator[RecordBatch]:
        """As `LogReader.fetch`, from the first offset that is still there."""
        position = start
        while True:
            try:
                for batch in self._reader.fetch(partition, position, end):
                    if len(batch):
                        position = int(batch.offsets[-1]) + 1
                    yield batch
                return
            except SourceRangeLostError:
                first = self._log.start_offsets([partition])[partition]
                if first <= position:
                    raise
                if first >= end:
                    return
                position = first

    def close(self) -> None:
        """As `LogReader.close`."""
        self._reader.close()
