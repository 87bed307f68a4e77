"""Choosing the form of each sub-topology: columns if every node, as written, has a column form; else rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from hayase.compiler.prefix import find_prefix, prefix_nodes
from hayase.compiler.purity import definition_digest, is_pure
from hayase.compiler.read_tables import read_tables
from hayase.compiler.serdes import (
    AutoSerde,
    LocalPickleSerde,
    key_writing_codec,
    schema_serde,
    without_pickle,
    writing_codec,
)
from hayase.core.errors import TopologyError
from hayase.kernel.frame.order import MergeOrder, RecordOrder
from hayase.kernel.node.column_node import ColumnNode, CompileContext
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.registry import COLUMNS
from hayase.processor.timestamps import TimestampExtractor, record_timestamp
from hayase.serde import Serdes
from hayase.serde.changes import ChangeCodec, ChangeSerde
from hayase.serde.protocol import Serde, Side
from hayase.state.stores.spec import StoreSpec
from hayase.task.compiled_subtopology import SinkProgram, SourceProgram
from hayase.task.event_time import needs_partition_time
from hayase.task.plan import Form
from hayase.task.routing import merge_groups, routing_without_columns
from hayase.topology import operators as op
from hayase.topology.lines import naming_lines
from hayase.topology.nodes import ProcessorNode, SinkNode, SourceNode
from hayase.topology.topology import Topology


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """Settings that decide how nodes are compiled."""

    default_key_serde: Serde | None = None
    default_value_serde: Serde | None = None
    default_extractor: TimestampExtractor = field(default_factory=record_timestamp)
    caching: bool = True
    form: Literal["auto", "rows", "columns"] = "auto"
    compacted: frozenset[str] = frozenset()
    """Source topics with compaction: a replay may find fewer records, so nothing that reads them is pure."""
    own_handlers: bool = True
    """Exception handlers are Hayase's own, which answer the same when an epoch is replayed."""
    prefix: bool = True
    """In rows, run the expressions right below the sources in columns (`hayase.task.prefix`)."""
    registry_settings: Mapping[str, object] = field(default_factory=dict)
    """For the default serdes of sinks and edges, see `Serde.for_topic`."""
    app_configs: Mapping[str, object] = field(default_factory=dict)
    """For processors, see `ProcessingContext.app_configs`."""

    def default_serde(self, side: Side, topic: str | None) -> Serde | None:
        """The default serde for keys or values of a topic (`None`: chosen record by record), if there is one."""
        default = self.default_key_serde if side == "key" else self.default_value_serde
        return default if default is None or topic is None else default.for_topic(topic, side, self.registry_settings)


@dataclass(frozen=True, slots=True)
class SubtopologyNodes:
    """The nodes of a sub-topology or global table, in order."""

    id: str
    sources: tuple[SourceNode, ...]
    processors: tuple[ProcessorNode, ...]
    sinks: tuple[SinkNode, ...]


@dataclass(frozen=True)
class AnalyzedSubtopology:
    """A sub-topology with its form chosen.

    Attributes:
        reason: why this form, for `describe` and error messages.
        journalled: what it sends is made once and kept in deltas, whatever its code does when an epoch is replayed.
        definition: digest of a sub-topology that sends rows and is not journalled: they are made again by every
            attempt.
        schemas: what nodes send, as far as it is known, also where the sub-topology runs in rows.
        merges: see CompiledSubtopology.
        prefix: names of the nodes that run in columns in a sub-topology that runs in rows.
    """

    nodes: SubtopologyNodes
    form: Form
    reason: str
    stateful: bool
    pure: bool
    sources: tuple[SourceProgram, ...]
    sinks: tuple[SinkProgram, ...]
    stores: Mapping[str, StoreSpec]
    columns: Mapping[str, ColumnNode] | None
    schemas: Mapping[str, EdgeSchema]
    merges: Mapping[str, MergeOrder]
    prefix: tuple[str, ...]
    journalled: bool
    definition: str

    @property
    def shown_form(self) -> str:
        """The form and its reason, for people."""
        in_columns = f", prefix in columns: {', '.join(self.prefix)}" if self.prefix else ""
        return f"{self.form}{in_columns} ({self.reason})"


