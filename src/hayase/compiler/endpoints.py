"""The sources and sinks of a sub-topology as compiled: which serdes they read and write with, in rows and columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hayase.compiler.options import CompileOptions
from hayase.compiler.serdes import (
    AutoSerde,
    LocalPickleSerde,
    key_writing_codec,
    reading_serde,
    schema_serde,
    without_pickle,
    writing_codec,
)
from hayase.core.errors import TopologyError
from hayase.kernel.frame.order import MergeOrder, RecordOrder
from hayase.kernel.node.edge import EdgeSchema
from hayase.processor.timestamps import record_timestamp
from hayase.serde import Serdes
from hayase.serde.changes import ChangeCodec, ChangeSerde
from hayase.serde.protocol import Serde
from hayase.serde.windowed import WindowedSerde
from hayase.state.stores.spec import StoreSpec
from hayase.task.compiled_subtopology import CompiledSink, CompiledSource, CompiledSubtopology
from hayase.task.routing import merge_groups, routing_without_columns
from hayase.topology.nodes import ProcessorNode, SinkNode, SourceNode
from hayase.topology.topology import Topology


class SentOverEdge(NamedTuple):
    """What crosses a repartition topic: rows have types too, but only columns can be sent as frames."""

    schema: EdgeSchema
    frames: bool


def compiled_source(
    topology: Topology, node: SourceNode, edges: Mapping[str, SentOverEdge], options: CompileOptions
) -> CompiledSource:
    """A source with the serdes and the extractor in effect."""
    edge = next((topic for topic in node.topics if topic in topology.repartitions), None)
    if edge is None:
        key = node.key_serde or options.default_serde("key", node.first_topic) or Serdes.bytes()
        value = node.value_serde or options.default_serde("value", node.first_topic) or Serdes.bytes()
        extractor = node.timestamp_extractor or options.default_extractor
        key, value = without_pickle(key), without_pickle(value)
        return CompiledSource(node.name, key, value, extractor, schema=serde_schema(key, value))
    sent = edges.get(edge)
    key, value = _edge_serdes(topology, edge, node, sent, options)
    frames = sent is not None and sent.frames
    schema = sent.schema if sent is not None and frames else serde_schema(key, value)
    return CompiledSource(node.name, key, value, record_timestamp(), edge, frames, schema)


def _edge_serdes(
    topology: Topology, edge: str, node: SourceNode | SinkNode, sent: SentOverEdge | None, options: CompileOptions
) -> tuple[Serde, Serde]:
    """Both ends of an edge must have the same serdes, so this looks at the source and the sink of the topic."""
    key, value = node.key_serde, node.value_serde
    for other in topology.nodes:
        if (isinstance(other, SourceNode) and edge in other.topics) or (
            isinstance(other, SinkNode) and other.topic == edge
        ):
            key, value = key or other.key_serde, value or other.value_serde
    key = key or options.default_serde("key", edge)
    if key is None and sent is not None and sent.schema.key is not None:
        key = schema_serde(sent.schema.key)
    if key is None:
        raise TopologyError(
            "NO_KEY_SERDE",
            f"no serde is known for the key of {edge!r}; give one with Grouped.with_(key_serde=…), annotate the "
            "function that makes the key, or set default.key.serde",
            node=node.name,
        )
    value = value or options.default_serde("value", edge)
    if value is None and sent is not None and sent.frames and sent.schema.value is not None:
        value = schema_serde(sent.schema.value)
    return key, value or LocalPickleSerde()


def serde_schema(key: Serde, value: Serde) -> EdgeSchema | None:
    """What serdes make in columns; `None` if one of them has no column form."""
    key_codec, value_codec = key.columns, value.columns
    if key_codec is None or value_codec is None:
        return None
    updates = isinstance(value_codec, ChangeCodec)
    return EdgeSchema(key_codec.schema, value_codec.schema, table=updates, old_values=updates)


def sent_schema(source: CompiledSource, edges: Mapping[str, SentOverEdge]) -> EdgeSchema | None:
    """What is known about the records of a source that rows alone can read."""
    if isinstance(source.value_serde, ChangeSerde):
        return serde_schema(source.key_serde, source.value_serde.inner)
    return edges[source.edge].schema if source.edge is not None and source.edge in edges else None


def column_sinks(
    topology: Topology, sinks: Sequence[SinkNode], schemas: Mapping[str, EdgeSchema], options: CompileOptions
) -> tuple[tuple[CompiledSink, ...] | None, str]:
    """The sinks of a sub-topology in columns; `None` and the reason if one of them has no column form."""
    column_sinks = []
    for node in sinks:
        schema = schemas[node.parents[0]]
        sink = row_sink(topology, node, options, SentOverEdge(schema, frames=True))
        key = key_writing_codec(sink.key_serde, schema)
        value = writing_codec(sink.value_serde, schema.value) if schema.value is not None else None
        if key is None or value is None:
            return None, f"sink {node.name} has a serde that cannot write what arrives in columns"
        if sink.edge and sink.partitioner is not None:
            return None, f"sink {node.name} has a partitioner within a shuffle"
        without = routing_without_columns(sink, schema)
        if without is not None:
            return None, without
        column_sinks.append(dataclasses.replace(sink, key_codec=key, value_codec=value, frames=sink.edge))
    return tuple(column_sinks), ""


def row_sink(
    topology: Topology, node: SinkNode, options: CompileOptions, sent: SentOverEdge | None = None
) -> CompiledSink:
    """A sink with the serdes in effect, which takes records one by one."""
    edge = node.topic in topology.repartitions
    if edge:
        assert node.topic is not None
        key, value = _edge_serdes(topology, node.topic, node, sent, options)
    else:
        key = node.key_serde or options.default_serde("key", node.topic) or AutoSerde()
        value = node.value_serde or options.default_serde("value", node.topic) or AutoSerde()
        key, value = without_pickle(key), without_pickle(value)
    return CompiledSink(
        node.name,
        node.parents,
        node.topic or "",
        key,
        value,
        edge,
        extractor=node.extractor,
        partitioner=node.partitioner,
        window_bytes=key.window_bytes if node.windows_apart and isinstance(key, WindowedSerde) else 0,
    )


def sink_merges(
    topology: Topology,
    processors: Sequence[ProcessorNode],
    sinks: Sequence[SinkNode],
    stores: Mapping[str, StoreSpec],
    options: CompileOptions,
) -> dict[str, MergeOrder] | None:
    """How frames are merged on their way into one topic; `None` if order columns cannot tell for one of them."""
    order = RecordOrder([*processors, *sinks], stores, caching=options.caching)
    edges: dict[str, list[tuple[str, str]]] = {}
    groups = merge_groups([(sink.topic, sink.topic in topology.repartitions) for sink in sinks])
    for sink, group in zip(sinks, groups, strict=True):
        edges.setdefault(group, []).extend((parent, sink.name) for parent in sink.parents)
    merges = {}
    for topic, into in edges.items():
        if len(into) > 1:
            merge = order.merge(into)
            if merge is None:
                return None
            merges[topic] = merge
    return merges


def written_serdes(compiled: Mapping[str, CompiledSubtopology], topic: str) -> tuple[Serde, Serde]:
    """The serdes that read keys and values of what a topology writes to a topic of the log; KeyError if it does not."""
    for subtopology in compiled.values():
        for sink in subtopology.sinks:
            if sink.topic == topic:
                edge = subtopology.schemas.get(sink.parents[0])
                key = edge.key if edge is not None and not edge.windowed else None
                value = edge.value if edge is not None else None
                return reading_serde(sink.key_serde, key), reading_serde(sink.value_serde, value)
    raise KeyError(topic)
