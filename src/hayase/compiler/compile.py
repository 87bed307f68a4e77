"""Compiling a topology: each sub-topology in columns if every node, as written, has a column form; else in rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hayase.compiler.build import global_stores_of, global_subtopology_id, levels_of, subtopologies_by_id
from hayase.compiler.endpoints import (
    SentOverEdge,
    column_sinks,
    compiled_source,
    row_sink,
    sent_schema,
    serde_schema,
    sink_merges,
)
from hayase.compiler.find_prefix import find_prefix, prefix_fields
from hayase.compiler.options import CompileOptions
from hayase.compiler.pruning import Fields, needed_fields
from hayase.compiler.purity import definition_digest, is_pure
from hayase.compiler.read_tables import read_tables
from hayase.compiler.row_costs import records_faster_in_rows
from hayase.core.errors import TopologyError
from hayase.kernel.frame.order import MergeOrder
from hayase.kernel.node.column_node import ColumnNode, CompileContext
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.registry import COLUMNS
from hayase.state.stores.spec import StoreSpec
from hayase.task.compiled_subtopology import CompiledSink, CompiledSource, CompiledSubtopology, SmallEpochs
from hayase.task.event_time import needs_partition_time
from hayase.topology import operators as op
from hayase.topology.graph import SubTopology
from hayase.topology.lines import naming_lines
from hayase.topology.nodes import ProcessorNode, SinkNode
from hayase.topology.topology import Topology


def compile_subtopologies(
    topology: Topology, options: CompileOptions, repartitions: Mapping[str, int] | None = None
) -> dict[str, CompiledSubtopology]:
    """Every sub-topology and global table by id, lower levels first. The same in every process.

    Args:
        topology: with the serdes of the settings.
        options: how nodes are compiled.
        repartitions: partition counts of the repartition topics, which tasks need; see `Plan.repartitions`.

    Raises:
        TopologyError: an expression does not fit the schema it is applied to.
    """
    levels = levels_of(topology)
    parts = subtopologies_by_id(topology)
    edges: dict[str, SentOverEdge] = {}
    compiled: dict[str, CompiledSubtopology] = {}
    for name in sorted(parts, key=lambda name: levels[name]):
        with naming_lines(topology):
            compiled[name] = subtopology = _compile(topology, name, levels[name], parts[name], edges, options)
        for sink in subtopology.sinks:
            if sink.edge and sink.parents[0] in subtopology.schemas:
                schema = subtopology.schemas[sink.parents[0]]
                edges[sink.topic] = SentOverEdge(schema, frames=subtopology.columns is not None)
    return _with_readers(topology, compiled, repartitions or {})


def _compile(
    topology: Topology,
    name: str,
    level: int,
    part: SubTopology,
    edges: Mapping[str, SentOverEdge],
    options: CompileOptions,
) -> CompiledSubtopology:
    stores = {
        store: dataclasses.replace(spec, caching=spec.caching and options.caching)
        for store, spec in topology.stores.items()
    }
    processors = tuple(node for node in part.nodes if isinstance(node, ProcessorNode))
    sources = tuple(compiled_source(topology, node, edges, options) for node in part.sources)
    column_nodes, schemas, missing = _columns(processors, sources, edges, stores, options)
    form = _form(topology, part, processors, (column_nodes, schemas, missing), stores, options)
    global_store = {
        global_subtopology_id(topology, i): table.store for i, table in enumerate(topology.global_tables)
    }.get(name)
    if global_store is None:
        children = {node.name: topology.children[node.name] for node in part.nodes}
    else:
        source, processor = (node.name for node in part.nodes)
        children = {source: (processor,), processor: ()}
    timed = any(isinstance(node.operator, op.UserCode) for node in processors)
    if form.columns is None:
        sources = tuple(dataclasses.replace(source, frames=False) for source in sources)
        # what a prefix drops would not move the stream time that processors see, and that rows expire by
        timeless = not (timed or _forgetting(processors, stores))
        if options.prefix and timeless:
            sources = _with_prefixes(processors, children, sources, schemas, column_nodes)
    own = [store for node in processors for store in node.stores]
    stateful = bool(own) or timed or any(needs_partition_time(source.extractor) for source in sources)
    pure = (
        not stateful
        and options.own_handlers
        and is_pure(part.sources, sources, processors, part.sinks, form.sinks, options.compacted)
    )
    sends_rows = any(sink.edge for sink in form.sinks)
    reads_global = global_stores_of(topology, part) if global_store is None else ()
    deleted = topology.kept.deleted.get(name, ()) if topology.kept is not None else ()
    compiled = CompiledSubtopology(
        name, level, form.reason, sources, processors, form.sinks, tuple(children), children,
        {store: spec for store, spec in stores.items() if store in own or store in reads_global},
        form.columns, schemas, form.merges, stateful, pure,
        journalled=stateful or bool(deleted) or (sends_rows and not pure),
        definition=definition_digest(sources, processors, form.sinks) if pure and sends_rows else "",
        reads_global=reads_global,
        global_store=global_store,
        app_configs=options.app_configs,
        clocks=topology.kept.clocks.get(name, {}) if topology.kept is not None else {},
        deleted_stores=deleted,
    )  # fmt: skip
    if options.form != "auto" or not options.small_in_rows or compiled.columns is None:
        return compiled
    return dataclasses.replace(compiled, small=_in_rows(topology, part, compiled, options))


def _in_rows(
    topology: Topology, part: SubTopology, compiled: CompiledSubtopology, options: CompileOptions
) -> SmallEpochs | None:
    """The same sub-topology in rows; `None` if rows cross a shuffle, whose other end expects typed columns."""
    if any(source.edge is not None for source in compiled.sources) or any(sink.edge for sink in compiled.sinks):
        return None
    sinks = tuple(row_sink(topology, node, options) for node in part.sinks)
    in_rows = dataclasses.replace(compiled, sinks=sinks, columns=None, merges={})
    return SmallEpochs(in_rows, records_faster_in_rows(compiled.processors))


class _Form(NamedTuple):
    """How a sub-topology runs, and why; `columns` is `None` if it runs in rows."""

    columns: Mapping[str, ColumnNode] | None
    sinks: tuple[CompiledSink, ...]
    merges: Mapping[str, MergeOrder]
    reason: str


def _form(
    topology: Topology,
    part: SubTopology,
    processors: tuple[ProcessorNode, ...],
    nodes: tuple[Mapping[str, ColumnNode], Mapping[str, EdgeSchema], Sequence[str]],
    stores: Mapping[str, StoreSpec],
    options: CompileOptions,
) -> _Form:
    """Columns if every node and every sink has a column form; `nodes` is what `_columns` gave."""
    column_nodes, schemas, missing = nodes
    reason = "processing.form is 'rows'" if options.form == "rows" else next(iter(missing), "")
    if not reason:
        sinks, without = column_sinks(topology, part.sinks, schemas, options)
        merges = sink_merges(topology, processors, part.sinks, stores, options)
        if sinks is not None and merges is not None:
            return _Form(column_nodes, sinks, merges, "every node has a column form")
        reason = without or "sinks of one topic get records in an order that only rows can tell"
    if options.form == "columns":
        raise TopologyError("NO_COLUMN_FORM", f"processing.form is 'columns', but {reason}; use 'auto'")
    sent = {name: SentOverEdge(schema, frames=False) for name, schema in schemas.items()}
    row_sinks = tuple(row_sink(topology, node, options, sent.get(node.parents[0])) for node in part.sinks)
    return _Form(None, row_sinks, {}, reason)


def _columns(
    processors: tuple[ProcessorNode, ...],
    sources: Sequence[CompiledSource],
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
            schema = sent_schema(source, edges)
        if source.extractor.kind == "callable":
            reasons.append(f"source {source.name} has a callable timestamp extractor")
        if schema is not None:
            schemas[source.name] = schema
    compiled: dict[str, ColumnNode] = {}
    read = read_tables(processors)
    for node in processors:
        column_node = _column_node(node, processors, schemas, read, stores, options)
        if column_node is None:
            reasons.append(f"node {node.name} ({type(node.operator).__name__}), as written, has no column form")
            # Versioned stores have rows only, but rows want the types too.
            plain = _without_versions(node, stores)
            column_node = None if plain is None else _column_node(node, processors, schemas, read, plain, options)
            if column_node is not None:
                schemas[node.name] = column_node.output
            continue
        compiled[node.name] = column_node
        schemas[node.name] = column_node.output
    reasons += [
        f"store {name} has a time to live, which changes from row to row" for name in _forgetting(processors, stores)
    ]
    return compiled, schemas, reasons


def _forgetting(processors: tuple[ProcessorNode, ...], stores: Mapping[str, StoreSpec]) -> list[str]:
    """The sub-topology's own stores that have a time to live."""
    own = dict.fromkeys(name for node in processors for name in node.stores)
    return [name for name in own if stores[name].ttl_ms is not None]


