"""`StreamsBuilder`: the entry point of the DSL."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Literal, Never, overload

from hayase.core.config import optimizations
from hayase.core.errors import TopologyError
from hayase.core.type_variables import K, V
from hayase.dsl.connectors import connector_source
from hayase.dsl.graph import Graph, check_repartitions
from hayase.dsl.inference import Known
from hayase.dsl.joins.self_joins import with_single_stores
from hayase.dsl.kstream import KStream
from hayase.dsl.ktable import GlobalKTable, KTable
from hayase.dsl.merged_repartitions import alike, alike_before, merge_repartitions
from hayase.dsl.options.materialized import Materialized
from hayase.dsl.options.options import Consumed
from hayase.dsl.spark import spark_source
from hayase.dsl.stream_state import StreamState, check_option
from hayase.dsl.table_state import GlobalTableState, TableState, key_value_spec, refuse_ttl, table_spec
from hayase.dsl.time_fields import check_time_field
from hayase.dsl.views import TableMaterialization
from hayase.processor.api import ProcessorSupplier
from hayase.serde import Serdes
from hayase.serde.debezium_serde import DebeziumSerde
from hayase.serde.faults import shown
from hayase.state.stores.spec import StoreSpec
from hayase.topology.add import global_table_of
from hayase.topology.defaults import DefaultSerde
from hayase.topology.earlier import is_alike
from hayase.topology.nodes import GlobalTable, ProcessorNode, SourceNode, SparkReader
from hayase.topology.operators import TableSource
from hayase.topology.suppliers import check_store
from hayase.topology.topology import Topology


class StreamsBuilder:
    """Builds a topology, step by step: Kafka Streams' `StreamsBuilder`.

    Example:
        >>> builder = StreamsBuilder()
        >>> builder.stream("in", Consumed.with_(Serdes.string(), Serdes.string())).to("out")
        >>> print(builder.build().describe())
        Topologies:
           Sub-topology: 0
            Source: KSTREAM-SOURCE-0000000000 (topics: [in])
              --> KSTREAM-SINK-0000000001
            Sink: KSTREAM-SINK-0000000001 (topic: out)
              <-- KSTREAM-SOURCE-0000000000
        <BLANKLINE>
        <BLANKLINE>
    """

    def __init__(self) -> None:
        self._graph = Graph()
        self._checks: list[Callable[[Topology], None]] = []
        self._completions: list[Callable[[Topology], None]] = []

    def stream(
        self, topics: str | Iterable[str] | re.Pattern[str], consumed: Consumed[K, V] | None = None
    ) -> KStream[K, V]:
        """A stream of the records of one or several topics, or of all topics whose names match a pattern.

        Serdes that `consumed` does not give are those of the configuration, else the values are bytes. Asking
        for the same topics, or the same pattern, again gives the same source. Partition i of each topic goes to
        the same task, merged by timestamp.

        A pattern must match the whole name; topics that begin with `__` and internal topics are never matched. At least
        one topic must match when the application starts. One that is made while it runs is read, from where `reset`
        says, at most `metadata.max.age.ms` later; the application is REBALANCING for a moment then. A new topic with
        which it could not be started, for its partitions do not fit or another source reads it too, ends it with that
        error. A run to the end of the input reads what was there when it began.

        Raises:
            TopologyError: a topic is read as a table already, or together with other topics.

        Example:
            builder.stream(re.compile(r"orders-.*"))
        """
        options = check_option(consumed, Consumed, "stream")
        if isinstance(topics, re.Pattern):
            return self._stream((), options, topics)
        several = topics if isinstance(topics, Iterable) and not isinstance(topics, str) else (topics,)
        names = tuple(dict.fromkeys(several))
        if not names or not all(isinstance(name, str) and name for name in names):
            raise TopologyError("INVALID_TOPIC", f"stream takes a topic's name or several, not {topics!r}")
        return self._stream(names, options)

    def _stream(
        self, topics: tuple[str, ...], options: Consumed[object, object], pattern: re.Pattern[str] | None = None
    ) -> KStream:
        name = self._graph.names.name_or_next(options.name, "KSTREAM-SOURCE-")
        node = self._graph.stream_source(topics, name, options, pattern)
        key, value = _known(options, node.name)
        return KStream(StreamState(self._graph, node.name, key, value))

    @overload
    def table(
        self, topic: str, consumed: Consumed[K, V], materialized: Materialized[K, V] | None = None
    ) -> KTable[K, V]: ...
    @overload
    def table(
        self, topic: str, consumed: None = None, materialized: Materialized[Never, Never] | None = None
    ) -> KTable: ...
    @overload
    def table(self, topic: str, consumed: None = None, *, materialized: Materialized[K, V]) -> KTable[K, V]: ...
    def table(
        self,
        topic: str,
        consumed: Consumed[object, object] | None = None,
        materialized: Materialized[object, object] | None = None,
    ) -> KTable:
        """A table of the latest value of each key of a topic.

        A null value deletes, records with a null key are dropped.

        The rows are kept if the store is named or a join reads them. In a versioned store the record with the greatest
        timestamp is the latest, not the one that came last: see `Materialized.as_`.
        """
        options, store_options = self._table_options(topic, consumed, materialized, "table")
        graph = self._graph
        store, source, name = self._table_names(topic, options, store_options)
        captured = isinstance(options.value_serde, DebeziumSerde)
        if isinstance(options.value_serde, DebeziumSerde):
            options = replace(options, value_serde=options.value_serde.reading_incomplete())
        graph.source(_source(source, topic, options))
        key, value = _known(options, source)
        keep = captured or store_options.name is not None  # values that an update does not send are in the store only
        view = TableMaterialization(graph, table_spec(store_options, store, key, value), None, keep=keep)
        graph.table_processor(name, source, lambda store: TableSource(store, completes=captured), view)
        return KTable(TableState(graph, name, key, value, view, store_options.name))

    @overload
    def global_table(
        self, topic: str, consumed: Consumed[K, V], materialized: Materialized[K, V] | None = None
    ) -> GlobalKTable[K, V]: ...
    @overload
    def global_table(
        self, topic: str, consumed: None = None, materialized: Materialized[Never, Never] | None = None
    ) -> GlobalKTable: ...
    @overload
    def global_table(
        self, topic: str, consumed: None = None, *, materialized: Materialized[K, V]
    ) -> GlobalKTable[K, V]: ...
    def global_table(
        self,
        topic: str,
        consumed: Consumed[object, object] | None = None,
        materialized: Materialized[object, object] | None = None,
    ) -> GlobalKTable:
        """A table that every task can read whole, for joins by any field; its rows are always kept."""
        options, store_options = self._table_options(topic, consumed, materialized, "global_table")
        store, source, name = self._table_names(topic, options, store_options)
        key, value = _known(options, source)
        # its topic is its changelog, and its updates are not seen
        refuse_ttl(store_options, store, "a global table is read by tasks whose stream times differ")
        spec = key_value_spec(store_options.with_caching_disabled().with_logging_enabled(), store, key, value)
        processor = ProcessorNode(name, (source,), TableSource(store), (store,))
        self._graph.global_table(GlobalTable(_source(source, topic, options), processor, store), spec)
        return GlobalKTable(GlobalTableState(self._graph, store, key, value, store_options.name))

    def from_spark(
        self,
        name: str,
        frame: SparkReader,
        consumed: Consumed[K, V] | None = None,
        *,
        partitions: int | None = None,
        output_mode: Literal["append", "update"] = "append",
    ) -> KStream[K, V]:
        """A stream of the rows of any streaming Spark DataFrame.

        Files, Kafka clusters, tables, rates, your own sources.

        `frame(spark)` is called when the application starts, in its process, with a `SparkSession` of its own, whose
        time zone is UTC, and returns a streaming DataFrame with the columns

        * `key` and `value`: binary or string columns are the bytes as they are; other types are written by the serde of
          `consumed`. A serde with a schema checks types and field names. A null key or value is a null.
        * `timestamp`, if there is one: timestamp, or bigint of milliseconds since 1970. Null, or no such column: the
          time at which Hayase took the row. Before 1970 is an error.
        * `headers`, if there is one: `array<struct<key:string,value:binary>>`.
        * `partition`, if there is one: the partition to go to; null, or no such column: that of the key.

        and no others. A query of its own writes the rows, each micro-batch as one transaction, to the internal topic
        `<application.id>-<name>-from-spark`, which the topology reads like any topic, from its beginning. Each row
        arrives exactly once (with `processing.guarantee=exactly_once_v2`), as far as Spark can read its source again:
        which offsets a micro-batch has is in the application's checkpoint before its rows are written. Rows of one
        Spark partition keep their order inside a micro-batch; between Spark's partitions there is none promised. A
        micro-batch is collected in the application's process: bound it by the options of Spark's source
        (`maxFilesPerTrigger`, …).

        `run_to_end` takes what is in the source now, then goes on. In the test driver `create_input_topic(name, …)`
        feeds it.

        Args:
            name: of the source; the progress of Spark's query is kept under it.
            frame: makes the streaming DataFrame.
            consumed: serdes, timestamp extractor and name of the node; a reset policy does not apply.
            partitions: of the internal topic; default: that of what the stream is joined with, else 1.
            output_mode: Spark's, for frames that aggregate: `append` or `update`.

        Raises:
            TopologyError: the name is taken, or an argument is not allowed. When the application starts:
                `INVALID_SPARK_FRAME` for a frame that is not as described, with the column.

        Example:
            def clicks(spark):
                frame = spark.readStream.schema("user string, page string, at timestamp").json("clicks/")
                return frame.selectExpr("user AS key", "page AS value", "at AS timestamp")

            builder.from_spark("clicks", clicks, Consumed.with_(Serdes.string(), Serdes.string()))
        """
        options = check_option(consumed, Consumed, "from_spark")
        node = spark_source(self._graph, name, frame, options, partitions, output_mode)
        key, value = _known(options, node.name)
        return KStream(StreamState(self._graph, node.name, key, value))

    def from_connector(
        self,
        name: str,
        config: Mapping[str, object],
        consumed: Consumed[K, V] | None = None,
        *,
        partitions: int | None = None,
    ) -> KStream[K, V]:
        """A stream of the records of a source connector, which belongs to the program.

        The connector runs in threads of the application's process while the application runs. Its records go to the
        internal topic `<application.id>-<name>-from-connector`, whatever topics it would have written, exactly once as
        far as the connector promises it; the topology reads that topic from its beginning. Its offsets are in
        `<application.id>-connect-offsets`, and a reset of the application forgets them.

        Settings are checked when the application starts, before Spark does. Where the configuration names no
        converters, those that fit the serdes are taken.

        `run_to_end` takes what the connector has now: it is at its end when its polls have given nothing for a second.
        A source that never pauses has no end, so it runs until the timeout. In the test driver the connector does not
        run: `create_input_topic(name, …)` feeds its stream.

        Args:
            name: of the connector; its offsets are kept under it.
            config: its configuration under Kafka Connect's keys, with `connector.class`.
            consumed: serdes, timestamp extractor and name of the node; a reset policy does not apply.
            partitions: of the internal topic; default: that of what the stream is joined with, else 1.

        Raises:
            TopologyError: the name is taken, or an argument is not allowed. When the application starts:
                `INVALID_CONNECTOR` for a configuration that is wrong, with every error and the line of this call.

        Example:
            builder.from_connector("lines", {"connector.class": "FileStreamSource", "file": "shop.log"},
                                   Consumed.with_(Serdes.bytes(), Serdes.string()))
        """
        options = check_option(consumed, Consumed, "from_connector")
        node = connector_source(self._graph, name, config, options, partitions)
        key, value = _known(options, node.name)
        return KStream(StreamState(self._graph, node.name, key, value))

    def add_state_store(self, store: StoreSpec) -> StreamsBuilder:
        """Add a store that processors of yours use; made by `Stores`. It is connected where a processor names it.

        Raises:
            TopologyError: there is a store of that name.
        """
        self._graph.store(check_store(store, "add_state_store"))
        return self

    def add_global_store(
        self,
        store: StoreSpec,
        topic: str,
        consumed: Consumed[K, V] | None,
        supplier: ProcessorSupplier[K, V],
    ) -> StreamsBuilder:
        """Add a store that every task can read, kept from all partitions of a topic.

        A `Processor` of yours takes the topic's records and keeps the store; what it forwards goes nowhere. Every task
        can read all of the store, processors by `context.get_state_store` without being connected with it. In an epoch
        the store is up to date before records of streams are processed. After a restart it is restored from its
        changelog: unlike in Kafka Streams the processor does not see old records again, so it need not store them as
        they are.

        Args:
            store: made by `Stores`, with a changelog.
            topic: read from its beginning.
            consumed: serdes, extractor and name.
            supplier: a subclass of `Processor`, or a function that makes one.

        Raises:
            TopologyError: the store's name or the topic is taken, or one of them is not what it should be.

        Example:
            >>> from hayase import *
            >>> from hayase.testing import TopologyTestDriver
            >>> class Longest(Processor):
            ...     def init(self, context):
            ...         self.longest = context.get_state_store("longest")
            ...
            ...     def process(self, record):
            ...         if len(record.value) > len(self.longest.get(record.key) or ""):
            ...             self.longest.put(record.key, record.value)
            >>> class LookUp(FixedKeyProcessor):
            ...     def init(self, context):
            ...         self.context, self.longest = context, context.get_state_store("longest")
            ...
            ...     def process(self, record):
            ...         self.context.forward(record.with_value(self.longest.get(record.value)))
            >>> text = Serdes.string()
            >>> builder = StreamsBuilder()
            >>> store = Stores.key_value_store("longest", text, text)
            >>> _ = builder.add_global_store(store, "words", Consumed.with_(text, text), Longest)
            >>> asked = builder.stream("asked", Consumed.with_(text, text))
            >>> asked.process_values(LookUp).to("out", Produced.with_(text, text))
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     words = driver.create_input_topic("words", text, text)
            ...     for word in ("tea", "table", "to"):
            ...         words.pipe_input("t", word)
            ...     driver.create_input_topic("asked", text, text).pipe_input("me", "t")
            ...     driver.create_output_topic("out", text, text).read_key_values_to_list()
            [('me', 'table')]
        """
        options = check_option(consumed, Consumed, "add_global_store")
        if not isinstance(topic, str) or not topic:
            raise TopologyError("INVALID_TOPIC", f"add_global_store takes a topic's name, not {topic!r}")
        source, name = self._source_names(options)
        table = global_table_of(store, _source(source, topic, options), name, supplier)
        self._graph.global_table(table, store)
        return self

    def check_at_build(self, check: Callable[[Topology], None]) -> None:
        """Have each topology that is built checked: for parts that are made of several operators.

        Args:
            check: raises TopologyError to refuse it; given twice it runs once.
        """
        if check not in self._checks:
            self._checks.append(check)

    def complete_at_build(self, complete: Callable[[Topology], None]) -> None:
        """Have a part of several operators added when the topology is first built: for what depends on other parts.

        Args:
            complete: called once, with the topology of all that was added until then; it may add more.
        """
        self._completions.append(complete)

    def build(self, settings: Mapping[str, object] | None = None) -> Topology:
        """The topology with all that was added so far. May be called again after further additions.

        Args:
            settings: those of the application, of which `topology.optimization` counts here, as in Kafka Streams:
                `merge.repartition.topics` makes one repartition of several below one change of key, unless values
                change in between or the serdes differ, which saves a shuffle. `single.store.self.join` lets an inner
                join of a stream with itself keep one window store, that of the left side, instead of two (KIP-862);
                what comes out is the same. `all` does both. `reuse.ktable.source.topics` changes nothing here:
                changelogs are no topics.

        Raises:
            TopologyError: names that occur twice, no nodes at all.
            ConfigError: `topology.optimization` has an unknown word.
        """
        words = optimizations(str((settings or {}).get("topology.optimization", "none")))
        while self._completions:
            topology = self._graph.build(before=False)  # if that fails, the next build tries again
            self._completions.pop(0)(topology)
        topology = self._optimized(words, before=False)
        for check in self._checks:
            check(topology)
        return replace(topology, earlier=self._earlier(topology, words))

    def _optimized(self, words: Collection[str], *, before: bool) -> Topology:
        same = alike_before if before else alike
        topology = self._graph.build(before=before)
        if "merge.repartition.topics" in words:
            topology = merge_repartitions(topology, same)
        check_repartitions(topology)
        return with_single_stores(topology, same) if "single.store.self.join" in words else topology

    def _earlier(self, topology: Topology, words: Collection[str]) -> Topology | None:
        """The topology of earlier releases; `None` if that is the same, or if they refused the program."""
        if not (self._graph.was_built_otherwise or words):
            return None
        try:
            earlier = self._optimized(words, before=True)
        except TopologyError:
            return None
        return None if is_alike(earlier, topology) else earlier

    def _table_options(
        self,
        topic: str,
        consumed: Consumed[object, object] | None,
        materialized: Materialized[object, object] | None,
        what: str,
    ) -> tuple[Consumed[object, object], Materialized[object, object]]:
        if not isinstance(topic, str) or not topic:
            raise TopologyError("INVALID_TOPIC", f"{what} takes a topic's name, not {topic!r}")
        options = check_option(consumed, Consumed, what)
        store = check_option(materialized, Materialized, what)
        # one topic, one pair of serdes: either object may give them
        key, value = options.key_serde or store.key_serde, options.value_serde or store.value_serde
        return (
            replace(options, key_serde=key, value_serde=value),
            replace(store, key_serde=key, value_serde=value),
        )

    def _table_names(
        self, topic: str, options: Consumed[object, object], store: Materialized[object, object]
    ) -> tuple[str, str, str]:
        """Names of store, source and table node, made in this order as Kafka Streams does."""
        names = self._graph.names
        return (store.name or names.next(f"{topic}-STATE-STORE-"), *self._source_names(options))

    def _source_names(self, options: Consumed[object, object]) -> tuple[str, str]:
        names = self._graph.names
        return (
            names.name_or_next(None if options.name is None else f"{options.name}-source", "KSTREAM-SOURCE-"),
            names.name_or_next(options.name, "KTABLE-SOURCE-"),
        )


def topology_of(given: object) -> Topology:
    """The topology that a program gives, itself or as the StreamsBuilder that makes it.

    Raises:
        TopologyError: `INVALID_ARGUMENT`: it is neither; what `build` raises.
    """
    if isinstance(given, StreamsBuilder):
        return given.build()
    if not isinstance(given, Topology):
        raise TopologyError("INVALID_ARGUMENT", f"the topology is {shown(given)}; give a Topology or a StreamsBuilder")
    return given


def _source(name: str, topic: str, options: Consumed[object, object]) -> SourceNode:
    return SourceNode(
        name, (topic,), options.key_serde, options.value_serde, options.timestamp_extractor, options.reset
    )


def _known(options: Consumed[object, object], owner: str) -> tuple[Known, Known]:
    """The serdes of a source; where none is named keys and values are bytes.

    Raises:
        TopologyError: `UNKNOWN_FIELD`: values have no field that its timestamp extractor takes the time from.
    """
    check_time_field(options, owner)
    return (
        Known(options.key_serde or DefaultSerde("key", Serdes.bytes(), owner)),
        Known(options.value_serde or DefaultSerde("value", Serdes.bytes(), owner)),
    )
