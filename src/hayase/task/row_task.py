"""A task in row form: decode, run the prefixes, merge, process, flush."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import cast

import numpy as np

from hayase.core.records import Record
from hayase.log.protocol import RecordBatch
from hayase.serde.faults import of_sides, read_rows
from hayase.task.column_inputs import decode_columns
from hayase.task.compiled_subtopology import CompiledSink, CompiledSource
from hayase.task.edges import EdgeBuffer
from hayase.task.event_time import extract_times
from hayase.task.input_merge import Chunk, EdgeInputs, InputBuffer, Queue, TopicInputs, chunks, input_buffers
from hayase.task.meter import count_consumed
from hayase.task.plan import Form
from hayase.task.row_epoch import Entry, RowEpoch, TaskLife
from hayase.task.run_prefix import FAILED, Arrivals, run_prefix
from hayase.task.task_context import TaskContext


class RowTask:
    """One partition of a sub-topology, one record at a time; see `Task`."""

    form: Form = "rows"

    def __init__(self, partition: int) -> None:
        self._life = TaskLife()
        self._partition = partition

    def run_epoch(self, context: TaskContext, topic_inputs: TopicInputs, edge_inputs: EdgeInputs) -> None:
        """See `Task`."""
        _run_epoch(self._life, context, input_buffers(context, topic_inputs, edge_inputs, self._partition, _decoded))

    def close(self) -> None:
        """See `Task`."""
        self._life.close()


def _run_epoch(life: TaskLife, context: TaskContext, buffers: Sequence[InputBuffer]) -> None:
    edge_buffers: dict[str, EdgeBuffer] = {}

    def emit_edge(
        sink: CompiledSink,
        key: bytes | None,
        value: bytes | None,
        record: Record,
        partitions: Sequence[int] | None,
    ) -> None:
        buffer = edge_buffers.get(sink.name)
        if buffer is None:
            buffer = edge_buffers[sink.name] = EdgeBuffer(sink, context.task)
            context.outputs.reached.setdefault(sink.topic)
        buffer.add(key, value, record.timestamp_ms, record.headers, partitions)

    def send_edges() -> None:
        for name in sorted(edge_buffers):
            edge_buffers[name].flush(context.outputs)
        context.after_chunk()

    all_chunks = chunks(buffers, context)
    first = next(all_chunks)
    epoch = RowEpoch(life, context, emit_edge, None if first.whole else send_edges)
    for chunk in chain((first,), all_chunks):
        _process(epoch, chunk)
        if not chunk.last:
            epoch.hold_back()
            send_edges()
    epoch.finish()
    send_edges()
    epoch.release()


def _process(epoch: RowEpoch, chunk: Chunk) -> None:
    """Take every record through the nodes, in merged order."""
    queues, (order, position) = chunk.queues, chunk.order
    ready = [_arriving(queue, epoch.entries(queue.source)) for queue in queues]
    raw = [cast("RecordBatch", queue.raw) for queue in queues]
    if len(queues) == 1:
        for nodes, record, row in ready[0]:
            epoch.process(nodes, record, raw[0], row)
    else:
        turns = [np.flatnonzero(order == number)[queue.content.positions] for number, queue in enumerate(queues)]
        numbers = np.repeat(np.arange(len(queues)), [len(each) for each in turns])
        if turns:
            numbers = numbers[np.argsort(np.concatenate(turns), kind="stable")]
        for number in numbers.tolist():
            nodes, record, row = next(ready[number])
            epoch.process(nodes, record, raw[number], row)
    if len(order):
        last = int(order[-1])
        epoch.at(raw[last], int(queues[last].rows[position[-1]]))


def _arriving(queue: Queue, entries: Sequence[Sequence[Entry]]) -> Iterator[tuple[Sequence[Entry], Record, int]]:
    """What comes out of the prefix of a queue: the nodes that it enters, the record, and its row in `queue.raw`."""
    arrivals: Arrivals = queue.content
    rows = queue.rows[arrivals.positions].tolist()
    times = queue.timestamps_ms[arrivals.positions].tolist()
    headers, targets = queue.raw.headers, arrivals.targets
    if isinstance(targets, int) and headers is None:
        nodes = entries[targets]
        for key, value, time, row in zip(arrivals.keys, arrivals.values, times, rows, strict=True):
            yield nodes, Record(key, value, time), row
        return
    if isinstance(targets, int):
        targets = [targets] * len(rows)
    for target, key, value, time, row in zip(targets, arrivals.keys, arrivals.values, times, rows, strict=True):
        if target == FAILED:
            yield [_Failed(key, value)], Record(None, None, time), row
        else:
            yield entries[target], Record(key, value, time, headers[row] if headers is not None else ()), row


@dataclass(slots=True)
class _Failed:
    """Stands for a node of a prefix, when the turn of a record comes on which it failed."""

    name: str
    error: Exception

    def process(self, record: Record) -> None:
        raise self.error


def _decoded(context: TaskContext, position: int, source: CompiledSource, raw: RecordBatch) -> Queue:
    if source.prefix is None:
        return decode_rows(context, position, source, raw)
    queue = decode_columns(context, position, source, raw)
    queue.content = run_prefix(source.prefix, queue.content, context)
    return queue


def decode_rows(context: TaskContext, position: int, source: CompiledSource, raw: RecordBatch) -> Queue:
    """Keys, values and times of some records of a queue; those that fail go to the deserialization handler."""
    count_consumed(context.metrics, raw)
    context.meter.received_bytes(raw)
    if source.edge is None:
        source.fields_of_schema.look(source.name, source.value_serde, raw)
    keys, bad_keys = read_rows(source.key_serde, raw.keys)
    values, bad_values = read_rows(source.value_serde, raw.values)
    bad = of_sides(bad_keys, bad_values)
    rows = np.arange(len(raw))
    if bad:
        for row in sorted(bad):
            context.failures.handle("deserialization", source.name, raw.record(row), bad[row])
        keep = [row for row in range(len(raw)) if row not in bad]
        rows = np.array(keep, np.int64)
        keys = [keys[row] for row in keep]
        values = [values[row] for row in keep]
    times, valid = extract_times(
        source.extractor, source.name, raw, rows, (keys, values),
        clocks=context.clocks, metrics=context.metrics, wall_clock_ms=context.wall_clock_ms,
    )  # fmt: skip
    if valid is not None:
        kept = np.flatnonzero(valid)
        rows, times = rows[kept], times[kept]
        keys = [keys[i] for i in kept]
        values = [values[i] for i in kept]
    context.meter.received(source.name, times)
    return Queue(position, raw, rows, times, Arrivals(np.arange(len(rows)), 0, keys, values))
