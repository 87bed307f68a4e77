"""The input of a task in one epoch: queues, the order in which their records are processed, and chunks of that order.

A queue is one partition of one topic, or what one task of a lower level sent over one edge. Inside a queue offset order
is kept; of several queues the one whose head has the smallest timestamp goes next, ties by source order in the
topology, then by partition. That is the same as sorting stably by the running maximum of each queue's timestamps: a
record behind a larger timestamp has to wait for it, and is then at the head with a smaller one.

Answers of foreign-key joins come before all else, those of the last join first. They are of epochs before, an answer
that finds its row changed is dropped, and in columns the nodes that ask run behind those that take answers.

An epoch need not be in memory as a whole: each queue is read a bit at a time. Of what has been read, that part is
certain to come next which lies before the last record read of every queue that goes on: by running maximum of the
timestamps, then by queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from hayase.core.errors import CheckpointError
from hayase.core.records import Headers, SourceRecord, TopicPartition, headers_bytes
from hayase.log.protocol import Int64Array, LogReader, RecordBatch
from hayase.state.delta.journal import EdgeRow
from hayase.task.compiled_subtopology import CompiledSource
from hayase.task.edges import is_typed, origin_order, raw_records, read_row
from hayase.task.epoch_record import EpochRecord
from hayase.task.plan import TaskPlan
from hayase.task.task_context import TaskContext

T = TypeVar("T")

TopicInput = RecordBatch | Iterable[RecordBatch]
"""Records of one partition: all of them, or one batch behind the other."""
TopicInputs = Sequence[tuple[str, TopicInput]]
"""Source name and records of each partition of the log, in tie order."""
EdgeInputs = Mapping[tuple[str, str], Iterable[EdgeRow]]
"""Rows by (edge, origin), ascending by `seq`."""

_RECORD_BYTES = 200
"""What a record costs in memory beside the bytes of its key and value, and its headers."""
_SAMPLED = 16
_EPOCH_BITS = 32
_EARLY_MAX = 1 << 20
"""More queues than a task has: those that come before all others have numbers below the smallest timestamp."""


class RecordSource(Protocol):
    """Where records are looked up."""

    headers: list[Headers] | None

    def record(self, row: int) -> SourceRecord:
        """One record, for handlers."""
        ...

    def take(self, rows: Sequence[int]) -> RecordSource:
        """A copy of some records, which can be pickled; they are its first rows, in this order."""
        ...


@dataclass(slots=True)
class Queue:
    """One queue of a task, or some consecutive records of it, decoded.

    Attributes:
        source: position of its source among the sub-topology's sources.
        raw: what was read: where handlers find the records.
        rows: row numbers in `raw` of the records that are still there after decoding and time extraction.
        timestamps_ms: event time of each of these.
        content: in columns a frame, aligned with `rows`; in rows what is left after the source's prefix
            (`task.run_prefix.Arrivals`).
    """

    source: int
    raw: RecordSource
    rows: npt.NDArray[np.int64]
    timestamps_ms: Int64Array
    content: Any

    def part(self, start: int, end: int) -> Queue:
        """Some consecutive records."""
        if start == 0 and end == len(self.rows):
            return self
        cut = slice(start, end)
        return Queue(self.source, self.raw, self.rows[cut], self.timestamps_ms[cut], self.content[cut])


Decode = Callable[[TaskContext, int, CompiledSource, RecordBatch], Queue]
"""The context, the position of the source, the source, records of one queue."""
DecodeFrame = Callable[[TaskContext, int, CompiledSource, int, pl.DataFrame, Int64Array], Queue]
"""The same for a typed frame of an edge: before it the task's partition, behind it the records' offsets."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive records of the merged order.

    Attributes:
        queues: the records of each queue, in tie order.
        order: queue number and row number of each record.
        whole: this is all of the epoch's input.
        last: no chunk follows.
    """

    queues: list[Queue]
    order: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
    whole: bool
    last: bool

    def __len__(self) -> int:
        return len(self.order[0])


class InputBuffer:
    """One queue of a task: what of it is read and not yet handed out.

    Args:
        pieces: what is to be read.
        size: about how much memory a piece takes, in bytes.
        decode: makes a queue of consecutive pieces.
        early: records come before those of queues with a lower number, whatever their timestamps; 0: by these.
    """

    def __init__(
        self, pieces: Iterable[T], size: Callable[[T], int], decode: Callable[[list[T]], Queue], early: int = 0
    ) -> None:
        self._pieces: Iterator[object] = iter(pieces)
        self._size: Callable[[Any], int] = size
        self._decode: Callable[[list[Any]], Queue] = decode
        self._queue: Queue | None = None
        self._releases: Int64Array = np.empty(0, np.int64)
        self._taken = 0
        self._early = early
        self.release = np.iinfo(np.int64).min + (_EARLY_MAX - early if early else 0)
        """Largest timestamp read so far."""
        self.done = False

    @property
    def empty(self) -> bool:
        """Whether everything read was handed out."""
        return self._queue is None or self._taken == len(self._releases)

    def read(self, max_bytes: int | None) -> int:
        """Read on; returns about how many bytes. `None`: everything."""
        pieces, total = [], 0
        while max_bytes is None or total < max_bytes:
            piece = next(self._pieces, None)
            if piece is None:
                self.done = True
                break
            pieces.append(piece)
            total += self._size(piece)
        self._queue, self._taken = (self._decode(pieces) if pieces else None), 0
        times = self._queue.timestamps_ms if self._queue is not None else np.empty(0, np.int64)
        if self._early:
            times = np.full(len(times), self.release)
        self._releases = np.maximum(np.maximum.accumulate(times), self.release) if len(times) else times
        if len(times):
            self.release = int(self._releases[-1])
        return total

    def take(self, release: int | None, *, inclusive: bool) -> tuple[Queue, Int64Array] | None:
        """Hand out what comes before a release, or at it too; `None`: all that is there."""
        if self._queue is None:
            return None
        end = len(self._releases)
        if release is not None:
            end = int(np.searchsorted(self._releases, release, side="right" if inclusive else "left"))
        start, self._taken = self._taken, max(end, self._taken)
        return self._queue.part(start, self._taken), self._releases[start : self._taken]


def chunks(buffers: Sequence[InputBuffer], context: TaskContext) -> Iterator[Chunk]:
    """The merged order of the buffers, which are given in tie order; at least one chunk, the last one perhaps empty.

    With the epoch's space in `context`, a chunk is about as large as its share; without, there is one chunk.
    """
    space = context.space
    share = None if space is None else max(1, space.share // max(1, len(buffers)))
    whole = True
    while True:
        for buffer in buffers:
            if buffer.empty and not buffer.done:
                taken = buffer.read(share)
                if space is not None:
                    space.read_bytes += taken
        going_on = [(buffer.release, number) for number, buffer in enumerate(buffers) if not buffer.done]
        chunk = _next(buffers, min(going_on, default=None), whole=whole and not going_on)
        if len(chunk) or chunk.last:
            context.meter.merged([queue.timestamps_ms for queue in chunk.queues], chunk.order)
            yield chunk
            whole = False
        if chunk.last:
            return


def _next(buffers: Sequence[InputBuffer], bound: tuple[int, int] | None, *, whole: bool) -> Chunk:
    queues: list[Queue] = []
    releases: list[Int64Array] = []
    for number, buffer in enumerate(buffers):
        release, last = bound if bound is not None else (None, 0)
        taken = buffer.take(release, inclusive=number <= last)
        if taken is not None:
            queues.append(taken[0])
            releases.append(taken[1])
    return Chunk(queues, release_order(releases), whole, bound is None)


def merge_order(times: Sequence[Int64Array]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The processing order of several queues, given in tie order: queue number and row number of each record.

    Example:
        >>> queue, row = merge_order([np.array([10, 5]), np.array([7, 12])])
        >>> list(zip(queue.tolist(), row.tolist()))
        [(1, 0), (0, 0), (0, 1), (1, 1)]
    """
    return release_order([np.maximum.accumulate(t) if len(t) else t for t in times])


