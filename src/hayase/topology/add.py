"""Adding to a topology node by node, as `Topology` offers it."""

from __future__ import annotations

import dataclasses
import re

from hayase.core.call_site import users_line
from hayase.core.errors import TopologyError
from hayase.core.names import check_name
from hayase.core.offset_reset import AutoOffsetReset
from hayase.processor.api import FixedKeyProcessor, Processor
from hayase.processor.timestamps import TimestampExtractor
from hayase.serde.protocol import Serde
from hayase.state.stores.spec import StoreSpec
from hayase.topology.graph import TopologyGraph
from hayase.topology.nodes import GlobalTable, Node, Partitioner, ProcessorNode, SinkNode, SourceNode, TopicExtractor
from hayase.topology.operators import Process
from hayase.topology.suppliers import brought_stores, check_store, check_supplier

Serdes = tuple[Serde | None, Serde | None]


def source(
    topology: TopologyGraph,
    name: str,
    topics: tuple[str | re.Pattern[str], ...],
    serdes: Serdes,
    extractor: TimestampExtractor | None,
    reset: AutoOffsetReset | str | None,
) -> None:
    """See `Topology.add_source`."""
    names = tuple(topic for topic in topics if isinstance(topic, str) and topic)
    pattern = topics[0] if len(topics) == 1 and isinstance(topics[0], re.Pattern) else None
    if not topics or (len(names) < len(topics) and pattern is None):
        raise TopologyError(
            "INVALID_TOPIC", f"add_source takes topics' names, or one pattern, not {topics!r}", node=name
        )
    source_node = SourceNode(
        check_name(name), names, *serdes, extractor, None if reset is None else AutoOffsetReset.of(reset), pattern
    )
    for other in (*topology.nodes, *(table.source for table in topology.global_tables)):
        if isinstance(other, SourceNode):
            _check_apart(source_node, other)
    _add(topology, source_node)


def _check_apart(added: SourceNode, other: SourceNode) -> None:
    def reads(reader: SourceNode, topic: str) -> bool:
        return topic in reader.topics or (reader.pattern is not None and reader.pattern.fullmatch(topic) is not None)

    twice = {t for t in added.topics if reads(other, t)} | {t for t in other.topics if reads(added, t)}
    if twice:
        raise TopologyError(
            "TOPIC_READ_TWICE",
            f"topic {min(twice)!r} is already read by {other.name!r}; a topic can be read once, so let {added.name!r} "
            "and what else needs it be children of one source",
        )


def processor(topology: TopologyGraph, name: str, supplier: object, parents: tuple[str, ...]) -> None:
    """See `Topology.add_processor`."""
    fixed_key = isinstance(supplier, type) and issubclass(supplier, FixedKeyProcessor)
    operator = Process(check_supplier(supplier, FixedKeyProcessor if fixed_key else Processor), fixed_key)
    brought = brought_stores(supplier)
    _check_parents(topology, name, parents)
    for spec in brought:
        _store(topology, spec)
    _add(topology, ProcessorNode(check_name(name), parents, operator, tuple(spec.name for spec in brought)))


def global_store(
    topology: TopologyGraph,
    spec: StoreSpec,
    names: tuple[str, str],
    topic: str,
    supplier: object,
    serdes: Serdes,
    extractor: TimestampExtractor | None,
) -> None:
    """See `Topology.add_global_store`; `names` are those of source and processor."""
    source_node = SourceNode(check_name(names[0]), (topic,), *serdes, extractor)
    for other in (*topology.nodes, *(table.source for table in topology.global_tables)):
        if isinstance(other, SourceNode):
            _check_apart(source_node, other)
    table = global_table_of(spec, source_node, names[1], supplier)
    before = topology.stores, topology.global_tables
    _store(topology, spec)
    try:
        after = topology.nodes[-1].name if topology.nodes else None
        topology.changed(global_tables=(*before[1], dataclasses.replace(table, after=after)))
    except TopologyError:
        topology.changed(stores=before[0], global_tables=before[1])
        raise