class SentOverEdge(NamedTuple):
    """What crosses a repartition topic: rows have types too, but only columns can be sent as frames."""

    schema: EdgeSchema
    frames: bool


def subtopologies_of(topology: Topology, levels: Mapping[str, int]) -> list[SubtopologyNodes]:
    """All sub-topologies, lower levels first."""
    subtopologies = [
        SubtopologyNodes(f"global{i}", (table.source,), (table.processor,), ())
        for i, table in enumerate(topology.global_tables)
    ]
    for sub in topology.subtopologies:
        processors = tuple(node for node in sub.nodes if isinstance(node, ProcessorNode))
        subtopologies.append(SubtopologyNodes(str(sub.id), sub.sources, processors, sub.sinks))
    return sorted(subtopologies, key=lambda subtopology: levels[subtopology.id])


def compile_subtopologies(
    topology: Topology, levels: Mapping[str, int], options: CompileOptions
) -> dict[str, AnalyzedSubtopology]:
    """Every sub-topology in its form, by id.

    Raises:
        TopologyError: an expression does not fit the schema it is applied to.
    """
    edges: dict[str, SentOverEdge] = {}
    compiled: dict[str, AnalyzedSubtopology] = {}
    for subtopology in subtopologies_of(topology, levels):
        with naming_lines(topology):
            compiled[subtopology.id] = analyzed = _compile(topology, subtopology, edges, options)
        for sink in analyzed.sinks:
            if sink.edge and sink.parents[0] in analyzed.schemas:
                edges[sink.topic] = SentOverEdge(analyzed.schemas[sink.parents[0]], analyzed.columns is not None)
    return compiled


def _compile(
    topology: Topology, subtopology: SubtopologyNodes, edges: Mapping[str, SentOverEdge], options: CompileOptions
) -> AnalyzedSubtopology:
    stores = {
        name: dataclasses.replace(spec, caching=spec.caching and options.caching)
        for name, spec in topology.stores.items()
    }
    sources = tuple(_source(topology, node, edges, options) for node in subtopology.sources)
    compiled, schemas, missing = _columns(subtopology, sources, edges, stores, options)
    columns, reason = (None, missing[0]) if missing else (compiled, "every node has a column form")
    if options.form == "rows":
        columns, reason = None, "processing.form is 'rows'"
    timed = any(isinstance(node.operator, op.UserCode) for node in subtopology.processors)
    sinks: tuple[SinkProgram, ...] | None = None
    merges: dict[str, MergeOrder] = {}
    if columns is not None:
        sinks, without = _column_sinks(topology, subtopology, schemas, options)
        ordered = _sink_merges(topology, subtopology, stores, options)
        if sinks is None or ordered is None:
            columns, sinks = None, None
            reason = without or "sinks of one topic get records in an order that only rows can tell"
        else:
            merges = ordered
    if columns is None and options.form == "columns":
        raise TopologyError("NO_COLUMN_FORM", f"processing.form is 'columns', but {reason}; use 'auto'")
    if sinks is None:
        sent = {name: SentOverEdge(schema, frames=False) for name, schema in schemas.items()}
        sinks = tuple(_row_sink(topology, node, options, sent.get(node.parents[0])) for node in subtopology.sinks)
    if columns is None:
        sources = tuple(dataclasses.replace(source, frames=False) for source in sources)
        # what a prefix drops would not move the stream time that processors see, and that rows expire by
        timeless = not (timed or _forgetting(subtopology, stores))
        if options.prefix and timeless:
            sources = _with_prefixes(topology, subtopology, sources, schemas, compiled)
    own = [name for node in subtopology.processors for name in node.stores]
    stateful = bool(own) or timed or any(needs_partition_time(source.extractor) for source in sources)
    pure = (
        not stateful
        and options.own_handlers
        and is_pure(subtopology.sources, sources, subtopology.processors, subtopology.sinks, sinks, options.compacted)
    )
    sends_rows = any(sink.edge for sink in sinks)
    return AnalyzedSubtopology(
        subtopology, "rows" if columns is None else "columns", reason, stateful,
        pure, sources, sinks, stores, columns, schemas, merges, prefix_nodes(sources),
        journalled=stateful or (sends_rows and not pure),
        definition=definition_digest(sources, subtopology.processors, sinks) if pure and sends_rows else "",
    )  # fmt: skip


