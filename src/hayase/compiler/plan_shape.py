"""The shape of a topology: what a later program on the same checkpoint is compared with, as plain data."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from hayase.compiler.build import subtopologies_by_id
from hayase.compiler.window_text import join_window_text, window_text
from hayase.core.windows import SessionWindows, SlidingWindows, Windows
from hayase.topology.graph import SubTopology
from hayase.topology.nodes import Node, ProcessorNode, SourceNode
from hayase.topology.operators.aggregates import (
    StreamSessionAggregate,
    StreamSlidingAggregate,
    StreamWindowedAggregate,
)
from hayase.topology.operators.joins import StreamStreamJoin
from hayase.topology.topology import Topology

GLOBAL = "global"
"""What ids of global tables begin with."""
SOURCE, SINK = "source", "sink"
_NUMBER = re.compile(r"-(\d{10})(?=-|$)")


class NodeShape(msgspec.Struct, frozen=True):
    """A node.

    Attributes:
        kind: class of its operator; `source`, `sink`.
        parents: names of nodes.
        stores: that it uses.
        topics: of a source or sink.
    """

    kind: str
    parents: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()


class SubtopologyShape(msgspec.Struct, frozen=True):
    """A sub-topology or a global table.

    Attributes:
        nodes: by name, in the order in which they were added.
        stores: its own, with their kinds.
        generated: those of them whose names the builder made up.
        edges: repartition and internal topics that it reads.
        topics: topics of others that it reads; patterns as they are written.
        tasks: how many it has; 0 if that is not known.
        clocks: nodes → what their clocks are called, where that is not the node's name.
        spent: names of clocks that nodes had which are gone.
        left: stores that were removed, whose rows are still in its state.
        deleted: stores that were removed, whose rows the first epoch of the plan deletes.
        windows: stores of windowed aggregations → their windows; earlier releases did not keep them.
        graces_ms: those stores → the grace periods.
        joins: stores of the left sides of joins of two streams → how far apart records may be; earlier releases did not
            keep them.
    """

    nodes: dict[str, NodeShape]
    stores: dict[str, str] = {}
    generated: tuple[str, ...] = ()
    edges: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    tasks: int = 0
    clocks: dict[str, str] = {}
    spent: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    windows: dict[str, str] = {}
    graces_ms: dict[str, int] = {}
    joins: dict[str, str] = {}

    def clock(self, node: str) -> str:
        """What the clock of a node is called."""
        return self.clocks.get(node, node)


class PlanShape(msgspec.Struct, frozen=True):
    """A whole topology.

    Attributes:
        subtopologies: by id.
        internal: topics of the log that the application makes for itself.
        next_number: the first number that no sub-topology ever had.
        next_global: the same of global tables.
    """

    subtopologies: dict[str, SubtopologyShape]
    internal: tuple[str, ...] = ()
    next_number: int = 0
    next_global: int = 0

    @property
    def nodes(self) -> dict[str, NodeShape]:
        """All nodes by name."""
        return {name: node for part in self.subtopologies.values() for name, node in part.nodes.items()}

    def subtopology_of(self, store: str) -> str | None:
        """The id of the sub-topology that has a store."""
        return next((name for name, part in self.subtopologies.items() if store in part.stores), None)


def shape_of(topology: Topology, tasks: Mapping[str, int] | None = None) -> PlanShape:
    """The shape of a topology, by the ids that it has.

    Args:
        topology: with the names of its internal topics.
        tasks: how many each sub-topology has, if that is known.
    """
    inside = {*topology.repartitions, *topology.internal_topics}
    parts = {
        name: _part(topology, part, inside, (tasks or {}).get(name, 0))
        for name, part in subtopologies_by_id(topology).items()
    }
    return with_next_numbers(PlanShape(parts, tuple(sorted(topology.internal_topics))))


def with_next_numbers(shape: PlanShape, before: PlanShape | None = None) -> PlanShape:
    """The shape, with the numbers that are free behind it and behind the plans before."""
    numbers = [int(name.removeprefix(GLOBAL)) for name in shape.subtopologies if not name.startswith(GLOBAL)]
    globals_ = [int(name.removeprefix(GLOBAL)) for name in shape.subtopologies if name.startswith(GLOBAL)]
    return msgspec.structs.replace(
        shape,
        next_number=max([before.next_number if before else 0, *(number + 1 for number in numbers)]),
        next_global=max([before.next_global if before else 0, *(number + 1 for number in globals_)]),
    )


def generated_number(name: str) -> int | None:
    """The builder's counter in a name that it made up; `None` if there is none in it."""
    numbers = _NUMBER.findall(name)
    return int(numbers[-1]) if numbers else None


def _part(topology: Topology, part: SubTopology, inside: set[str], tasks: int) -> SubtopologyShape:
    global_stores = {table.store for table in topology.global_tables}
    is_global = any(node.name == table.processor.name for table in topology.global_tables for node in part.nodes)
    stores = [name for name in part.store_names if is_global or name not in global_stores]
    read = [topic for source in part.sources for topic in _topics(source)]
    windowed = _windowed(part)
    return SubtopologyShape(
        nodes={node.name: _node(node) for node in part.nodes},
        stores={name: _kind(topology, name) for name in stores},
        generated=tuple(name for name in stores if name in topology.generated),
        edges=tuple(topic for topic in read if topic in inside),
        topics=tuple(topic for topic in read if topic not in inside),
        tasks=tasks,
        windows={store: window_text(windows) for store, windows in windowed.items()},
        graces_ms={store: windows.grace_ms for store, windows in windowed.items()},
        joins=_joins(part),
    )


def _windowed(part: SubTopology) -> dict[str, Windows | SlidingWindows | SessionWindows]:
    operators = (node.operator for node in part.nodes if isinstance(node, ProcessorNode))
    kinds = StreamWindowedAggregate | StreamSlidingAggregate | StreamSessionAggregate
    return {operator.store: operator.windows for operator in operators if isinstance(operator, kinds)}


def _joins(part: SubTopology) -> dict[str, str]:
    operators = (node.operator for node in part.nodes if isinstance(node, ProcessorNode))
    return {
        operator.store: join_window_text(operator.windows)
        for operator in operators
        if isinstance(operator, StreamStreamJoin) and operator.side == "left"
    }


def _kind(topology: Topology, store: str) -> str:
    spec = topology.stores[store]
    return f"{spec.kind} with duplicates" if spec.retain_duplicates else spec.kind


def _node(node: Node) -> NodeShape:
    if isinstance(node, SourceNode):
        return NodeShape(SOURCE, topics=_topics(node))
    if isinstance(node, ProcessorNode):
        return NodeShape(type(node.operator).__name__, node.parents, node.stores)
    return NodeShape(SINK, node.parents, topics=() if node.topic is None else (node.topic,))


def _topics(source: SourceNode) -> tuple[str, ...]:
    """What a pattern matches changes from start to start; the pattern does not."""
    return source.topics if source.pattern is None else (f"pattern {source.pattern.pattern}",)
