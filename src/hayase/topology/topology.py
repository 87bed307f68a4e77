"""A whole topology, checked, cut into sub-topologies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from hayase.core.errors import TopologyError
from hayase.state.spec import StoreSpec
from hayase.topology.nodes import (
    GlobalTable,
    InternalTopic,
    Node,
    ProcessorNode,
    RepartitionTopic,
    SinkNode,
    SourceNode,
)


@dataclass(frozen=True, slots=True)
class SubTopology:
    """Nodes that are connected by edges or shared stores; the unit that becomes one task per partition.

    Nodes are in the order in which they were added, which is also a topological order.
    """

    id: int
    nodes: tuple[Node, ...]

    @property
    def sources(self) -> tuple[SourceNode, ...]:
        """The sources, in order."""
        return tuple(node for node in self.nodes if isinstance(node, SourceNode))

    @property
    def sinks(self) -> tuple[SinkNode, ...]:
        """The sinks, in order."""
        return tuple(node for node in self.nodes if isinstance(node, SinkNode))

    @property
    def store_names(self) -> tuple[str, ...]:
        """Names of the stores that its processors use, in order, each once."""
        names: dict[str, None] = {}
        for node in self.nodes:
            if isinstance(node, ProcessorNode):
                names.update(dict.fromkeys(node.stores))
        return tuple(names)


@dataclass(frozen=True)
class Topology:
    """What an application does: nodes in the order they were added, stores, repartition topics, global tables.

    Made by `StreamsBuilder.build()`; immutable.

    Attributes:
        repartitions: edges between sub-topologies that are shuffles inside the epoch, by name.
        internal_topics: edges that are topics of the log, by the name that nodes have for them: without the
            application's id in what the builder makes, with it once the configuration is known.
    """

    nodes: tuple[Node, ...]
    stores: Mapping[str, StoreSpec]
    repartitions: Mapping[str, RepartitionTopic]
    global_tables: tuple[GlobalTable, ...] = ()
    internal_topics: Mapping[str, InternalTopic] = field(default_factory=dict)

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for node in self.nodes:
            if node.name in seen:
                raise TopologyError("DUPLICATE_NAME", f"there are two nodes named {node.name!r}; give one another name")
            for parent in node.parents:
                if parent not in seen:
                    raise TopologyError(
                        "UNKNOWN_PARENT",
                        f"node {node.name!r} names the parent {parent!r}, which was not added before it",
                    )
            seen.add(node.name)

    @cached_property
    def by_name(self) -> Mapping[str, Node]:
        """Nodes by name (global tables' nodes are not among them)."""
        return {node.name: node for node in self.nodes}

    @cached_property
    def children(self) -> Mapping[str, tuple[str, ...]]:
        """Names of each node's children, in the order they were added."""
        found: dict[str, list[str]] = {node.name: [] for node in self.nodes}
        for node in self.nodes:
            for parent in node.parents:
                found[parent].append(node.name)
        return {name: tuple(names) for name, names in found.items()}

    @cached_property
    def subtopologies(self) -> tuple[SubTopology, ...]:
        """Connected components, by id. The ids are Kafka Streams': see `_numbers`; global tables take ids as well."""
        groups = self._groups
        return tuple(
            SubTopology(number, tuple(node for node in self.nodes if groups[node.name] is groups[source]))
            for source, number in self._numbers.items()
            if source in groups
        )

    @cached_property
    def global_table_ids(self) -> Mapping[str, int]:
        """The number that each global table takes among the sub-topologies, by the name of its store."""
        return {table.store: self._numbers[table.source.name] for table in self.global_tables}

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        """Number of each component, by its first source in the order of names, global tables' sources included."""
        groups = self._groups
        names = [node.name for node in self.nodes if isinstance(node, SourceNode)]
        names += [table.source.name for table in self.global_tables]
        numbers: dict[str, int] = {}
        seen: list[set[str]] = []
        for name in sorted(names):
            group = groups.get(name, {name})
            if not any(group is other for other in seen):
                seen.append(group)
                numbers[name] = len(numbers)
        return numbers

    @cached_property
    def _groups(self) -> Mapping[str, set[str]]:
        """The names of the nodes that are in one component with a node; one set object per component."""
        groups: dict[str, set[str]] = {node.name: {node.name} for node in self.nodes}

        def join(a: str, b: str) -> None:
            left, right = groups[a], groups[b]
            if left is not right:
                left |= right
                for name in right:
                    groups[name] = left

        global_stores = {table.store for table in self.global_tables}
        owner: dict[str, str] = {}
        for node in self.nodes:
            for parent in node.parents:
                join(parent, node.name)
            for store in node.stores if isinstance(node, ProcessorNode) else ():
                if store not in global_stores:
                    join(owner.setdefault(store, node.name), node.name)
        return groups

    def describe(self) -> TopologyDescription:
        """The topology as text, in the format of Kafka Streams' `Topology.describe()`."""
        from hayase.topology.describe import describe

        return TopologyDescription(self, describe(self))


class TopologyDescription(str):
    """What `Topology.describe()` gives: a string to print, which can be drawn as well."""

    __slots__ = ("_topology",)
    _topology: Topology

    def __new__(cls, topology: Topology, text: str) -> TopologyDescription:
        """The text of a topology."""
        made = super().__new__(cls, text)
        made._topology = topology
        return made

    def to_mermaid(self) -> str:
        """The topology as a Mermaid flowchart, for a fenced block of a Markdown page.

        Topics are stadiums (a shuffle is a hexagon), stores are cylinders; an arrow is what records flow along, a
        dotted line joins a node with a store that it uses.

        Example:
            >>> from hayase import StreamsBuilder
            >>> builder = StreamsBuilder()
            >>> builder.stream("in").to("out")
            >>> print(builder.build().describe().to_mermaid())
            flowchart TD
                subgraph sub0["Sub-topology 0"]
                    node0["KSTREAM-SOURCE-0000000000"]
                    node1["KSTREAM-SINK-0000000001"]
                end
                topic0(["in"])
                topic1(["out"])
                topic0 --> node0
                node0 --> node1
                node1 --> topic1
            <BLANKLINE>
        """
        from hayase.topology.mermaid import to_mermaid

        return to_mermaid(self._topology)
