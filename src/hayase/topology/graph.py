"""The nodes of a topology, checked, cut into sub-topologies."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from hayase.core.errors import TopologyError
from hayase.state.stores.spec import StoreSpec
from hayase.topology.nodes import (
    GlobalTable,
    InternalTopic,
    Node,
    ProcessorNode,
    ProgramConnector,
    RepartitionTopic,
    SinkNode,
    SourceNode,
    SparkSink,
    SparkSource,
)


@dataclass(frozen=True, slots=True)
class SubTopology:
    """Nodes that are connected by edges or shared stores; the sub-topology that becomes one task per partition.

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
class KeptNames:
    """What a topology keeps of the one that began its checkpoint, where the builder would name it otherwise.

    Attributes:
        ids: sub-topologies and global tables: the id that the builder gives (`0`, `global0`) → the one that they have.
        clocks: of those ids: nodes → the names of their clocks.
        deleted: of those ids: stores that are gone, whose rows its bundles delete.
    """

    ids: Mapping[str, str]
    clocks: Mapping[str, Mapping[str, str]]
    deleted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(eq=False)
class TopologyGraph:
    """What `Topology` holds: nodes in the order they were added, and what follows from them.

    Attributes:
        repartitions: edges between sub-topologies that are shuffles inside the epoch, by name.
        internal_topics: edges that are topics of the log, by the name that nodes have for them: without the
            application's id in what the builder makes, with it once the configuration is known.
        spark_sources: streaming frames that are written to internal topics.
        spark_sinks: writers of frames that internal topics are read for.
        connectors: those of the program, each with the internal topic that it writes or reads.
        lines: which line of the user's program made a node, store or repartition, by name; for errors.
        earlier: the same program with the nodes and names that earlier releases gave it, if these differ: for their
            checkpoints (`hayase.topology.earlier`).
        numbered_by_sources: its sub-topologies are numbered as by earlier releases.
        store_names_before: names of stores → those that earlier releases gave them, which this topology has.
        generated: names that the builder made up, of nodes and of stores.
        kept: ids and clocks of a checkpoint that another topology began; `None`: those that the builder gives.
    """

    nodes: tuple[Node, ...] = ()
    stores: Mapping[str, StoreSpec] = field(default_factory=dict)
    repartitions: Mapping[str, RepartitionTopic] = field(default_factory=dict)
    global_tables: tuple[GlobalTable, ...] = ()
    internal_topics: Mapping[str, InternalTopic] = field(default_factory=dict)
    spark_sources: tuple[SparkSource, ...] = ()
    spark_sinks: tuple[SparkSink, ...] = ()
    lines: Mapping[str, str] = field(default_factory=dict, repr=False)
    earlier: TopologyGraph | None = field(default=None, repr=False)
    numbered_by_sources: bool = False
    store_names_before: Mapping[str, str] = field(default_factory=dict, repr=False)
    generated: frozenset[str] = field(default=frozenset(), repr=False)
    kept: KeptNames | None = field(default=None, repr=False)
    connectors: tuple[ProgramConnector, ...] = ()

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
        children: dict[str, list[str]] = {node.name: [] for node in self.nodes}
        for node in self.nodes:
            for parent in node.parents:
                children[parent].append(node.name)
        return {name: tuple(names) for name, names in children.items()}

    @cached_property
    def subtopologies(self) -> tuple[SubTopology, ...]:
        """Connected components, by id.

        The ids are those of Kafka Streams: see `_numbers`; global tables take ids as well. Where a checkpoint has
        others, they are those (`kept`).
        """
        groups = self._groups
        return tuple(
            SubTopology(
                int(kept_id(self, str(number))),
                tuple(node for node in self.nodes if groups[node.name] is groups[first]),
            )
            for first, number in self._numbers.items()
            if first in groups
        )

    @cached_property
    def global_table_ids(self) -> Mapping[str, int]:
        """The number that each global table takes among the sub-topologies, by the name of its store."""
        return {table.store: self._numbers[table.source.name] for table in self.global_tables}

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        """Number of each component, by its first node, in the order in which nodes and global tables were added."""
        groups = self._groups
        if self.numbered_by_sources:
            names = [node.name for node in self.nodes if isinstance(node, SourceNode)]
            return numbers_by_sources(groups, names + [table.source.name for table in self.global_tables])
        tables: dict[str | None, list[str]] = {}
        for table in self.global_tables:
            tables.setdefault(table.after, []).append(table.source.name)
        numbers = {name: number for number, name in enumerate(tables.get(None, ()))}
        seen: set[int] = set()
        for node in self.nodes:
            group = groups[node.name]
            if id(group) not in seen:
                seen.add(id(group))
                numbers[node.name] = len(numbers)
            for name in tables.get(node.name, ()):
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

    def shown_stores(self, node: ProcessorNode) -> tuple[str, ...]:
        """The stores of a node without those that an operator keeps for itself."""
        return tuple(name for name in node.stores if name not in self.stores or not self.stores[name].internal)

    def changed(self, **changes: object) -> None:
        """Replace fields; what was computed from them is forgotten."""
        for name in list(vars(self)):
            if isinstance(getattr(type(self), name, None), cached_property):
                delattr(self, name)
        for name, value in changes.items():
            setattr(self, name, value)
        self.__post_init__()


def kept_id(topology: TopologyGraph, natural: str) -> str:
    """The id of a sub-topology or global table in the checkpoint, by the one that the builder gives."""
    return natural if topology.kept is None else topology.kept.ids.get(natural, natural)


def tables_without(topology: TopologyGraph, gone: Collection[str]) -> tuple[GlobalTable, ...]:
    """The global tables, in their places among the nodes that are left."""
    last: str | None = None
    behind: dict[str | None, str | None] = {None: None}
    for node in topology.nodes:
        last = behind[node.name] = last if node.name in gone else node.name
    return tuple(replace(table, after=behind[table.after]) for table in topology.global_tables)


def numbers_by_sources(groups: Mapping[str, set[str]], names: list[str]) -> Mapping[str, int]:
    """Number of each component, by its first source in the order of names, global tables' sources included."""
    numbers: dict[str, int] = {}
    seen: list[set[str]] = []
    for name in sorted(names):
        group = groups.get(name, {name})
        if not any(group is other for other in seen):
            seen.append(group)
            numbers[name] = len(numbers)
    return numbers