def global_table_of(spec: StoreSpec, source: SourceNode, name: str, supplier: object) -> GlobalTable:
    """A global store with the processor of the user that keeps it.

    Raises:
        TopologyError: `INVALID_STORE`, `INVALID_PROCESSOR`, `GLOBAL_STORE_NOT_LOGGED`, `TTL_NOT_POSSIBLE`.
    """
    check_store(spec, "add_global_store")
    if not spec.logging:
        raise TopologyError(
            "GLOBAL_STORE_NOT_LOGGED",
            f"global store {spec.name!r} must keep its changelog here, from which it is restored without running the "
            "processor again; leave out with_logging_disabled",
        )
    if spec.ttl_ms is not None:
        raise TopologyError(
            "TTL_NOT_POSSIBLE",
            f"global store {spec.name!r} is read by tasks whose stream times differ, so it can have no time to live; "
            "leave ttl out",
        )
    operator = Process(check_supplier(supplier, Processor))
    processor = ProcessorNode(check_name(name), (source.name,), operator, (spec.name,))
    return GlobalTable(source, processor, spec.name)


def sink(
    topology: TopologyGraph,
    name: str,
    topic: str | TopicExtractor,
    parents: tuple[str, ...],
    serdes: Serdes,
    partitioner: Partitioner | None,
) -> None:
    """See `Topology.add_sink`."""
    _check_parents(topology, name, parents)
    fixed, extractor = (topic, None) if isinstance(topic, str) else (None, topic)
    _add(topology, SinkNode(check_name(name), parents, fixed, *serdes, extractor, partitioner))


def state_store(topology: TopologyGraph, spec: StoreSpec, processors: tuple[str, ...]) -> None:
    """See `Topology.add_state_store`."""
    for name in processors:
        _processor(topology, name)
    _store(topology, check_store(spec, "add_state_store"))
    for name in processors:
        connect(topology, name, (spec.name,))


def connect(topology: TopologyGraph, name: str, stores: tuple[str, ...]) -> None:
    """See `Topology.connect_processor_and_state_stores`."""
    processor_node = _processor(topology, name)
    for store in stores:
        if store not in topology.stores:
            raise TopologyError(
                "UNKNOWN_STORE",
                f"there is no store {store!r}; add it first. There are {sorted(topology.stores)}",
                node=name,
            )
    connected = dataclasses.replace(processor_node, stores=tuple(dict.fromkeys((*processor_node.stores, *stores))))
    topology.changed(nodes=tuple(connected if node is processor_node else node for node in topology.nodes))


def _processor(topology: TopologyGraph, name: str) -> ProcessorNode:
    node = topology.by_name.get(name)
    if not isinstance(node, ProcessorNode):
        raise TopologyError("UNKNOWN_PROCESSOR", f"there is no processor {name!r}; add it first")
    return node


def _check_parents(topology: TopologyGraph, name: str, parents: tuple[str, ...]) -> None:
    if not parents:
        raise TopologyError("NO_PARENT", f"node {name!r} needs at least one parent", node=name)
    for parent in parents:
        if isinstance(topology.by_name.get(parent), SinkNode):
            raise TopologyError("SINK_AS_PARENT", f"{parent!r} is a sink, and nothing comes out of one", node=name)


def _store(topology: TopologyGraph, spec: StoreSpec) -> None:
    known = topology.stores.get(spec.name)
    if known is not None and known is not spec:
        raise TopologyError("DUPLICATE_STORE", f"there are two stores named {spec.name!r}; give one another name")
    topology.changed(stores={**topology.stores, spec.name: spec}, lines=_with_line(topology, spec.name))


def _with_line(topology: TopologyGraph, name: str) -> dict[str, str]:
    line = users_line()
    return dict(topology.lines) if line is None else {name: line, **topology.lines}


def _add(topology: TopologyGraph, node: Node) -> None:
    before = topology.nodes
    try:
        topology.changed(nodes=(*before, node), lines=_with_line(topology, node.name))
    except TopologyError:
        topology.changed(nodes=before)
        raise
