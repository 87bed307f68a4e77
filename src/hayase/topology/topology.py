"""A whole topology, as users build and describe it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from hayase.core.errors import TopologyError
from hayase.core.offset_reset import AutoOffsetReset
from hayase.processor.timestamps import TimestampExtractor
from hayase.serde.protocol import Serde
from hayase.state.stores.spec import StoreSpec
from hayase.topology import add
from hayase.topology.describe import describe
from hayase.topology.description import TopologyDescription
from hayase.topology.graph import TopologyGraph
from hayase.topology.nodes import Partitioner, TopicExtractor


@dataclass(eq=False)
class Topology(TopologyGraph):
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
    """

    earlier: Topology | None = field(default=None, repr=False)

    def add_source(
        self,
        name: str,
        *topics: str | re.Pattern[str],
        key_serde: Serde | None = None,
        value_serde: Serde | None = None,
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

    def add_processor(self, name: str, supplier: object, *parents: str) -> Topology:
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
        key_serde: Serde | None = None,
        value_serde: Serde | None = None,
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
        supplier: object,
        *,
        key_serde: Serde | None = None,
        value_serde: Serde | None = None,
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
        supplier: object,
        *,
        key_serde: Serde | None = None,
        value_serde: Serde | None = None,
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

    def _add(self, add_to: Callable[[TopologyGraph], None]) -> None:
        """Add something here and to the program's topology of earlier releases, which ends where names clash there."""
        add_to(self)
        if self.earlier is not None:
            try:
                add_to(self.earlier)
            except TopologyError:
                self.earlier = None

    def describe(self) -> TopologyDescription:
        """The topology as text, in the format of Kafka Streams' `Topology.describe()`."""
        return TopologyDescription(self, describe(self))

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """What notebooks show: as its description."""
        return self.describe()._repr_mimebundle_()
