"""A whole topology, checked, cut into sub-topologies."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from hayase.core.errors import TopologyError
from hayase.core.offset_reset import AutoOffsetReset
from hayase.processor.timestamps import TimestampExtractor
from hayase.serde.protocol import Serde
from hayase.state.stores.spec import StoreSpec
from hayase.topology import add
from hayase.topology.earlier import numbers_by_sources
from hayase.topology.nodes import (
    GlobalTable,
    InternalTopic,
    Node,
    Partitioner,
    ProcessorNode,
    RepartitionTopic,
    SinkNode,
    SourceNode,
    SparkSink,
    SparkSource,
    TopicExtractor,
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


@dataclass(eq=False)
class Topology:
    """What an application does: nodes in the order they were added, stores, repartition topics, global tables.

    Made by `StreamsBuilder.build()`, or node by node, with processors of yours (Kafka Streams' `Topology`); what the
    builder made can be added to as well. Nothing may be added once it runs. Every `add_…` gives the topology itself.

    Example:
        >>> from hayase import Processor, Serdes, Stores
        >>> class Count(Processor):
        ...     def init(self, context):
        ...         self.context, self.counts = context, context.get_state_store("counts")
        ...
        ...     def process(self, record):
        ...         self.counts.put(record.key, (self.counts.get(record.key) or 0) + 1)
        ...         self.context.forward(record.with_value(self.counts.get(record.key)))
        >>> topology = Topology()
        >>> _ = topology.add_source("source", "in", key_serde=Serdes.string(), value_serde=Serdes.string())
        >>> _ = topology.add_processor("count", Count, "source")
        >>> _ = topology.add_state_store(Stores.key_value_store("counts", Serdes.string(), Serdes.long()), "count")
        >>> _ = topology.add_sink("sink", "out", "count", key_serde=Serdes.string(), value_serde=Serdes.long())
        >>> print(topology.describe())
        Topologies:
           Sub-topology: 0
            Source: source (topics: [in])
              --> count
            Processor: count (stores: [counts])
              --> sink
              <-- source
            Sink: sink (topic: out)
              <-- count
        <BLANKLINE>
        <BLANKLINE>

    Attributes:
        repartitions: edges between sub-topologies that are shuffles inside the epoch, by name.
        internal_topics: edges that are topics of the log, by the name that nodes have for them: without the
            application's id in what the builder makes, with it once the configuration is known.
        spark_sources: streaming frames that are written to internal topics.
        spark_sinks: writers of frames that internal topics are read for.
        lines: which line of the user's program made a node, store or repartition, by name; for errors.
        earlier: the same program with the nodes and names that earlier releases gave it, if these differ: for their
            checkpoints (`hayase.topology.earlier`).
        numbered_by_sources: its sub-topologies are numbered as by earlier releases.
        store_names_before: names of stores → those that earlier releases gave them, which this topology has.
    """

    nodes: tuple[Node, ...] = ()
    stores: Mapping[str, StoreSpec] = field(default_factory=dict)
    repartitions: Mapping[str, RepartitionTopic] = field(default_factory=dict)
    global_tables: tuple[GlobalTable, ...] = ()
    internal_topics: Mapping[str, InternalTopic] = field(default_factory=dict)
    spark_sources: tuple[SparkSource, ...] = ()
    spark_sinks: tuple[SparkSink, ...] = ()
    lines: Mapping[str, str] = field(default_factory=dict, repr=False)
    earlier: Topology | None = field(default=None, repr=False)
    numbered_by_sources: bool = False
    store_names_before: Mapping[str, str] = field(default_factory=dict, repr=False)

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

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """What notebooks show: as its description."""
        return self.describe()._repr_mimebundle_()

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
        """Connected components, by id.

        The ids are those of Kafka Streams: see `_numbers`; global tables take ids as well.
        """
        groups = self._groups
        return tuple(
            SubTopology(number, tuple(node for node in self.nodes if groups[node.name] is groups[first]))
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

    def add_source(
        self,
        name: str,
        *topics: str | re.Pattern[str],
        key_serde: Serde[Any] | None = None,
        value_serde: Serde[Any] | None = None,
        timestamp_extractor: TimestampExtractor | None = None,
        offset_reset: AutoOffsetReset | Literal["earliest", "latest", "none"] | None = None,
    ) -> Topology:
        """Add a node that reads topics, or those whose whole name one pattern matches.

        Args:
            name: of the node.
            topics: of the log. Each topic is read by one node.
            key_serde: of the keys; default: that of the configuration, else bytes.
            value_serde: of the values; likewise.
            timestamp_extractor: default: that of the configuration.
            offset_reset: where to begin without a position; default: as the configuration says.

        Raises:
            TopologyError: a name or a topic is taken, or no topic is given.
        """
        serdes = key_serde, value_serde
        self._add(lambda each: add.source(each, name, topics, serdes, timestamp_extractor, offset_reset))
        return self

    def add_processor(self, name: str, supplier: Any, *parents: str) -> Topology:
        """Add a node that runs a `Processor` over what its parents send.

        Stores that the supplier brings are added (KIP-401).

        Args:
            name: of the node.
            supplier: a subclass of `Processor`, or a function that makes one; a `FixedKeyProcessor` goes as well.
            parents: names of nodes that were added before.

        Raises:
            TopologyError: the name is taken, a parent is unknown or none is given, or that is no supplier.
        """
        self._add(lambda each: add.processor(each, name, supplier, parents))
        return self

    def add_sink(
        self,
        name: str,
        topic: str | TopicExtractor,
        *parents: str,
        key_serde: Serde[Any] | None = None,
        value_serde: Serde[Any] | None = None,
        partitioner: Partitioner | None = None,
    ) -> Topology:
        """Add a node that writes what its parents send.

        Args:
            name: of the node.
            topic: a topic's name, or a function `(key, value, record_context) -> topic`.
            parents: names of nodes that were added before.
            key_serde: of the keys; default: that of the configuration, else what fits the keys.
            value_serde: of the values; likewise.
            partitioner: see `Produced`.

        Raises:
            TopologyError: the name is taken, a parent is unknown or none is given.
        """
        self._add(lambda each: add.sink(each, name, topic, parents, (key_serde, value_serde), partitioner))
        return self

    def add_state_store(self, store: StoreSpec, *processors: str) -> Topology:
        """Add a store, made by `Stores`, and connect it with processors.

        Raises:
            TopologyError: the name is taken, or there is no such processor.
        """
        self._add(lambda each: add.state_store(each, store, processors))
        return self

    def connect_processor_and_state_stores(self, processor: str, *stores: str) -> Topology:
        """Let a processor use stores that were added before. Processors that share a store are in one sub-topology.

        Raises:
            TopologyError: there is no such processor or store.
        """
        self._add(lambda each: add.connect(each, processor, stores))
        return self

    def add_read_only_state_store(
        self,
        store: StoreSpec,
        source_name: str,
        topic: str,
        processor_name: str,
        supplier: Any,
        *,
        key_serde: Serde[Any] | None = None,
        value_serde: Serde[Any] | None = None,
        timestamp_extractor: TimestampExtractor | None = None,
    ) -> Topology:
        """Add a source, the processor that keeps a store from it, and the store (KIP-813).

        Others should only read the store.

        Raises:
            TopologyError: see `add_source`, `add_processor`, `add_state_store`.
        """
        self.add_source(
            source_name, topic, key_serde=key_serde, value_serde=value_serde, timestamp_extractor=timestamp_extractor
        )
        return self.add_processor(processor_name, supplier, source_name).add_state_store(store, processor_name)

    def add_global_store(
        self,
        store: StoreSpec,
        source_name: str,
        topic: str,
        processor_name: str,
        supplier: Any,
        *,
        key_serde: Serde[Any] | None = None,
        value_serde: Serde[Any] | None = None,
        timestamp_extractor: TimestampExtractor | None = None,
    ) -> Topology:
        """Add a store that every task can read, kept from all partitions of a topic.

        A `Processor` of yours takes the topic's records and keeps the store; what it forwards goes nowhere. Every task
        can read all of the store, processors by `context.get_state_store` without being connected with it. In an epoch
        the store is up to date before records of streams are processed. After a restart it is restored from its
        changelog: unlike in Kafka Streams the processor does not see old records again, so it need not store them as
        they are.

        Args:
            store: made by `Stores`, with a changelog.
            source_name: of the node that reads the topic.
            topic: read from its beginning.
            processor_name: of the node that keeps the store.
            supplier: a subclass of `Processor`, or a function that makes one.
            key_serde: of the topic's keys; default: that of the configuration, else bytes.
            value_serde: of its values; likewise.
            timestamp_extractor: default: that of the configuration.

        Raises:
            TopologyError: a name or the topic is taken, or one of them is not what it should be.
        """
        serdes = key_serde, value_serde
        names = source_name, processor_name
        self._add(lambda each: add.global_store(each, store, names, topic, supplier, serdes, timestamp_extractor))
        return self

    def _add(self, add_to: Callable[[Topology], None]) -> None:
        """Add something here and to what earlier releases made of the program, which cannot have it if names clash there."""
        add_to(self)
        if self.earlier is not None:
            try:
                add_to(self.earlier)
            except TopologyError:
                self.earlier = None

    def changed(self, **changes: Any) -> None:
        """Replace fields; what was computed from them is forgotten."""
        for name in list(vars(self)):
            if isinstance(getattr(type(self), name, None), cached_property):
                delattr(self, name)
        for name, value in changes.items():
            setattr(self, name, value)
        self.__post_init__()

    def describe(self) -> TopologyDescription:
        """The topology as text, in the format of Kafka Streams' `Topology.describe()`."""
        from hayase.topology.describe import describe

        return TopologyDescription(self, describe(self))


def tables_without(topology: Topology, gone: Collection[str]) -> tuple[GlobalTable, ...]:
    """The global tables, in their places among the nodes that are left."""
    last: str | None = None
    behind: dict[str | None, str | None] = {None: None}
    for node in topology.nodes:
        last = behind[node.name] = last if node.name in gone else node.name
    return tuple(replace(table, after=behind[table.after]) for table in topology.global_tables)


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

        Topics are stadiums (a shuffle is a hexagon), stores are cylinders, frames of Spark's boxes with bars; an arrow
        is what records flow along, a dotted line joins a node with a store that it uses.

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

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """What notebooks show: a drawing (JupyterLab draws Mermaid itself), else the text."""
        return {"text/vnd.mermaid": self.to_mermaid(), "text/plain": str(self)}
