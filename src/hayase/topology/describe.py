"""A topology as text, character by character as Kafka Streams' `Topology.describe()` prints it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar

import polars as pl

from hayase.topology.graph import SubTopology, TopologyGraph
from hayase.topology.java_tree import JavaTree
from hayase.topology.nodes import GlobalTable, Node, ProcessorNode, SinkNode, SourceNode

T = TypeVar("T")


def describe(topology: TopologyGraph) -> str:
    """Sub-topologies by number, in each the nodes with the most nodes below them first.

    Example:
        print(describe(builder.build()))
        Topologies:
           Sub-topology: 0
            Source: KSTREAM-SOURCE-0000000000 (topics: [orders])
              --> KSTREAM-SINK-0000000001
            Sink: KSTREAM-SINK-0000000001 (topic: copy)
              <-- KSTREAM-SOURCE-0000000000
    """
    shown = {topic: internal.name for topic, internal in topology.internal_topics.items()}
    parts: list[tuple[int, str]] = [(part.id, _subtopology(part, topology, shown)) for part in topology.subtopologies]
    parts += [(topology.global_table_ids[table.store], _global(table, topology)) for table in topology.global_tables]
    return "Topologies:\n " + "".join("  " + text for _, text in sorted(parts))


@dataclass(eq=False)
class _Drawn:
    """A node while the picture is made.

    `size` counts the paths below the node. The neighbours are in a tree, by the sizes that nodes have at the moment
    when an edge is drawn, and edges are drawn in the order of a Java hash map: accidents, but visible ones.
    """

    node: Node
    size: int = 1
    parents: JavaTree[_Drawn] = field(default_factory=lambda: JavaTree(_order))
    children: JavaTree[_Drawn] = field(default_factory=lambda: JavaTree(_order))

    def grow(self, delta: int) -> None:
        self.size += delta
        for parent in self.parents:
            parent.grow(delta)


def _order(this: _Drawn, other: _Drawn) -> int:
    mine, others = (-this.size, this.node.name), (-other.size, other.node.name)
    return (mine > others) - (mine < others)


def _subtopology(part: SubTopology, topology: TopologyGraph, shown: Mapping[str, str]) -> str:
    drawn = {name: _Drawn(node) for name, node in _in_hash_order({node.name: node for node in part.nodes})}
    for node in drawn.values():
        for name in node.node.parents:
            parent = drawn[name]
            node.parents.add(parent)
            parent.children.add(node)
            parent.grow(node.size)
    ordered = sorted(drawn.values(), key=lambda node: (-node.size, node.node.name))
    text = "".join(_node(node.node, _names(node.parents), _names(node.children), topology, shown) for node in ordered)
    return f"Sub-topology: {part.id}\n{text}\n"


def _names(nodes: Iterable[_Drawn]) -> list[str]:
    return [node.node.name for node in nodes]


def _node(
    node: Node, parents: Sequence[str], children: Sequence[str], topology: TopologyGraph, shown: Mapping[str, str]
) -> str:
    below = f"      --> {', '.join(children) or 'none'}\n"
    above = f"      <-- {', '.join(parents) or 'none'}\n"
    match node:
        case SourceNode():
            return f"    Source: {node.name} (topics: {_topics(node, shown)})\n{below}"
        case SinkNode():
            return f"    Sink: {node.name} ({_target(node, shown)})\n{above}"
        case ProcessorNode():
            stores = ", ".join(name for name, _ in _in_hash_order(dict.fromkeys(topology.shown_stores(node))))
            return f"    Processor: {node.name} (stores: [{stores}])\n{below}{above}"


def _topics(node: SourceNode, shown: Mapping[str, str]) -> str:
    if node.pattern is not None:
        return node.pattern.pattern
    names = dict.fromkeys(shown.get(topic, topic) for topic in node.topics)
    return f"[{', '.join(name for name, _ in _in_hash_order(names))}]"


def _target(node: SinkNode, shown: Mapping[str, str]) -> str:
    if node.topic is not None:
        return f"topic: {shown.get(node.topic, node.topic)}"
    extractor = node.extractor
    name = extractor if isinstance(extractor, pl.Expr) else getattr(extractor, "__qualname__", type(extractor).__name__)
    return f"extractor class: {name}"


def _global(table: GlobalTable, topology: TopologyGraph) -> str:
    number = topology.global_table_ids[table.store]
    return (
        f"Sub-topology: {number} for global store (will not generate tasks)\n"
        + _node(table.source, [], [table.processor.name], topology, {})
        + _node(table.processor, [table.source.name], [], topology, {})
    )


def _in_hash_order(entries: Mapping[str, T]) -> list[tuple[str, T]]:
    """The entries in the order in which a `java.util.HashMap` that grew to their number gives them."""
    capacity = 16
    while len(entries) > capacity * 3 // 4:
        capacity *= 2
    # within a bucket: the order of insertion, which sorted() keeps
    return sorted(entries.items(), key=lambda entry: _java_hash(entry[0]) & (capacity - 1))


@lru_cache(maxsize=1 << 14)  # a start describes its topology several times
def _java_hash(text: str) -> int:
    hashed = 0
    for unit in _utf16(text):
        hashed = (hashed * 31 + unit) & 0xFFFFFFFF
    return hashed ^ (hashed >> 16)


def _utf16(text: str) -> Iterable[int]:
    data = text.encode("utf-16-be", "surrogatepass")
    return (int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2))
