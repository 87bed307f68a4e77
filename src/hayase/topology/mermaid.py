"""A topology as a Mermaid flowchart, for Markdown pages and pull requests."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from hayase.topology.graph import TopologyGraph
from hayase.topology.nodes import GlobalTable, Node, ProcessorNode, SinkNode, SourceNode
from hayase.topology.operators import StreamGlobalTableJoin


def to_mermaid(topology: TopologyGraph) -> str:
    """The flowchart of a topology in Mermaid's language.

    Topics are stadiums, nodes boxes by sub-topology, stores cylinders, Spark DataFrames boxes with bars. A repartition
    that is a shuffle inside the epoch is a hexagon. An arrow is what records flow along, a dotted line joins a node
    with a store that it uses. The text is the same for the same topology, and ends in a line break.
    """
    return _Drawing(topology).text()


class _Drawing:
    """Collects the lines; every place gets an id when it is first named."""

    def __init__(self, topology: TopologyGraph) -> None:
        self._topology = topology
        self._ids: dict[tuple[str, str], str] = {}
        self._places: list[str] = []
        self._arrows: list[str] = []

    def text(self) -> str:
        groups: list[tuple[int, str, Iterable[Node]]] = [
            (part.id, f"Sub-topology {part.id}", part.nodes) for part in self._topology.subtopologies
        ]
        for table in self._topology.global_tables:
            number = self._topology.global_table_ids[table.store]
            groups.append((number, f"Sub-topology {number} (global)", _nodes_of(table)))
        lines = ["flowchart TD"]
        for number, title, nodes in sorted(groups, key=lambda group: group[0]):
            lines.append(f'    subgraph sub{number}["{title}"]')
            for node in nodes:
                lines.append(f'        {self._id("node", node.name)}["{_escaped(node.name)}"]')
                self._connect(node)
            lines.append("    end")
        for source in self._topology.spark_sources:
            self._arrows.append(f"    {self._spark(f'from_spark: {source.name}')} --> {self._topic(source.topic)}")
        for sink in self._topology.spark_sinks:
            self._arrows.append(f"    {self._topic(sink.topic)} --> {self._spark(f'to_spark: {sink.name}')}")
        for connector in self._topology.connectors:
            ends = self._topic(connector.topic), self._spark(f"connector: {connector.name}")
            self._arrows.append("    " + " --> ".join(reversed(ends) if connector.source else ends))
        return "\n".join([*lines, *self._places, *self._arrows]) + "\n"

    def _connect(self, node: Node) -> None:
        here = self._id("node", node.name)
        for parent in node.parents:
            self._arrows.append(f"    {self._id('node', parent)} --> {here}")
        match node:
            case SourceNode():
                names = [node.pattern.pattern] if node.pattern is not None else node.topics
                self._arrows += [f"    {self._topic(name)} --> {here}" for name in names]
            case SinkNode():
                self._arrows.append(f"    {here} --> {self._topic(node.topic or _extractor(node))}")
            case ProcessorNode():
                stores = list(self._topology.shown_stores(node))
                if isinstance(node.operator, StreamGlobalTableJoin):
                    stores.append(node.operator.store)
                self._arrows += [f"    {here} -.- {self._store(name)}" for name in dict.fromkeys(stores)]

    def _id(self, kind: str, name: str) -> str:
        return self._ids.setdefault((kind, name), f"{kind}{sum(each == kind for each, _ in self._ids)}")

    def _topic(self, name: str) -> str:
        internal = self._topology.internal_topics.get(name)
        label = _escaped(name if internal is None else internal.name)
        shape = f'{{{{"{label}"}}}}' if name in self._topology.repartitions else f'(["{label}"])'
        return self._placed("topic", name, shape)

    def _store(self, name: str) -> str:
        return self._placed("store", name, f'[("{_escaped(name)}")]')

    def _spark(self, name: str) -> str:
        return self._placed("spark", name, f'[["{_escaped(name)}"]]')

    def _placed(self, kind: str, name: str, shape: str) -> str:
        new = (kind, name) not in self._ids
        place = self._id(kind, name)
        if new:
            self._places.append(f"    {place}{shape}")
        return place


def _nodes_of(table: GlobalTable) -> tuple[Node, ...]:
    return (table.source, table.processor)


def _extractor(node: SinkNode) -> str:
    if isinstance(node.extractor, pl.Expr):
        return str(node.extractor)
    return getattr(node.extractor, "__qualname__", type(node.extractor).__name__)


def _escaped(label: str) -> str:
    """Mermaid's entities: its labels end at a quotation mark and may hold HTML."""
    return "".join(f"#{ord(letter)};" if letter in '"#<>&`' else letter for letter in label)
