"""A task in column form: one frame an epoch, or a chunk of it, through each node, then the sinks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import TypeVar, cast

import numpy as np
import polars as pl
import pyarrow as pa

from hayase.core.errors import UnknownStoreError
from hayase.core.metrics import BYTES_PRODUCED, RECORDS_PRODUCED, Metrics
from hayase.core.records import Headers
from hayase.kernel.node.clocks import Clocks
from hayase.kernel.node.column_node import (
    HEADERS,
    KEY,
    NULL,
    TS,
    WINDOW_END,
    WINDOW_START,
    ColumnNode,
    ColumnSpill,
    Order,
    TableColumns,
    order_columns,
    order_of,
)
from hayase.kernel.stateless.merge import merge_in_order
from hayase.serde import SessionWindowedSerde, StringSerde, encode_session_keys, encode_windowed_keys
from hayase.serde.changes import ChangeCodec
from hayase.serde.faults import unwritable
from hayase.serde.murmur2 import partitions_for_array
from hayase.state.stores.protocol import ByteStore
from hayase.state.stores.spec import StoreSpec
from hayase.task.column_inputs import ColumnInputs, decode_columns, decode_frame, merge_chunk, no_inputs
from hayase.task.compiled_subtopology import CompiledSink, CompiledSubtopology
from hayase.task.edges import headers_series, send_rows, strip_order
from hayase.task.input_merge import EdgeInputs, TopicInputs, chunks, input_buffers
from hayase.task.outputs import BY_KEY, stable_groups
from hayase.task.plan import Form
from hayase.task.routing import PARTITIONS, TOPIC, FrameRoute, is_routed, merge_groups
from hayase.task.spilled_frames import ORIGIN, SpilledFrameCache, SpilledRows
from hayase.task.task_context import TaskContext

T = TypeVar("T")

_BY = "__by"
"""Column of a frame on its way out, where keys have windows: see `TopicOutput.choose`."""


class NodeContext:
    """What one node sees of its task (`hayase.kernel.node.column_node.ColumnContext`)."""

    def __init__(
        self,
        name: str,
        position: int,
        context: TaskContext,
        inputs: ColumnInputs,
        tables: Mapping[str, TableColumns],
        sent: Mapping[str, pl.DataFrame],
        made: MutableMapping[str, object],
        spill: SpilledFrameCache | None = None,
    ) -> None:
        self._made = made
        self._sent = sent
        self.spill: ColumnSpill | None = spill
        self.metrics: Metrics = context.metrics
        self.clocks: Clocks = context.clocks
        self.wall_clock_ms = context.wall_clock_ms
        self.input_count = inputs.count
        self.position = position
        self.partition = int(context.task.rpartition("_")[2])
        self._name = name
        self._context = context
        self._inputs = inputs
        self._tables = tables

    def byte_store(self, name: str) -> ByteStore:
        """See TaskContext."""
        return self._context.byte_store(name)

    def store_spec(self, name: str) -> StoreSpec:
        """See TaskContext."""
        return self._context.store_spec(name)

    def table(self, name: str) -> TableColumns:
        """Another node's table; that node has run already."""
        try:
            return self._tables[name]
        except KeyError:
            raise UnknownStoreError("UNKNOWN_TABLE", f"node {name!r} has no rows to look up", node=self._name) from None

    def headers_of(self, frame: pl.DataFrame) -> Sequence[Headers]:
        """See ColumnContext."""
        return _headers_of(frame, self._inputs) or [()] * frame.height

    def keep_headers(self, headers: Sequence[Headers]) -> int:
        """See ColumnContext."""
        return self._inputs.keep_headers(headers)

    def sent(self, name: str) -> pl.DataFrame:
        """What another node sent."""
        return self._sent[name]

    def processing_failed(self, order: Order, error: Exception) -> None:
        """Ask the processing handler about the input record of a row."""
        self._context.failures.handle("processing", self._name, self._inputs.record(order), error)

    def once(self, name: str, make: Callable[[], T]) -> T:
        """See ColumnContext."""
        if name not in self._made:
            self._made[name] = make()
        return cast("T", self._made[name])

    def sends_at_end(self, origins: pl.DataFrame) -> None:
        """See ColumnContext."""
        self._inputs.sends_at_end(self.position, origins)