def _source(
    topology: Topology, node: SourceNode, edges: Mapping[str, SentOverEdge], options: CompileOptions
) -> SourceProgram:
    edge = next((topic for topic in node.topics if topic in topology.repartitions), None)
    if edge is None:
        key = node.key_serde or options.default_serde("key", node.first_topic) or Serdes.bytes()
        value = node.value_serde or options.default_serde("value", node.first_topic) or Serdes.bytes()
        extractor = node.timestamp_extractor or options.default_extractor
        key, value = without_pickle(key), without_pickle(value)
        return SourceProgram(node.name, key, value, extractor, schema=_serde_schema(key, value))
    sent = edges.get(edge)
    key, value = _edge_serdes(topology, edge, node, sent, options)
    frames = sent is not None and sent.frames
    schema = sent.schema if sent is not None and frames else _serde_schema(key, value)
    return SourceProgram(node.name, key, value, record_timestamp(), edge, frames, schema)


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


def _serde_schema(key: Serde, value: Serde) -> EdgeSchema | None:
    key_codec, value_codec = key.columns, value.columns
    if key_codec is None or value_codec is None:
        return None
    updates = isinstance(value_codec, ChangeCodec)
    return EdgeSchema(key_codec.schema, value_codec.schema, table=updates, old_values=updates)


def _columns(
    subtopology: SubtopologyNodes,
    sources: Sequence[SourceProgram],
    edges: Mapping[str, SentOverEdge],
    stores: Mapping[str, StoreSpec],
    options: CompileOptions,
) -> tuple[dict[str, ColumnNode], dict[str, EdgeSchema], list[str]]:
    """The compiled nodes, of those that have a column form.

    What nodes send, as far as it is known; and what forces rows.

    Rows want the schemas too: a sum of a field of doubles begins with 0.0 in both forms.
    """
    schemas: dict[str, EdgeSchema] = {}
    reasons: list[str] = []
    for source in sources:
        schema = source.schema
        if schema is None:
            reasons.append(f"source {source.name} has a serde without a schema")
            schema = _sent_schema(source, edges)
        if source.extractor.kind == "callable":
            reasons.append(f"source {source.name} has a callable timestamp extractor")
        if schema is not None:
            schemas[source.name] = schema
    compiled: dict[str, ColumnNode] = {}
    read = read_tables(subtopology.processors)
    for node in subtopology.processors:
        column_node = _column_node(node, subtopology, schemas, read, stores, options)
        if column_node is None:
            reasons.append(f"node {node.name} ({type(node.operator).__name__}), as written, has no column form")
            # Versioned stores have rows only, but rows want the types too.
            plain = _without_versions(node, stores)
            column_node = None if plain is None else _column_node(node, subtopology, schemas, read, plain, options)
            if column_node is not None:
                schemas[node.name] = column_node.output
            continue
        compiled[node.name] = column_node
        schemas[node.name] = column_node.output
    reasons += [
        f"store {name} has a time to live, which changes from row to row" for name in _forgetting(subtopology, stores)
    ]
    return compiled, schemas, reasons


def _forgetting(subtopology: SubtopologyNodes, stores: Mapping[str, StoreSpec]) -> list[str]:
    """The sub-topology's own stores that have a time to live."""
    own = dict.fromkeys(name for node in subtopology.processors for name in node.stores)
    return [name for name in own if stores[name].ttl_ms is not None]


