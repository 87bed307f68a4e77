"""The queues of a task, to be read a bit at a time.

Partitions of the log, and what tasks of lower levels sent over edges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter

import numpy as np
import polars as pl

from hayase.core.errors import CheckpointError
from hayase.log.protocol import RecordBatch
from hayase.state.delta.journal import EdgeRow
from hayase.task.chunks import EdgeInputs, InputBuffer, TopicInput, TopicInputs, batches_of, record_bytes
from hayase.task.compiled_subtopology import CompiledSource
from hayase.task.edges import is_typed, origin_order, raw_records, read_row
from hayase.task.queues import Int64Array, Queue
from hayase.task.task_context import TaskContext

Decode = Callable[[TaskContext, int, CompiledSource, RecordBatch], Queue]
"""Services, the position of the source, the source, records of one queue."""
DecodeFrame = Callable[[TaskContext, int, CompiledSource, int, pl.DataFrame, Int64Array], Queue]
"""The same for a typed frame of an edge: before it the task's partition, behind it the records' offsets."""
_EPOCH_BITS = 32


def first_edge_offset(epoch: int) -> int:
    """Where the offsets of the records begin that come over an edge in an epoch.

    Handlers and dead letters name a record by topic, partition and offset. What crosses a shuffle has no place in a
    log, so its offset is made of the epoch and of its position in what all origins send: the same in every attempt of
    the epoch, and another for each record of a partition.
    """
    return epoch << _EPOCH_BITS


def input_feeds(
    services: TaskContext,
    topic_inputs: TopicInputs,
    edge_inputs: EdgeInputs,
    partition: int,
    decode: Decode,
    decode_frame: DecodeFrame | None = None,
) -> list[InputBuffer]:
    """The queues in tie order: source order, then partition or origin.

    Args:
        services: the epoch's.
        topic_inputs: see TopicInputs.
        edge_inputs: see EdgeInputs.
        partition: of the task.
        decode: for serialized records.
        decode_frame: for edges that carry typed columns.
    """
    feeds: list[InputBuffer] = []
    for position, source in enumerate(services.subtopology.sources):
        if source.edge is None:
            given_records = [given for name, given in topic_inputs if name == source.name]
            feeds += [_topic_feed(services, position, source, given, decode) for given in given_records]
            continue
        origins = sorted((origin for edge, origin in edge_inputs if edge == source.edge), key=origin_order)
        for number, origin in enumerate(origins):
            rows = edge_inputs[(source.edge, origin)]
            first = services.edge_offset + number
            frames = decode_frame if source.frames else None
            feeds.append(_edge_feed(services, position, source, rows, partition, first, len(origins), decode, frames))
    return feeds


def _topic_feed(
    services: TaskContext, position: int, source: CompiledSource, given: TopicInput, decode: Decode
) -> InputBuffer:
    def decoded(batches: list[RecordBatch]) -> Queue:
        raw = RecordBatch.of(batches[0].topic, batches[0].partition, batches)
        return decode(services, position, source, raw)

    return InputBuffer(batches_of(given), record_bytes, decoded)


def _edge_feed(
    services: TaskContext,
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
                return decode_frame(services, position, source, partition, frame, offsets)
        return decode(services, position, source, raw_records(str(source.edge), partition, frame, offsets))

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