def release_order(releases: Sequence[Int64Array]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The same, given the running maximum of each queue's timestamps."""
    lengths = [len(release) for release in releases]
    queue = np.repeat(np.arange(len(releases)), lengths)
    row = np.concatenate([np.arange(n) for n in lengths]) if lengths else np.empty(0, np.int64)
    if sum(n > 0 for n in lengths) <= 1:
        return queue, row
    order = np.lexsort((row, queue, np.concatenate(releases)))
    return queue[order], row[order]


def first_edge_offset(epoch: int) -> int:
    """Where the offsets of the records begin that come over an edge in an epoch.

    Handlers and dead letters name a record by topic, partition and offset. What crosses a shuffle has no place in a
    log, so its offset is made of the epoch and of its position in what all origins send: the same in every attempt of
    the epoch, and another for each record of a partition.
    """
    return epoch << _EPOCH_BITS


def input_buffers(
    context: TaskContext,
    topic_inputs: TopicInputs,
    edge_inputs: EdgeInputs,
    partition: int,
    decode: Decode,
    decode_frame: DecodeFrame | None = None,
) -> list[InputBuffer]:
    """The inputs of a task in tie order: source order, then partition or origin.

    Args:
        context: the epoch's.
        topic_inputs: see TopicInputs.
        edge_inputs: see EdgeInputs.
        partition: of the task.
        decode: for serialized records.
        decode_frame: for edges that carry typed columns.
    """
    buffers: list[InputBuffer] = []
    for position, source in enumerate(context.subtopology.sources):
        if source.edge is None:
            given_records = [given for name, given in topic_inputs if name == source.name]
            early = position + 1 if position in context.subtopology.answers else 0
            buffers += [_topic_buffer(context, position, source, given, decode, early) for given in given_records]
            continue
        origins = sorted((origin for edge, origin in edge_inputs if edge == source.edge), key=origin_order)
        for number, origin in enumerate(origins):
            rows = edge_inputs[(source.edge, origin)]
            first = context.edge_offset + number
            frames = decode_frame if source.frames else None
            buffers.append(
                _edge_buffer(context, position, source, rows, partition, first, len(origins), decode, frames)
            )
    return buffers


def _topic_buffer(
    context: TaskContext, position: int, source: CompiledSource, given: TopicInput, decode: Decode, early: int
) -> InputBuffer:
    def decoded(batches: list[RecordBatch]) -> Queue:
        raw = RecordBatch.of(batches[0].topic, batches[0].partition, batches)
        return decode(context, position, source, raw)

    return InputBuffer(batches_of(given), record_bytes, decoded, early)


def _edge_buffer(
    context: TaskContext,
    position: int,
    source: CompiledSource,
    rows: Iterable[EdgeRow],
    partition: int,
    first: int,
    step: int,
    decode: Decode,
    decode_frame: DecodeFrame | None,
) -> InputBuffer:
    """The records of one origin; `step` apart, their offsets leave room for those of the others."""

    def decoded(some: list[tuple[int, pl.DataFrame]]) -> Queue:
        nonlocal first
        frames = [frame for _, frame in some]
        frame = frames[0] if len(frames) == 1 else pl.concat(frames, how="diagonal")
        offsets = np.arange(first, first + step * frame.height, step)
        first += step * frame.height
        if is_typed(frame):
            _check_typed(source, frame, taken=decode_frame is not None)
            if decode_frame is not None:
                return decode_frame(context, position, source, partition, frame, offsets)
        return decode(context, position, source, raw_records(str(source.edge), partition, frame, offsets))

    return InputBuffer(((row.size_bytes, read_row(row)) for row in rows), itemgetter(0), decoded)


def _check_typed(source: CompiledSource, frame: pl.DataFrame, *, taken: bool) -> None:
    """Check that this program can take typed columns.

    Those of an epoch that an earlier program began may come to a task that runs in rows by now, or lack a field that no
    node of that program looked at. Serialized records are decoded in either form.
    """
    wanted = source.schema.value.names if source.schema is not None and source.schema.value is not None else []
    missing = [
        name for name in wanted if name not in frame.columns and (source.fields is None or name in source.fields)
    ]
    if not taken or missing:
        why = f"fields {', '.join(missing)} are missing" if taken else "they are typed columns, and it runs in rows"
        raise CheckpointError(
            "OPEN_EPOCH_OF_ANOTHER_PROGRAM",
            f"the epoch was begun by another program, and what was sent then through {source.edge!r} cannot be read by "
            f"this one: {why}. Start the earlier program once more to finish the epoch, then this one; or start over "
            "with `hayase app reset`",
            topic=source.edge,
            node=source.name,
        )


def record_bytes(batch: RecordBatch) -> int:
    """About how much memory records take; looks at some of them."""
    some = slice(None, None, _SAMPLED)
    values, keys = batch.values[some], batch.keys[some]
    sampled = sum(map(len, filter(None, values))) + sum(map(len, filter(None, keys)))
    if batch.headers is not None:
        sampled += sum(map(headers_bytes, batch.headers[some]))
    return len(batch) * _RECORD_BYTES + sampled * len(batch) // max(1, len(values))


def batches_of(given: TopicInput) -> Iterable[RecordBatch]:
    """Records of a partition as batches."""
    return [given] if isinstance(given, RecordBatch) else given


def fetch_inputs(reader: LogReader, record: EpochRecord, task: TaskPlan) -> list[tuple[str, Iterator[RecordBatch]]]:
    """Source node and records of every topic partition that the task reads in the epoch, in tie order.

    Empty ranges are left out. The records are fetched when they are asked for; that raises SourceRangeLostError if a
    range is no longer there.
    """
    inputs = []
    for source, topic, partition in task.topic_partitions:
        start, end = record.ranges.get(topic, {}).get(partition, (0, 0))
        if start < end:
            inputs.append((source, reader.fetch(TopicPartition(topic, partition), start, end)))
    return inputs


def records_to_read(record: EpochRecord, task: TaskPlan) -> int:
    """How many records of topics the task reads in the epoch at most: the same for every attempt."""
    ranges = (record.ranges.get(topic, {}).get(partition, (0, 0)) for _, topic, partition in task.topic_partitions)
    return sum(end - start for start, end in ranges)
