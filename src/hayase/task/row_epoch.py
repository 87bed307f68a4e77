"""One epoch of a task in row form: decode, merge, process, flush."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hayase.core.errors import SerializationError
from hayase.core.metrics import RECORDS_CONSUMED
from hayase.core.records import Record
from hayase.serde.protocol import Serde
from hayase.state.delta import EdgeRow
from hayase.task.edges import EdgeBuffer, origin_order, raw_records, read_payloads
from hayase.task.event_time import extract_times
from hayase.task.program import SinkProgram, SourceProgram
from hayase.task.queues import Queue, RawRecords, merge_order
from hayase.task.row_task import RowTask
from hayase.task.services import TaskServices


def run_rows(
    task: RowTask,
    services: TaskServices,
    topic_inputs: Sequence[tuple[str, RawRecords]],
    edge_inputs: Mapping[tuple[str, str], Sequence[EdgeRow]],
    partition: int,
) -> None:
    """Run one epoch.

    Args:
        task: the nodes; opened here.
        services: the epoch's.
        topic_inputs: source name and records of each partition of the log, in tie order.
        edge_inputs: rows by (edge, origin), each list ascending by `seq`.
        partition: of the task.
    """
    buffers: dict[str, EdgeBuffer] = {}

    def emit_edge(sink: SinkProgram, key: bytes | None, value: bytes | None, record: Record[Any, Any]) -> None:
        buffer = buffers.get(sink.name)
        if buffer is None:
            buffer = buffers[sink.name] = EdgeBuffer(sink, services.task)
        buffer.add(key, value, record.timestamp_ms, record.headers)

    queues = row_queues(services, topic_inputs, edge_inputs, partition)
    task.open(services, emit_edge)
    order = merge_order([queue.timestamps_ms for queue in queues])
    ready = [
        (queue.source, queue.raw, queue.rows.tolist(), queue.timestamps_ms.tolist(), *queue.content) for queue in queues
    ]
    for number, position in zip(order[0].tolist(), order[1].tolist(), strict=True):
        source, raw, rows, times, keys, values = ready[number]
        origin = raw.record(rows[position])
        task.process(source, Record(keys[position], values[position], times[position], origin.headers), origin)
    task.finish()
    for name in sorted(buffers):
        buffers[name].flush(services.outputs)


def row_queues(
    services: TaskServices,
    topic_inputs: Sequence[tuple[str, RawRecords]],
    edge_inputs: Mapping[tuple[str, str], Sequence[EdgeRow]],
    partition: int,
) -> list[Queue]:
    """The decoded queues of an epoch in tie order: source order, then partition or origin."""
    queues = []
    for position, source in enumerate(services.program.sources):
        if source.edge is None:
            found = [raw for name, raw in topic_inputs if name == source.name]
        else:
            origins = sorted((o for edge, o in edge_inputs if edge == source.edge), key=origin_order)
            found = [
                raw_records(source.edge, partition, read_payloads(edge_inputs[(source.edge, origin)]))
                for origin in origins
            ]
        for raw in found:
            services.metrics.add(RECORDS_CONSUMED, raw.topic, len(raw))
            queues.append(decode_rows(services, position, source, raw))
    return queues


def decode_rows(services: TaskServices, position: int, source: SourceProgram, raw: RawRecords) -> Queue:
    """Keys, values and times of one queue; records that fail go to the deserialization handler."""
    keys, bad_keys = _decode(source.key_serde, raw.keys)
    values, bad_values = _decode(source.value_serde, raw.values)
    bad = {**bad_values, **bad_keys}
    rows = np.arange(len(raw))
    if bad:
        for row in sorted(bad):
            services.failures.handle("deserialization", source.name, raw.record(row), bad[row])
        keep = [row for row in range(len(raw)) if row not in bad]
        rows = np.array(keep, np.int64)
        keys = [keys[row] for row in keep]
        values = [values[row] for row in keep]
    times, valid = extract_times(
        source.extractor, source.name, raw, rows, (keys, values),
        clocks=services.clocks, metrics=services.metrics, wall_clock_ms=services.wall_clock_ms,
    )  # fmt: skip
    if valid is not None:
        kept = np.flatnonzero(valid)
        rows, times = rows[kept], times[kept]
        keys = [keys[i] for i in kept]
        values = [values[i] for i in kept]
    return Queue(position, raw, rows, times, (keys, values))


def _decode(serde: Serde[Any], data: Sequence[bytes | None]) -> tuple[list[Any], dict[int, Exception]]:
    decode = serde.from_bytes
    try:
        return [None if item is None else decode(item) for item in data], {}
    except SerializationError:
        pass
    values: list[Any] = []
    bad: dict[int, Exception] = {}
    for row, item in enumerate(data):
        try:
            values.append(None if item is None else decode(item))
        except SerializationError as error:
            values.append(None)
            bad[row] = error
    return values, bad