class ColumnTask:
    """One partition of a sub-topology, a frame at a time; see `Task`.

    Args:
        columns: the compiled nodes.
        partition: of the task.
    """

    form: Form = "columns"

    def __init__(self, columns: Mapping[str, ColumnNode], partition: int) -> None:
        self._columns = columns
        self._partition = partition

    def run_epoch(self, context: TaskContext, topic_inputs: TopicInputs, edge_inputs: EdgeInputs) -> None:
        """See `Task`."""
        partition = self._partition
        buffers = input_buffers(context, topic_inputs, edge_inputs, partition, decode_columns, decode_frame)
        spills: dict[str, SpilledFrameCache] = {}
        last: ColumnInputs | None = None
        for chunk in chunks(buffers, context):
            inputs = merge_chunk(context, chunk)
            if context.space is not None and not chunk.whole and not spills:
                spills = {name: SpilledFrameCache(context.space) for name in self._columns}
            _run_nodes(self._columns, context, inputs, spills)
            last = inputs if last is None or inputs.count else last
            context.after_chunk()
        if last is not None:
            self._flush(context, last, spills)

    def _flush(self, context: TaskContext, last: ColumnInputs, spills: Mapping[str, SpilledFrameCache]) -> None:
        """Send what caches hold back; `last` is the last input with records."""
        for name, spill in spills.items():
            for rows in spill.drain():
                _run_nodes(self._columns, context, no_inputs(context, last, rows.headers), spills, (name, rows))
                context.after_chunk()

    def close(self) -> None:
        """See `Task`; no user code needs closing."""


def _run_nodes(
    columns: Mapping[str, ColumnNode],
    context: TaskContext,
    inputs: ColumnInputs,
    spills: Mapping[str, SpilledFrameCache],
    flushed: tuple[str, SpilledRows] | None = None,
) -> None:
    """One frame through each node, then the sinks; `flushed` is what a node sends from its cache."""
    subtopology = context.subtopology
    sent: dict[str, pl.DataFrame] = {
        source.name: frame for source, frame in zip(subtopology.sources, inputs.frames, strict=True)
    }
    tables: dict[str, TableColumns] = {}
    made: dict[str, object] = {}
    for node in subtopology.processors_in_columns:
        compiled, spill = columns[node.name], spills.get(node.name)
        if spill is not None:
            spill.inputs = inputs
        position = subtopology.order.index(node.name)
        node_context = NodeContext(node.name, position, context, inputs, tables, sent, made, spill)
        sent[node.name] = compiled.run([sent[parent] for parent in node.parents], node_context)
        if flushed is not None and flushed[0] == node.name:
            rows = flushed[1]
            frame = rows.finish(rows.rows, rows.start, node_context)
            inputs.sends_at_end(node_context.position, rows.origins_of(frame))
            sent[node.name] = frame.drop(ORIGIN)
        table = compiled.table_columns()
        if table is not None:
            tables[node.name] = table
    context.clocks.save()
    _run_sinks(subtopology, context, inputs, sent, tables)