def _without_versions(node: ProcessorNode, stores: Mapping[str, StoreSpec]) -> dict[str, StoreSpec] | None:
    """The stores as if those of the node were not versioned; `None` if none is."""
    versioned = [name for name in node.stores if stores[name].versioned]
    plain = {name: dataclasses.replace(stores[name], kind="timestamped_key_value") for name in versioned}
    return {**stores, **plain} if plain else None


def _with_prefixes(
    processors: tuple[ProcessorNode, ...],
    children: Mapping[str, tuple[str, ...]],
    sources: Sequence[CompiledSource],
    schemas: Mapping[str, EdgeSchema],
    compiled: Mapping[str, ColumnNode],
) -> tuple[CompiledSource, ...]:
    prefixed = []
    for source in sources:
        schema = serde_schema(source.key_serde, source.value_serde)
        if schema == schemas.get(source.name):
            prefix = find_prefix(source, schema, processors, children, compiled)
            source = dataclasses.replace(source, prefix=prefix)
        prefixed.append(source)
    return tuple(prefixed)


def _column_node(
    node: ProcessorNode,
    processors: tuple[ProcessorNode, ...],
    schemas: Mapping[str, EdgeSchema],
    read: frozenset[str],
    stores: Mapping[str, StoreSpec],
    options: CompileOptions,
) -> ColumnNode | None:
    factory = COLUMNS.get(type(node.operator))
    if factory is None or any(parent not in schemas for parent in node.parents):
        return None
    tables = {name: schema for name, schema in schemas.items() if schema.table}
    context = CompileContext(stores, tables, read, options.caching, processors)
    return factory(node, [schemas[parent] for parent in node.parents], context)