def _without_versions(node: ProcessorNode, stores: Mapping[str, StoreSpec]) -> dict[str, StoreSpec] | None:
    """The stores as if those of the node were not versioned; `None` if none is."""
    versioned = [name for name in node.stores if stores[name].versioned]
    plain = {name: dataclasses.replace(stores[name], kind="timestamped_key_value") for name in versioned}
    return {**stores, **plain} if plain else None


def _sent_schema(source: SourceProgram, edges: Mapping[str, SentOverEdge]) -> EdgeSchema | None:
    """What is known about the records of a source that rows alone can read."""
    if isinstance(source.value_serde, ChangeSerde):
        return _serde_schema(source.key_serde, source.value_serde.inner)
    return edges[source.edge].schema if source.edge is not None and source.edge in edges else None


def _with_prefixes(
    topology: Topology,
    subtopology: SubtopologyNodes,
    sources: Sequence[SourceProgram],
    schemas: Mapping[str, EdgeSchema],
    compiled: Mapping[str, ColumnNode],
) -> tuple[SourceProgram, ...]:
    prefixed = []
    for source in sources:
        schema = _serde_schema(source.key_serde, source.value_serde)
        if schema == schemas.get(source.name):
            prefix = find_prefix(source, schema, subtopology.processors, topology.children, compiled)
            source = dataclasses.replace(source, prefix=prefix)
        prefixed.append(source)
    return tuple(prefixed)


def _column_node(
    node: ProcessorNode,
    subtopology: SubtopologyNodes,
    schemas: Mapping[str, EdgeSchema],
    read: frozenset[str],
    stores: Mapping[str, StoreSpec],
    options: CompileOptions,
) -> ColumnNode | None:
    factory = COLUMNS.get(type(node.operator))
    if factory is None or any(parent not in schemas for parent in node.parents):
        return None
    tables = {name: schema for name, schema in schemas.items() if schema.table}
    context = CompileContext(stores, tables, read, options.caching, subtopology.processors)
    return factory(node, [schemas[parent] for parent in node.parents], context)


def _column_sinks(
    topology: Topology, subtopology: SubtopologyNodes, schemas: Mapping[str, EdgeSchema], options: CompileOptions
) -> tuple[tuple[SinkProgram, ...] | None, str]:
    column_sinks = []
    for node in subtopology.sinks:
        schema = schemas[node.parents[0]]
        sink = _row_sink(topology, node, options, SentOverEdge(schema, frames=True))
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


def _sink_merges(
    topology: Topology, subtopology: SubtopologyNodes, stores: Mapping[str, StoreSpec], options: CompileOptions
) -> dict[str, MergeOrder] | None:
    """How frames are merged on their way into one topic; `None` if order columns cannot tell for one of them."""
    order = RecordOrder([*subtopology.processors, *subtopology.sinks], stores, caching=options.caching)
    edges: dict[str, list[tuple[str, str]]] = {}
    groups = merge_groups([(sink.topic, sink.topic in topology.repartitions) for sink in subtopology.sinks])
    for sink, group in zip(subtopology.sinks, groups, strict=True):
        edges.setdefault(group, []).extend((parent, sink.name) for parent in sink.parents)
    merges = {}
    for topic, into in edges.items():
        if len(into) > 1:
            merge = order.merge(into)
            if merge is None:
                return None
            merges[topic] = merge
    return merges


def _row_sink(
    topology: Topology, node: SinkNode, options: CompileOptions, sent: SentOverEdge | None = None
) -> SinkProgram:
    edge = node.topic in topology.repartitions
    if edge:
        assert node.topic is not None
        key, value = _edge_serdes(topology, node.topic, node, sent, options)
    else:
        key = node.key_serde or options.default_serde("key", node.topic) or AutoSerde()
        value = node.value_serde or options.default_serde("value", node.topic) or AutoSerde()
        key, value = without_pickle(key), without_pickle(value)
    return SinkProgram(
        node.name,
        node.parents,
        node.topic or "",
        key,
        value,
        edge,
        extractor=node.extractor,
        partitioner=node.partitioner,
    )