def _run_sinks(
    subtopology: CompiledSubtopology,
    context: TaskContext,
    inputs: ColumnInputs,
    sent: Mapping[str, pl.DataFrame],
    tables: Mapping[str, TableColumns],
) -> None:
    by_topic: dict[str, list[pl.DataFrame]] = {}
    groups = merge_groups([(sink.topic, sink.edge) for sink in subtopology.sinks])
    routed = any(is_routed(sink) for sink in subtopology.sinks)
    windowed = any(sink.window_bytes for sink in subtopology.sinks)
    for sink, group in zip(subtopology.sinks, groups, strict=True):
        frames = [sent[parent] for parent in sink.parents]
        if sink.edge:
            frame = _merged(subtopology, sink.topic, frames)
            if frame.height:
                _send_edge(sink, context, inputs, frame)
            continue
        if routed:
            node_context = NodeContext(sink.name, subtopology.order.index(sink.name), context, inputs, tables, sent, {})
            frames = [
                FrameRoute(
                    sink,
                    subtopology.schemas[parent],
                    inputs,
                    lambda rows: _headers_of(rows, inputs),
                    context.partitions_of,
                ).run(frame, node_context)
                for parent, frame in zip(sink.parents, frames, strict=True)
            ]
        for frame in frames:
            written = _serialized(sink, context, inputs, frame)
            if windowed:
                written = written.with_columns(pl.lit(BY_KEY - sink.window_bytes, pl.Int32).alias(_BY))
            context.meter.sent(sink.name, written[TS].to_numpy())
            by_topic.setdefault(group, []).append(written)
    for group, frames in by_topic.items():
        merged = _merged(subtopology, group, frames)
        if not routed:
            _write(context, inputs, group, merged)
            continue
        for rows in merged.explode(PARTITIONS).partition_by(TOPIC, maintain_order=True):
            _write(context, inputs, rows[TOPIC][0], rows)


def _write(context: TaskContext, inputs: ColumnInputs, topic: str, rows: pl.DataFrame) -> None:
    """Serialized rows for one topic."""
    if not rows.height:
        return
    output = context.outputs.topic(topic)
    output.extend(rows["key"].to_list(), rows["bytes"].to_list(), rows[TS].to_list(), _headers_of(rows, inputs))
    chosen = _chosen(rows)
    if chosen is not None and (chosen != BY_KEY).any():
        output.choose(chosen.to_list(), context.partitions_of(topic))
    context.metrics.add(RECORDS_PRODUCED, topic, rows.height)
    size = rows.select(pl.sum_horizontal(pl.col("key", "bytes").bin.size().sum())).item()
    context.metrics.add(BYTES_PRODUCED, topic, int(size))


def _chosen(rows: pl.DataFrame) -> pl.Series | None:
    """Of each row what `TopicOutput.choose` takes; `None`: all keys decide as a whole."""
    said = [name for name in (PARTITIONS, _BY) if name in rows.columns]
    return rows.select(pl.coalesce(*said, pl.lit(BY_KEY, pl.Int32))).to_series() if said else None


def _merged(subtopology: CompiledSubtopology, topic: str, frames: list[pl.DataFrame]) -> pl.DataFrame:
    """Frames on their way into one topic, in the order in which the row form would send their rows."""
    return frames[0] if len(frames) == 1 else merge_in_order(frames, subtopology.merges[topic])


def _headers_of(frame: pl.DataFrame, inputs: ColumnInputs) -> list[Headers] | None:
    if inputs.headers is None or HEADERS not in frame.columns:
        return None
    return [inputs.headers[i] if i is not None else () for i in frame[HEADERS].to_list()]


def _serialized(sink: CompiledSink, context: TaskContext, inputs: ColumnInputs, frame: pl.DataFrame) -> pl.DataFrame:
    """Bytes of keys and values beside the columns that decide order; failing rows go to the production handler."""
    try:
        encoded = pl.DataFrame(
            {"key": _key_bytes(sink, frame), "bytes": _value_bytes(sink, frame)},
            schema={"key": pl.Binary, "bytes": pl.Binary},
        )
    except BaseException as error:
        if not frame.height:
            raise
        fault = unwritable(error, sink.value_serde, frame.row(0))
        if frame.height == 1:
            _production_failed(sink, context, inputs, frame, fault)
            return _serialized(sink, context, inputs, frame.clear())
        half = frame.height // 2
        parts = [_serialized(sink, context, inputs, part) for part in (frame[:half], frame[half:])]
        return pl.concat(parts)
    kept = [TS, *order_columns(frame), *(name for name in (HEADERS, TOPIC, PARTITIONS) if name in frame.columns)]
    return frame.select(kept).with_columns(encoded.get_columns())


