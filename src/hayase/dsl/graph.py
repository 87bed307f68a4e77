"""The topology while it is being built."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from hayase.core.call_site import users_line
from hayase.core.errors import TopologyError
from hayase.core.names import NameCounter
from hayase.dsl.cycles import without_cycles
from hayase.dsl.null_keys import null_keys_wanted
from hayase.dsl.options.options import Consumed
from hayase.processor.timestamps import TimestampExtractor, record_timestamp
from hayase.serde.protocol import Serde
from hayase.state.stores.spec import StoreSpec
from hayase.topology.earlier import renamed
from hayase.topology.graph import tables_without
from hayase.topology.nodes import (
    GlobalTable,
    InternalTopic,
    Node,
    Partitioner,
    ProcessorNode,
    ProgramConnector,
    RepartitionTopic,
    SinkNode,
    SourceNode,
    SparkSink,
    SparkSource,
)
from hayase.topology.operators import (
    Operator,
    RepartitionFilter,
    StreamAggregate,
    TableAggregate,
    TableFilter,
    TableJoinMerge,
    TableMapValues,
    TableSource,
    TableTransformValues,
    WindowedOperator,
)
from hayase.topology.topology import Topology

if TYPE_CHECKING:
    from hayase.dsl.views import TableMaterialization

TableOperator = (
    TableSource
    | TableFilter
    | TableMapValues
    | TableTransformValues
    | StreamAggregate
    | WindowedOperator
    | TableAggregate
    | TableJoinMerge
)
"""Operators that send updates of a table."""

GENERATED_PREFIX = "KSTREAM"
REPARTITION_SUFFIX = "-repartition"
AGAIN = "\0"
"""In the names of a repartition whose name is taken, until it is merged into that one."""


class Graph:
    """Collects nodes in the order of the calls; a node's final form is made at the end.

    A later call can change an earlier node: a join lets a source table keep its rows, a split gets its branches.
    """

    def __init__(self) -> None:
        self.names = NameCounter()
        self._nodes: list[Callable[[], Node]] = []
        self._last_node: str | None = None
        self._stores: dict[str, StoreSpec] = {}
        self._repartitions: dict[str, RepartitionTopic] = {}
        self._join_repartitions: dict[str, str] = {}
        self._shared_now: dict[str, str] = {}
        """Sources of repartitions of joins that earlier releases made → those that are shared instead."""
        self._only_before: set[str] = set()
        """The nodes and topics of those repartitions."""
        self._internal_topics: dict[str, InternalTopic] = {}
        self._spark_sources: list[SparkSource] = []
        self._spark_sinks: list[SparkSink] = []
        self._connectors: list[ProgramConnector] = []
        self._global_tables: list[GlobalTable] = []
        self._streams: dict[tuple[frozenset[str], str | None], SourceNode] = {}
        self._topics: dict[str, str] = {}
        self._patterns: dict[str, re.Pattern[str]] = {}
        self._lines: dict[str, str] = {}

    def _made_here(self, *names: str) -> None:
        """Remember which line of the user made these nodes, stores or repartitions, for errors that come later."""
        line = users_line()
        if line is not None:
            for name in names:
                self._lines.setdefault(name, line)

    def source(self, node: SourceNode) -> None:
        """Add a source of topics that no other source reads."""
        self._claim(node)
        self._made_here(node.name)
        self._add(node.name, lambda: node)

    def _add(self, name: str, make: Callable[[], Node]) -> None:
        self._nodes.append(make)
        self._last_node = name

    def stream_source(
        self,
        topics: Sequence[str],
        name: str,
        consumed: Consumed[object, object],
        pattern: re.Pattern[str] | None = None,
    ) -> SourceNode:
        """The source of a stream: the one that reads exactly these topics, or this pattern, already, else a new one."""
        node = SourceNode(
            name,
            tuple(topics),
            consumed.key_serde,
            consumed.value_serde,
            consumed.timestamp_extractor,
            consumed.reset,
            pattern,
        )
        read = frozenset(topics), None if pattern is None else pattern.pattern
        existing = self._streams.get(read)
        if existing is None:
            self.source(node)
            self._streams[read] = node
            return node
        for option in ("key_serde", "value_serde", "timestamp_extractor", "reset"):
            first, second = getattr(existing, option), getattr(node, option)
            alike = type(first) is type(second) if isinstance(first, Serde) else first == second
            if second is not None and not alike:
                raise TopologyError(
                    "CONFLICTING_SOURCES",
                    f"topic {', '.join(topics) or read[1]} is read twice, with the {option} {first!r} and {second!r}; "
                    "one topic is read once, so use the same options, or the first stream",
                )
        return existing

    def global_table(self, table: GlobalTable, spec: StoreSpec) -> None:
        """Add a global table and its store."""
        self._claim(table.source)
        self.store(spec)
        self._global_tables.append(dataclasses.replace(table, after=self._last_node))

    def _claim(self, node: SourceNode) -> None:
        for topic in node.topics:
            other = self._topics.setdefault(topic, node.name)
            if other != node.name:
                raise TopologyError(
                    "TOPIC_READ_TWICE",
                    f"topic {topic!r} is already read by {other!r}; a topic can be read once, as a stream, a table or "
                    "a global table (a stream and a table of one topic: stream(…) and its to_table())",
                )
        if node.pattern is not None:
            self._patterns[node.name] = node.pattern
        internal = self._repartitions.keys() | self._internal_topics.keys()
        for source, pattern in self._patterns.items():
            for topic, reader in self._topics.items():
                if reader != source and topic not in internal and pattern.fullmatch(topic):
                    raise TopologyError(
                        "TOPIC_READ_TWICE",
                        f"the pattern {pattern.pattern!r} of {source!r} matches topic {topic!r}, which {reader!r} "
                        "reads; a topic can be read once, so make the pattern narrower",
                    )

    def processor(
        self,
        name: str,
        parents: Sequence[str],
        operator: Operator | Callable[[], Operator],
        stores: Sequence[str] = (),
    ) -> str:
        """Add a node whose operator is known, or will be at the end."""
        fixed = tuple(dict.fromkeys(parents)), tuple(stores)  # a stream merged with itself is one parent
        self._made_here(name)

        def make_node() -> Node:
            final = operator if isinstance(operator, Operator) else operator()
            return ProcessorNode(name, fixed[0], final, fixed[1])

        self._add(name, make_node)
        return name

    def table_processor(
        self,
        name: str,
        parent: str | Sequence[str],
        operator: Callable[[str | None], TableOperator],
        view: TableMaterialization,
        stores: Sequence[str] = (),
    ) -> None:
        """Add a table's node; whether it keeps a store, beside `stores`, and sends old values is known at the end."""
        parents = (parent,) if isinstance(parent, str) else tuple(parent)
        self._made_here(name)

        def make_node() -> Node:
            store = view.store
            final = dataclasses.replace(operator(store), old_values=view.old_values)
            return ProcessorNode(name, parents, final, (*stores, *(() if store is None else (store,))))

        self._add(name, make_node)

    def sink(self, node: SinkNode) -> None:
        """Add a sink."""
        self._made_here(node.name)
        self._add(node.name, lambda: node)

    def store(self, spec: StoreSpec) -> str:
        """Add a store."""
        if spec.name in self._stores:
            raise TopologyError(
                "DUPLICATE_STORE",
                f"there are two stores named {spec.name!r}; give one another name by Materialized.as_",
            )
        self._stores[spec.name] = spec
        self._made_here(spec.name)
        return spec.name

    def add_once(self, spec: StoreSpec) -> None:
        """Add a store, unless the very same is there: several processors may bring it along."""
        if self._stores.get(spec.name) is not spec:
            self.store(spec)

    def uncache(self, name: str) -> None:
        """Let every update of a store's table be passed on at once."""
        self._stores[name] = dataclasses.replace(self._stores[name], caching=False)

    def repartition_names(self, prefix: str) -> tuple[str, str, str, str]:
        """Names of topic, sink, filter and source of a repartition; Kafka Streams counts on for all three nodes."""
        topic = prefix if prefix.endswith(REPARTITION_SUFFIX) else prefix + REPARTITION_SUFFIX
        self._made_here(prefix, topic)
        sink, drop, source = (self.names.next(f"KSTREAM-{kind}-") for kind in ("SINK", "FILTER", "SOURCE"))
        stem, _, number = prefix.rpartition("-")
        if stem.startswith(GENERATED_PREFIX) and len(number) == 10 and number.isdecimal():
            return topic, sink, drop, source
        return topic, f"{topic}-sink", f"{topic}-filter", f"{topic}-source"

    def repartition(
        self,
        parent: str,
        names: tuple[str, str, str, str],
        key_serde: Serde | None,
        value_serde: Serde | None,
    ) -> str:
        """Add filter, sink and source of a repartition; the source's name. Serdes may be left to the planner.

        A second repartition of one name is an error unless it is merged into the first one: known when the topology is
        built.
        """
        if names[0] in self._repartitions:
            topic, sink, drop, source = (f"{name}{AGAIN}{len(self._repartitions)}" for name in names)
            names = topic, sink, drop, source
        else:
            self._check_repartition(names[0])
        self._repartitions[names[0]] = RepartitionTopic(names[0])
        return self._through(parent, names, key_serde, value_serde, None, None)

    def join_repartition(
        self, parent: str, prefix: str, add: Callable[[tuple[str, str, str, str]], str], other_side: str | None = None
    ) -> str:
        """The source of the repartition that a join of this node reads.

        Joins of one stream share one, unless it is named.

        As `KStreamImpl.repartitionForJoin`: the stream remembers the last one, which a join without a name uses.
        Earlier releases shared only between the sides of one join, `other_side` being the source of the other one;
        elsewhere they made one more, which is left out when the topology is built (see `build`).
        """
        names = self.repartition_names(prefix)  # also where it is shared: Kafka Streams counts on
        if other_side is not None:
            self.names.uncounted_before(3)
            return other_side
        shared = self._join_repartitions.get(parent)
        if shared is None or prefix != parent:
            repartition = self._join_repartitions[parent] = add(names)
            return repartition
        if names[0] in self._repartitions:  # earlier releases refused two of one name
            return shared
        repartition = add(names)
        self._shared_now[repartition] = shared
        self._only_before |= {*names}
        return repartition

    def table_repartition(
        self,
        parent: str,
        names: tuple[str, str, str],
        serdes: tuple[Serde | None, Serde],
        partitioner: Partitioner | None = None,
    ) -> str:
        """Add sink and source (names: topic, sink, source) of a repartition that filters nothing; the source's name."""
        self._check_repartition(names[0])
        self._repartitions[names[0]] = RepartitionTopic(names[0])
        return self._between((parent,), names, serdes, partitioner, None)

    def internal_table_topic(
        self,
        parents: tuple[str, ...],
        names: tuple[str, str, str],
        serdes: tuple[Serde, Serde],
        partitioner: Partitioner | None,
    ) -> str:
        """A copy with a topic of the log: it is read in a later epoch than it is written."""
        self._check_repartition(names[0])
        self._internal_topics[names[0]] = InternalTopic(names[0])
        return self._between(parents, names, serdes, partitioner, record_timestamp())

    def _between(
        self,
        parents: tuple[str, ...],
        names: tuple[str, str, str],
        serdes: tuple[Serde | None, Serde],
        partitioner: Partitioner | None,
        extractor: TimestampExtractor | None,
    ) -> str:
        topic, sink, source = names
        self.sink(SinkNode(sink, parents, topic, *serdes, None, partitioner))
        self.source(SourceNode(source, (topic,), *serdes, extractor))
        return source

    def internal_topic(
        self,
        parent: str,
        names: tuple[str, str, str, str],
        serdes: tuple[Serde, Serde],
        partitions: int | None,
        partitioner: Partitioner | None,
    ) -> str:
        """Add filter, sink and source of a repartition that is a topic of the log; the source's name."""
        self._check_repartition(names[0])
        self._internal_topics[names[0]] = InternalTopic(names[0], partitions)
        return self._through(parent, names, *serdes, partitioner, record_timestamp())

    def spark_source(self, source: SparkSource, partitions: int | None) -> None:
        """Add the internal topic that a Spark DataFrame is written to; its source node is added besides."""
        self._spark_topic("from_spark", source.name, source.topic, partitions)
        self._spark_sources.append(source)

    def spark_sink(self, sink: SparkSink) -> None:
        """Add the internal topic that a Spark writer is given; its sink node is added besides."""
        self._spark_topic("to_spark", sink.name, sink.topic, None)
        self._spark_sinks.append(sink)

    def connector(self, connector: ProgramConnector, partitions: int | None) -> None:
        """Add a connector of the program with its internal topic; the node at the topic is added besides."""
        self._spark_topic("connectors", connector.name, connector.topic, partitions)
        if any(each.name == connector.name for each in self._connectors):
            raise TopologyError("DUPLICATE_NAME", f"there are two connectors named {connector.name!r}; rename one")
        self._connectors.append(connector)

    def _spark_topic(self, what: str, name: str, topic: str, partitions: int | None) -> None:
        if topic in self._internal_topics:
            raise TopologyError("DUPLICATE_NAME", f"there are two {what} named {name!r}; give one another name")
        self._internal_topics[topic] = InternalTopic(topic, partitions)

    def _check_repartition(self, topic: str) -> None:
        if topic in self._repartitions or topic in self._internal_topics:
            raise duplicate_repartition(topic)

    def _through(
        self,
        parent: str,
        names: tuple[str, str, str, str],
        key_serde: Serde | None,
        value_serde: Serde | None,
        partitioner: Partitioner | None,
        extractor: TimestampExtractor | None,
    ) -> str:
        topic, sink, drop, source = names
        self.processor(drop, (parent,), RepartitionFilter())
        self.sink(SinkNode(sink, (drop,), topic, key_serde, value_serde, None, partitioner))
        self.source(SourceNode(source, (topic,), key_serde, value_serde, extractor))
        return source

    def _check_stores(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            for store in node.stores if isinstance(node, ProcessorNode) else ():
                if store not in self._stores:
                    raise TopologyError(
                        "UNKNOWN_STORE",
                        f"node {node.name!r} is connected with store {store!r}, which does not exist; add it by "
                        "add_state_store, or name a table's store by Materialized.as_. There are "
                        f"{sorted(self._stores)}",
                        node=node.name,
                        line=self._lines.get(node.name),
                    )

    @property
    def was_built_otherwise(self) -> bool:
        """Whether earlier releases gave it other nodes or names."""
        return bool(self.names.before or self._shared_now)

    def build(self, *, before: bool = False) -> Topology:
        """The topology as it is now.

        Or with the nodes and names that earlier releases gave it (`hayase.topology.earlier`).
        """
        others = {} if before else self._shared_now
        nodes = [_with_parents(node(), others) for node in self._nodes]
        if not nodes and not self._global_tables:
            raise TopologyError("EMPTY_TOPOLOGY", "the topology has no nodes; begin with builder.stream('topic')")
        self._check_stores(nodes)
        wanted = null_keys_wanted(nodes, {*self._repartitions, *self._internal_topics})
        final = tuple(
            dataclasses.replace(node, operator=RepartitionFilter(keep_null_keys=True))
            if node.name in wanted and isinstance(node, ProcessorNode) and isinstance(node.operator, RepartitionFilter)
            else node
            for node in nodes
        )
        topology = Topology(
            final,
            dict(self._stores),
            dict(self._repartitions),
            tuple(self._global_tables),
            dict(self._internal_topics),
            tuple(self._spark_sources),
            tuple(self._spark_sinks),
            dict(self._lines),
            generated=frozenset(self.names.generated),
            connectors=tuple(self._connectors),
        )
        return without_cycles(renamed(topology, self.names.before) if before else self._without_those_before(topology))

    def _without_those_before(self, topology: Topology) -> Topology:
        gone = self._only_before
        if not gone:
            return topology
        return dataclasses.replace(
            topology,
            nodes=tuple(node for node in topology.nodes if node.name not in gone),
            repartitions={topic: each for topic, each in topology.repartitions.items() if topic not in gone},
            global_tables=tables_without(topology, gone),
        )


def _with_parents(node: Node, others: Mapping[str, str]) -> Node:
    """The node, with other parents in the place of some."""
    if isinstance(node, SourceNode) or not others:
        return node
    return dataclasses.replace(node, parents=tuple(others.get(parent, parent) for parent in node.parents))


def duplicate_repartition(topic: str) -> TopologyError:
    """Two repartitions have one name."""
    return TopologyError(
        "DUPLICATE_REPARTITION",
        f"there are two repartitions named {topic!r}; give one another name (Grouped.as_, Joined.as_, "
        "Repartitioned.as_, Materialized.as_). Those of groupings of one re-keyed stream become one with "
        "topology.optimization=all",
    )


def check_repartitions(topology: Topology) -> Topology:
    """The topology, if all its repartitions have names of their own.

    Raises:
        TopologyError: `DUPLICATE_REPARTITION`.
    """
    for topic in topology.repartitions:
        if AGAIN in topic:
            raise duplicate_repartition(topic.partition(AGAIN)[0])
    return topology
