"""A task in column form: one frame an epoch through each node, then the sinks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from hayase.core.errors import SerializationError, UnknownStoreError
from hayase.core.metrics import RECORDS_PRODUCED, Metrics
from hayase.core.records import Headers
from hayase.kernel.columns import HEADERS, KEY, NULL, TS, WINDOW_START, TableColumns, order_columns
from hayase.kernel.merge import merge_in_order
from hayase.kernel.rows import Clocks
from hayase.serde import StringSerde, encode_windowed_keys
from hayase.serde.murmur2 import partitions_for_array, partitions_for_keys
from hayase.serde.protocol import BARE_FIELD
from hayase.state.delta import EdgeRow
from hayase.state.protocol import ByteStore
from hayase.state.spec import StoreSpec
from hayase.task.column_inputs import ColumnInputs, column_inputs
from hayase.task.edges import edge_rows, headers_series, strip_order
from hayase.task.outputs import stable_groups
from hayase.task.program import SinkProgram, UnitProgram
from hayase.task.queues import RawRecords
from hayase.task.routing import PARTITIONS, TOPIC, FrameRoute, is_routed, merge_groups
from hayase.task.services import TaskServices


class NodeContext:
    """What one node sees of its task (`hayase.kernel.columns.ColumnContext`)."""

    def __init__(
        self, name: str, position: int, services: TaskServices, inputs: ColumnInputs, tables: Mapping[str, TableColumns]
    ) -> None:
        self.metrics: Metrics = services.metrics
        self.clocks: Clocks = services.clocks
        self.wall_clock_ms = services.wall_clock_ms
        self.input_count = inputs.count
        self.position = position
        self._name = name
        self._services = services
        self._inputs = inputs
        self._tables = tables

    def byte_store(self, name: str) -> ByteStore:
        """See TaskServices."""
        return self._services.byte_store(name)

    def store_spec(self, name: str) -> StoreSpec:
        """See TaskServices."""
        return self._services.store_spec(name)

    def table(self, name: str) -> TableColumns:
        """Another node's table; that node has run already."""
        try:
            return self._tables[name]
        except KeyError:
            raise UnknownStoreError("UNKNOWN_TABLE", f"node {name!r} has no rows to look up", node=self._name) from None

    def processing_failed(self, row: int, error: Exception) -> None:
        """Ask the processing handler about an input record."""
        row = min(row, self._inputs.count - 1)
        self._services.failures.handle("processing", self._name, self._inputs.record(row), error)


def run_columns(
    program: UnitProgram,
    services: TaskServices,
    topic_inputs: Sequence[tuple[str, RawRecords]],
    edge_inputs: Mapping[tuple[str, str], Sequence[EdgeRow]],
    partition: int,
) -> None:
    """Run one epoch; see `row_epoch.run_rows` for the arguments."""
    assert program.columns is not None
    inputs = column_inputs(services, topic_inputs, edge_inputs, partition)
    sent: dict[str, pl.DataFrame] = {
        source.name: frame for source, frame in zip(program.sources, inputs.frames, strict=True)
    }
    tables: dict[str, TableColumns] = {}
    for node in program.processors:
        compiled = program.columns[node.name]
        context = NodeContext(node.name, program.order.index(node.name), services, inputs, tables)
        sent[node.name] = compiled.run([sent[parent] for parent in node.parents], context)
        table = compiled.table_columns()
        if table is not None:
            tables[node.name] = table
    services.clocks.save()
    _run_sinks(program, services, inputs, sent, tables)


def _run_sinks(
    program: UnitProgram,
    services: TaskServices,
    inputs: ColumnInputs,
    sent: Mapping[str, pl.DataFrame],
    tables: Mapping[str, TableColumns],
) -> None:
    by_topic: dict[str, list[pl.DataFrame]] = {}
    groups = merge_groups([(sink.topic, sink.edge) for sink in program.sinks])
    routed = any(is_routed(sink) for sink in program.sinks)
    for sink, group in zip(program.sinks, groups, strict=True):
        frames = [sent[parent] for parent in sink.parents]
        if sink.edge:
            frame = _merged(program, sink.topic, frames)
            if frame.height:
                _send_edge(sink, services, inputs, frame)
            continue
        if routed:
            context = NodeContext(sink.name, program.order.index(sink.name), services, inputs, tables)
            frames = [
                FrameRoute(
                    sink,
                    program.schemas[parent],
                    inputs,
                    lambda rows: _headers_of(rows, inputs),
                    services.partitions_of,
                ).run(frame, context)
                for parent, frame in zip(sink.parents, frames, strict=True)
            ]
        by_topic.setdefault(group, []).extend(_serialized(sink, services, inputs, frame) for frame in frames)
    for group, frames in by_topic.items():
        merged = _merged(program, group, frames)
        if not routed:
            _write(services, inputs, group, merged)
            continue
        for rows in merged.explode(PARTITIONS).partition_by(TOPIC, maintain_order=True):
            _write(services, inputs, rows[TOPIC][0], rows)