def _key_bytes(sink: CompiledSink, frame: pl.DataFrame) -> list[bytes | None]:
    codec = sink.key_codec
    assert codec is not None
    keys = codec.encode_packed(frame[KEY])
    if WINDOW_START in frame.columns:
        starts = frame[WINDOW_START].to_numpy()
        if isinstance(sink.key_serde, SessionWindowedSerde):
            return encode_session_keys(keys, starts, frame[WINDOW_END].to_numpy())  # type: ignore[arg-type, return-value]
        return encode_windowed_keys(keys, starts)  # type: ignore[arg-type, return-value]
    return keys


def _value_bytes(sink: CompiledSink, frame: pl.DataFrame) -> list[bytes | None]:
    codec = sink.value_codec
    assert codec is not None
    names = codec.names if isinstance(codec, ChangeCodec) else codec.schema.names
    return codec.encode(frame.select(names), frame[NULL])


def _send_edge(sink: CompiledSink, context: TaskContext, inputs: ColumnInputs, frame: pl.DataFrame) -> None:
    """Rows for the tasks of the next level; a null key goes to the partition of its position among the epoch's."""
    first = context.outputs.take_numbers(0, sink.name, context.task)
    if sink.frames:
        frame, partitions = _targeted(sink, context, inputs, frame, first)
        payload = strip_order(frame, sink.fields)
        headers = _headers_of(frame, inputs)
    else:
        encoded = _serialized(sink, context, inputs, frame)
        payload = encoded.select("key", pl.col("bytes").alias("value"), pl.col(TS).alias("ts"))
        headers = _headers_of(encoded, inputs)
        partitions = _by_key(encoded["key"].to_arrow(), sink.partitions, first)
    context.outputs.take_numbers(payload.height, sink.name, context.task)
    if headers is not None and any(headers):
        payload = payload.with_columns(headers_series(headers))
    for target, rows in enumerate(stable_groups(partitions, sink.partitions)):
        if len(rows):
            send_rows(context.outputs, sink, context.task, target, payload[rows])


def _targeted(
    sink: CompiledSink, context: TaskContext, inputs: ColumnInputs, frame: pl.DataFrame, first: int
) -> tuple[pl.DataFrame, np.ndarray]:
    """Rows and their partitions; those whose key cannot be serialized go to the production handler instead."""
    if isinstance(sink.key_serde, StringSerde) and frame[KEY].dtype == pl.String:
        return frame, _by_key(frame[KEY].cast(pl.Binary).to_arrow(), sink.partitions, first)
    try:
        return frame, _by_key(pa.array(_key_bytes(sink, frame), pa.large_binary()), sink.partitions, first)
    except BaseException as error:
        if not frame.height:
            raise
        fault = unwritable(error, sink.key_serde, frame[KEY][0])
        if frame.height == 1:
            _production_failed(sink, context, inputs, frame, fault)
            return frame.clear(), np.zeros(0, np.int32)
    half = frame.height // 2
    parts = [_good_keys(sink, context, inputs, part) for part in (frame[:half], frame[half:])]
    # A null key's partition is that of its position among those that are left.
    return _targeted(sink, context, inputs, pl.concat(parts), first)


def _good_keys(sink: CompiledSink, context: TaskContext, inputs: ColumnInputs, frame: pl.DataFrame) -> pl.DataFrame:
    return _targeted(sink, context, inputs, frame, 0)[0]


def _production_failed(
    sink: CompiledSink, context: TaskContext, inputs: ColumnInputs, frame: pl.DataFrame, error: Exception
) -> None:
    context.failures.handle("production", sink.name, inputs.record(order_of(frame, 0)), error, sink.topic or None)


def _by_key(keys: pa.Array, partitions: int, first: int) -> np.ndarray:
    chosen = partitions_for_array(keys, partitions)
    if first % partitions and keys.null_count:
        null = np.flatnonzero(keys.is_null().to_numpy(zero_copy_only=False))
        chosen[null] = (null + first) % partitions
    return chosen