def _with_readers(
    topology: Topology, compiled: Mapping[str, CompiledSubtopology], repartitions: Mapping[str, int]
) -> dict[str, CompiledSubtopology]:
    """The sub-topologies with what sinks need to know of the readers of their edges, and the fields that are read."""
    reading = {
        source.edge: (name, source.frames)
        for name, subtopology in compiled.items()
        for source in subtopology.sources
        if source.edge is not None
    }
    fields = _read_fields(topology, compiled)

    def with_reader(sink: CompiledSink) -> CompiledSink:
        if not sink.edge:
            return sink
        reader, takes_frames = reading[sink.topic]
        frames = sink.frames and takes_frames
        return dataclasses.replace(
            sink,
            partitions=repartitions.get(sink.topic, 0),
            target_subtopology=reader,
            frames=frames,
            fields=fields.get(sink.topic) if frames else None,
        )

    return {
        name: dataclasses.replace(
            subtopology,
            sources=tuple(dataclasses.replace(each, fields=fields.get(each.name)) for each in subtopology.sources),
            sinks=tuple(map(with_reader, subtopology.sinks)),
        )
        for name, subtopology in compiled.items()
    }


def _read_fields(topology: Topology, compiled: Mapping[str, CompiledSubtopology]) -> dict[str, Fields]:
    """By source, and by repartition topic: the value fields that are looked at."""
    fields: dict[str, Fields] = {}
    frames = {source.edge for subtopology in compiled.values() for source in subtopology.sources if source.frames}

    def behind(sink: SinkNode) -> Fields:
        return fields.get(sink.topic) if sink.topic in frames and sink.topic is not None else None

    for subtopology in reversed(list(compiled.values())):
        members = set(subtopology.order)
        sinks = [node for node in topology.nodes if isinstance(node, SinkNode) and node.name in members]
        for source in subtopology.sources if subtopology.columns is not None else ():
            fields[source.name] = _with_time(source, needed_fields(source.name, subtopology.processors, sinks, behind))
            if source.edge is not None:
                fields[source.edge] = fields[source.name]
        by_name = {node.name: node for node in subtopology.processors}
        for source in subtopology.sources:
            if source.prefix is not None:
                fields[source.name] = _with_time(source, prefix_fields(source.prefix, by_name))
    return fields


def _with_time(source: CompiledSource, needed: Fields) -> Fields:
    if needed is None or source.extractor.field is None:
        return needed
    return needed | {source.extractor.field.split(".")[0]}