def _write(services: TaskServices, inputs: ColumnInputs, topic: str, rows: pl.DataFrame) -> None:
    """Serialized rows for one topic."""
    if not rows.height:
        return
    output = services.outputs.topic(topic)
    output.extend(rows["key"].to_list(), rows["bytes"].to_list(), rows[TS].to_list(), _headers_of(rows, inputs))
    if PARTITIONS in rows.columns and rows[PARTITIONS].null_count() < rows.height:
        output.choose(rows[PARTITIONS].fill_null(-1).to_list(), services.partitions_of(topic))
    services.metrics.add(RECORDS_PRODUCED, topic, rows.height)


def _merged(program: UnitProgram, topic: str, frames: list[pl.DataFrame]) -> pl.DataFrame:
    """Frames on their way into one topic, in the order in which the row form would send their rows."""
    return frames[0] if len(frames) == 1 else merge_in_order(frames, program.merges[topic])


def _headers_of(frame: pl.DataFrame, inputs: ColumnInputs) -> list[Headers] | None:
    if inputs.headers is None or HEADERS not in frame.columns:
        return None
    return [inputs.headers[i] if i is not None else () for i in frame[HEADERS].to_list()]


def _serialized(sink: SinkProgram, services: TaskServices, inputs: ColumnInputs, frame: pl.DataFrame) -> pl.DataFrame:
    """Bytes of keys and values beside the columns that decide order; failing rows go to the production handler."""
    try:
        encoded = pl.DataFrame(
            {"key": _key_bytes(sink, frame), "bytes": _value_bytes(sink, frame)},
            schema={"key": pl.Binary, "bytes": pl.Binary},
        )
    except SerializationError as error:
        if frame.height == 1:
            _production_failed(sink, services, inputs, frame, error)
            return _serialized(sink, services, inputs, frame.clear())
        half = frame.height // 2
        parts = [_serialized(sink, services, inputs, part) for part in (frame[:half], frame[half:])]
        return pl.concat(parts)
    kept = [TS, *order_columns(frame), *(name for name in (HEADERS, TOPIC, PARTITIONS) if name in frame.columns)]
    return frame.select(kept).with_columns(encoded.get_columns())


def _key_bytes(sink: SinkProgram, frame: pl.DataFrame) -> list[bytes | None]:
    codec = sink.key_codec
    assert codec is not None
    key = frame[KEY]
    fields = key.to_frame(BARE_FIELD) if codec.schema.bare else key.struct.unnest()
    keys = codec.encode(fields, key.is_null())
    if WINDOW_START in frame.columns:
        return encode_windowed_keys(keys, frame[WINDOW_START].to_numpy())  # type: ignore[arg-type, return-value]
    return keys


def _value_bytes(sink: SinkProgram, frame: pl.DataFrame) -> list[bytes | None]:
    codec = sink.value_codec
    assert codec is not None
    return codec.encode(frame.select(codec.schema.names), frame[NULL])


def _send_edge(sink: SinkProgram, services: TaskServices, inputs: ColumnInputs, frame: pl.DataFrame) -> None:
    """Rows for the tasks of the next level; a null key goes to the partition of its position."""
    if sink.frames:
        frame, partitions = _targeted(sink, services, inputs, frame)
        payload = strip_order(frame, sink.fields)
        headers = _headers_of(frame, inputs)
    else:
        encoded = _serialized(sink, services, inputs, frame)
        payload = encoded.select("key", pl.col("bytes").alias("value"), pl.col(TS).alias("ts"))
        headers = _headers_of(encoded, inputs)
        partitions = partitions_for_keys(encoded["key"].to_list(), sink.partitions)
    if headers is not None and any(headers):
        payload = payload.with_columns(headers_series(headers))
    for target, rows in enumerate(stable_groups(partitions, sink.partitions)):
        if len(rows):
            services.outputs.rows.extend(edge_rows(sink, services.task, target, payload[rows]))


def _targeted(
    sink: SinkProgram, services: TaskServices, inputs: ColumnInputs, frame: pl.DataFrame
) -> tuple[pl.DataFrame, np.ndarray]:
    """Rows and their partitions; those whose key can not be serialized go to the production handler instead."""
    if isinstance(sink.key_serde, StringSerde) and frame[KEY].dtype == pl.String:
        return frame, partitions_for_array(frame[KEY].cast(pl.Binary).to_arrow(), sink.partitions)
    try:
        return frame, partitions_for_keys(_key_bytes(sink, frame), sink.partitions)
    except SerializationError as error:
        if frame.height == 1:
            _production_failed(sink, services, inputs, frame, error)
            return frame.clear(), np.zeros(0, np.int32)
    half = frame.height // 2
    parts = [_good_keys(sink, services, inputs, part) for part in (frame[:half], frame[half:])]
    # A null key's partition is that of its position among those that are left.
    return _targeted(sink, services, inputs, pl.concat(parts))


def _good_keys(sink: SinkProgram, services: TaskServices, inputs: ColumnInputs, frame: pl.DataFrame) -> pl.DataFrame:
    return _targeted(sink, services, inputs, frame)[0]


def _production_failed(
    sink: SinkProgram, services: TaskServices, inputs: ColumnInputs, frame: pl.DataFrame, error: Exception
) -> None:
    row = min(int(frame["__o0"][0]), inputs.count - 1)
    services.failures.handle("production", sink.name, inputs.record(row), error)
