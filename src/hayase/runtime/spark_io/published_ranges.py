"""What a `to_spark` writes.

Numbered ranges of its topic, recorded before they are written and marked when they are completed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from hayase.core.decoding import decode_json
from hayase.core.errors import CheckpointError, SourceRangeLostError
from hayase.core.records import TopicPartition
from hayase.log.protocol import Log
from hayase.runtime.epochs.epoch_input import fair_ends
from hayase.storage.blobs import BlobStore
from hayase.storage.numbered_names import numbers_of

_DONE = ".done"
_DIGITS = 20


class SparkRange(msgspec.Struct, frozen=True):
    """What one number covers.

    Attributes:
        number: counts up from 0.
        topic_id: of the topic.
        ranges: partition → (start, end) offsets, of all partitions.
    """

    number: int
    topic_id: str
    ranges: Mapping[int, tuple[int, int]]

    @property
    def records(self) -> int:
        """How many offsets it covers."""
        return sum(end - start for start, end in self.ranges.values())


class SparkRanges:
    """Decides what is written next. One thread of one process at a time, which holds the application's lease.

    Args:
        blobs: the checkpoint.
        log: the log.
        name: of the sink.
        topic: its internal topic.
        records_max: of a range.
    """

    def __init__(self, blobs: BlobStore, log: Log, name: str, topic: str, records_max: int) -> None:
        self._blobs = blobs
        self._log = log
        self._name = name
        self._topic = topic
        self._prefix = f"spark/out/{name}/"
        self._records_max = records_max
        self._last: SparkRange | None = None
        self._open = False
        self._found = False

    def next(self) -> SparkRange | None:
        """The range that is recorded but not done, else a new one, which is recorded now.

        `None`: nothing is there to write.

        Raises:
            CheckpointError: a record is damaged.
            SourceRangeLostError: records that were to be written are gone, or the topic is not the same any more.
            LogError: the log could not be reached.
        """
        if not self._found:
            self._find_last()
        info = self._log.describe([self._topic]).get(self._topic)
        if info is None or (self._last is not None and info.topic_id != self._last.topic_id):
            raise self._lost("was deleted" if info is None else "was deleted and recreated")
        partitions = [TopicPartition(self._topic, number) for number in range(info.partitions)]
        there = self._log.start_offsets(partitions)
        if self._last is not None and self._open:
            self._check_starts(there, {p: self._last.ranges[p.partition][0] for p in partitions})
            return self._last
        starts = there if self._last is None else {p: self._last.ranges[p.partition][1] for p in partitions}
        self._check_starts(there, starts)
        ends = self._log.end_offsets(partitions)
        if all(ends[p] <= starts[p] for p in partitions):
            return None
        lag = sum(ends[p] - starts[p] for p in partitions)
        chosen = ends if lag <= self._records_max else fair_ends(starts, ends, self._records_max)
        return self._record(info.topic_id, {p.partition: (starts[p], chosen[p]) for p in partitions})

    def unfinished(self) -> bool:
        """Whether what an epoch wrote is about to be seen; asked before `next` is."""
        return self._log.unfinished(self._partitions())

    def done(self, written: SparkRange) -> None:
        """Mark a range as written; the records and marks before it are not needed any more."""
        self._blobs.put_if_absent(self._blob(written.number) + _DONE, b"")
        self._open = False
        before = self._blob(written.number - 1)
        if written.number > 0:
            self._blobs.delete(before + _DONE)
            self._blobs.delete(before)

    def purge(self, written: SparkRange) -> None:
        """Delete from the topic what is done up to that range: it is not read again.

        Raises:
            LogError: the log could not be reached.
        """
        self._log.delete_records({TopicPartition(self._topic, p): end for p, (_, end) in written.ranges.items()})

    def _partitions(self) -> Sequence[TopicPartition]:
        info = self._log.describe([self._topic]).get(self._topic)
        return [TopicPartition(self._topic, number) for number in range(info.partitions)] if info is not None else []

    def _record(self, topic_id: str, ranges: Mapping[int, tuple[int, int]]) -> SparkRange:
        planned = SparkRange(self._last.number + 1 if self._last is not None else 0, topic_id, ranges)
        name = self._blob(planned.number)
        if not self._blobs.put_if_absent(name, msgspec.json.encode(planned)):
            planned = self._read(name)  # of an attempt that was taken for failed
        self._last, self._open = planned, True
        return planned

    def _find_last(self) -> None:
        names = self._blobs.list(self._prefix)
        numbers = numbers_of(names, self._prefix, _DIGITS)
        if numbers:
            name = self._blob(max(numbers))
            self._last, self._open = self._read(name), name + _DONE not in names
        self._found = True

    def _read(self, name: str) -> SparkRange:
        data = self._blobs.get(name) or b""
        try:
            return decode_json(data, as_type=SparkRange)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise CheckpointError(
                "SPARK_RANGE_CORRUPT",
                f"the record of what to_spark {self._name!r} writes, {name} in the checkpoint, is damaged "
                f"({len(data)} bytes: {error}). Restore the checkpoint from a copy, or start over with `hayase app "
                "reset`",
            ) from error

    def _blob(self, number: int) -> str:
        return f"{self._prefix}{number:0{_DIGITS}d}"

    def _check_starts(self, there: Mapping[TopicPartition, int], wanted: Mapping[TopicPartition, int]) -> None:
        for partition, start in wanted.items():
            if there[partition] > start:
                raise self._lost(
                    f"begins at offset {there[partition]} of partition {partition.partition}, not at {start}"
                )

    def _lost(self, how: str) -> SourceRangeLostError:
        return SourceRangeLostError(
            "SOURCE_RANGE_LOST",
            f"what to_spark {self._name!r} was to write is lost: its internal topic {how}. Start over with `hayase app "
            "reset`",
            topic=self._topic,
        )
