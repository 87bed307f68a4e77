"""`KStream`: a stream of records, each a fact of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, Never, overload

import polars as pl

from hayase.core.errors import TopologyError
from hayase.core.join_windows import JoinWindows
from hayase.core.type_variables import KR, VO, VR, K, V
from hayase.dsl import functions
from hayase.dsl.connectors import connector_sink
from hayase.dsl.elsewhere import of_groups
from hayase.dsl.functions import Fielded, JoinedFields, Joiner, KeyFunction, ValueFunction
from hayase.dsl.inference import (
    Known,
    check_predicate,
    infer,
    item_schema,
    key_schema,
    list_item_schema,
    pair_list_schemas,
    pair_schemas,
    result_schema,
    schema_of_type,
    value_schema,
    visible_columns,
)
from hayase.dsl.joins.joiners import stream_global, stream_table
from hayase.dsl.joins.stream_stream import stream_stream
from hayase.dsl.options.joined import Joined
from hayase.dsl.options.materialized import Materialized
from hayase.dsl.options.options import Grouped, Produced, Repartitioned, name_of
from hayase.dsl.options.printed import Printed
from hayase.dsl.options.stream_joined import StreamJoined
from hayase.dsl.spark import spark_sink
from hayase.dsl.stream_state import (
    Name,
    StreamState,
    bind_arguments,
    check_option,
    grouped_state,
    mapped_values,
    of_same_builder,
    through_topic,
)
from hayase.processor.api import FixedKeyProcessor, FixedKeyProcessorSupplier, Processor, ProcessorSupplier
from hayase.topology import operators as op
from hayase.topology.nodes import SinkNode, SparkWriter, TopicExtractor
from hayase.topology.operators import JoinKind
from hayase.topology.operators.functions import PairMapper, Predicate
from hayase.topology.suppliers import brought_stores, check_supplier

if TYPE_CHECKING:
    from hayase.dsl.branched_kstream import BranchedKStream
    from hayase.dsl.grouped import KGroupedStream
    from hayase.dsl.ktable import GlobalKTable, KTable


class KStream(Generic[K, V]):
    """A stream of records. Made by `StreamsBuilder.stream`; every operation gives a new one and changes nothing here.

    Where an operation takes a function it takes a Python callable or a Polars expression: see `hayase.dsl.functions`.
    Callables must be deterministic as far as you want replays to be, and must not keep state outside of stores.
    Every operation takes `name=`: the name of its node in `Topology.describe()`, in metrics and in errors.
    """

    if not TYPE_CHECKING:  # to a type checker there is no other attribute

        def __getattr__(self, name: str) -> object:
            of_groups("KStream", name)

    def __init__(self, state: StreamState) -> None:
        self._state = state

    def _then(
        self,
        prefix: str,
        name: Name,
        operator: op.Operator,
        *,
        key: Known | None = None,
        value: Known | None = None,
        rekeyed: bool = False,
    ) -> KStream:
        """Add a node below this one; the stream it sends, of which is said what changes."""
        graph = self._state.graph
        node = graph.processor(graph.names.name_or_next(name_of(name), prefix), (self._state.node,), operator)
        return KStream(_changed(self._state, node, key, value, rekeyed))

    def _columns(self) -> tuple[dict[str, pl.DataType], bool]:
        return visible_columns(self._state.key, self._state.value)

    def filter(self, predicate: Predicate[K, V], *, name: Name = None) -> KStream[K, V]:
        """The records for which a predicate is true, unchanged and in the same order. Kafka Streams' `KStream.filter`.

        Keys stay, so nothing is repartitioned. No state is kept. Dropped records are not counted.

        Args:
            predicate: `(key, value) -> bool`, or a Boolean expression over the fields of the value (`key()` and
                `timestamp()` give the rest of the record). A null result drops the record. A callable is called for
                null keys and null values, too, once for each attempt at an epoch. An expression runs in columns where
                the serdes have columns.
            name: of the node.

        Raises:
            TopologyError: `INVALID_FUNCTION`: a callable of other parameters. `UNKNOWN_FIELD`, `INVALID_EXPRESSION`:
                the expression does not fit the schema, or is not Boolean; found here if the schema is known, else
                while running. While running, an error of the predicate goes to `processing.exception.handler`.

        Example:
            >>> from hayase import *
            >>> from hayase.testing import TopologyTestDriver
            >>> orders = Serdes.json(schema={"item": pl.String, "cents": pl.Int64})
            >>> builder = StreamsBuilder()
            >>> stream = builder.stream("orders", Consumed.with_(Serdes.string(), orders))
            >>> stream.filter(pl.col("cents") > 1000).to("large")
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     topic = driver.create_input_topic("orders", Serdes.string(), orders)
            ...     for cents in (1250, None, 300):
            ...         topic.pipe_input("ada", {"item": "book", "cents": cents})
            ...     driver.create_output_topic("large", Serdes.string(), orders).read_key_values_to_list()
            [('ada', {'item': 'book', 'cents': 1250})]
        """
        return self._filter(predicate, False, "filter", name)

    def filter_not(self, predicate: Predicate[K, V], *, name: Name = None) -> KStream[K, V]:
        """The records for which a predicate is not true. As `filter`, but a null result keeps the record."""
        return self._filter(predicate, True, "filter_not", name)

    def _filter(self, predicate: Predicate[K, V], negate: bool, what: str, name: Name) -> KStream[K, V]:
        function = functions.predicate(predicate, what)
        check_predicate(function, self._columns(), what)
        return self._then("KSTREAM-FILTER-", name, op.Filter(function, negate))

    @overload
    def map(self, mapper: Callable[[K, V], tuple[KR, VR]], *, name: Name = None) -> KStream[KR, VR]: ...
    @overload
    def map(self, *, key: Fielded, value: Fielded, name: Name = None) -> KStream: ...
    def map(
        self,
        mapper: PairMapper[K, V] | None = None,
        *,
        key: KeyFunction | None = None,
        value: ValueFunction | None = None,
        name: Name = None,
    ) -> KStream:
        """New key and new value: `(key, value) -> (key, value)`, or both `key=` and `value=` as expressions.

        The stream counts as re-keyed. Only the value changes? Then `map_values` is cheaper.
        """
        if mapper is not None and key is None and value is None:
            function = functions.callable_of(mapper, 2, "map", "(key, value) that returns (key, value)")
            operator = op.Map(function, None, None, *pair_schemas(mapper))
        elif mapper is None and key is not None and value is not None:
            new_key = functions.declarative(key, "map key")
            new_value = functions.declarative(value, "map value")
            if new_key is None or new_value is None:
                raise TopologyError(
                    "INVALID_FUNCTION",
                    "map(key=…, value=…) takes expressions; a function goes into map(function)",
                )
            composite = functions.struct_of(new_key) if isinstance(new_key, tuple) else new_key
            columns = self._columns()
            operator = op.Map(
                None,
                composite,
                new_value,
                key_schema(composite, columns, "map key"),
                value_schema(new_value, columns, "map value"),
            )
        else:
            raise TopologyError("INVALID_FUNCTION", "map takes either one function or both key= and value=")
        return self._then(
            "KSTREAM-MAP-",
            name,
            operator,
            key=Known(None, operator.key_schema),
            value=Known(None, operator.value_schema),
            rekeyed=True,
        )

    @overload
    def map_values(self, mapper: Callable[[V], VR], *, name: Name = None) -> KStream[K, VR]: ...
    @overload
    def map_values(self, mapper: Callable[[K, V], VR], *, name: Name = None) -> KStream[K, VR]: ...
    @overload
    def map_values(self, mapper: Fielded, *, name: Name = None) -> KStream[K]: ...
    def map_values(self, mapper: ValueFunction, *, name: Name = None) -> KStream[K]:
        """The records with new values; key, timestamp, headers and order stay. Kafka Streams' `KStream.mapValues`.

        One record out for each one in, also where the new value is null. Nothing is repartitioned, no state is kept.

        Args:
            mapper: `(value)` or `(key, value)` that returns the new value; an expression or a field's name, whose
                result is the value; or fields (a dict of names to expressions, field names or literals, or a list of
                named expressions), which make the value a record of these fields. A callable sees null values and must
                not change the object it gets: other branches may share it.
            name: of the node.

        The serde of the new values is not that of the old: the schema comes from the expression, or from the return
        annotation of the callable. Where neither says it, a later `to` or store needs a serde, or the default one.

        Raises:
            TopologyError: `INVALID_FUNCTION`: a callable of other parameters. `UNKNOWN_FIELD`, `INVALID_EXPRESSION`:
                the expression does not fit the schema; found here if the schema is known, else while running. While
                running, an error of the mapper goes to `processing.exception.handler`.

        Example:
            >>> from hayase import *
            >>> from hayase.testing import TopologyTestDriver
            >>> lines = Serdes.json(schema={"price": pl.Int64, "quantity": pl.Int64})
            >>> builder = StreamsBuilder()
            >>> stream = builder.stream("lines", Consumed.with_(Serdes.string(), lines))
            >>> stream.map_values({"total": pl.col("price") * pl.col("quantity")}).to("totals")
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     driver.create_input_topic("lines", Serdes.string(), lines).pipe_input(
            ...         "ada", {"price": 250, "quantity": 3}
            ...     )
            ...     driver.create_output_topic("totals", Serdes.string(), Serdes.json()).read_key_values_to_list()
            [('ada', {'total': 750})]
        """
        function, schema = mapped_values(mapper, self._columns(), "map_values")
        return self._then("KSTREAM-MAPVALUES-", name, op.MapValues(function, schema), value=Known(None, schema))

    @overload
    def select_key(self, mapper: Callable[[K, V], KR], *, name: Name = None) -> KStream[KR, V]: ...
    @overload
    def select_key(self, mapper: Fielded, *, name: Name = None) -> KStream[Any, V]: ...
    def select_key(self, mapper: KeyFunction, *, name: Name = None) -> KStream[Any, V]:
        """New key, same value: `(key, value) -> key`, an expression, a field's name, or the fields of a composite key.

        The stream counts as re-keyed: a later group, join with a table or `to_table` repartitions it.
        """
        return self._select_key(mapper, "select_key", name)

    def _select_key(self, mapper: KeyFunction, what: str, name: Name) -> KStream[Any, V]:
        function = functions.key_mapper(mapper, what)
        if isinstance(function, pl.Expr):
            schema = key_schema(function, self._columns(), what)
        else:
            schema = result_schema(function)
        return self._then(
            "KSTREAM-KEY-SELECT-", name, op.SelectKey(function, schema), key=Known(None, schema), rekeyed=True
        )

    def process(
        self, supplier: ProcessorSupplier[K, V, KR, VR], *store_names: str, name: Name = None
    ) -> KStream[KR, VR]:
        """Run a `Processor` of yours over the records; the stream of what it forwards, which counts as re-keyed.

        Args:
            supplier: a subclass of `Processor`, or a function that makes one. Stores that its `stores()` gives are
                added and connected (KIP-401).
            store_names: stores to connect it with; of global tables all can be read without that.
            name: of the node.
        """
        return self._process(supplier, store_names, False, "KSTREAM-PROCESSOR-", name, key=Known(None), rekeyed=True)

    def process_values(
        self, supplier: FixedKeyProcessorSupplier[K, V, VR], *store_names: str, name: Name = None
    ) -> KStream[K, VR]:
        """As `process`, with a `FixedKeyProcessor`: it cannot change keys, so the stream does not count as re-keyed."""
        return self._process(supplier, store_names, True, "KSTREAM-PROCESSVALUES-", name)

    def _process(
        self,
        supplier: object,
        stores: tuple[str, ...],
        fixed_key: bool,
        prefix: str,
        name: Name,
        *,
        key: Known | None = None,
        rekeyed: bool = False,
    ) -> KStream:
        graph = self._state.graph
        operator = op.Process(check_supplier(supplier, FixedKeyProcessor if fixed_key else Processor), fixed_key)
        brought = brought_stores(supplier)
        for spec in brought:
            graph.add_once(spec)
        connected = tuple(dict.fromkeys((*stores, *(spec.name for spec in brought))))
        node = graph.names.name_or_next(name_of(name), prefix)
        graph.processor(node, (self._state.node,), operator, connected)
        return KStream(_changed(self._state, node, key, Known(None), rekeyed))

    @overload
    def flat_map_values(self, mapper: Callable[[V], Iterable[VR]], *, name: Name = None) -> KStream[K, VR]: ...
    @overload
    def flat_map_values(self, mapper: Callable[[K, V], Iterable[VR]], *, name: Name = None) -> KStream[K, VR]: ...
    @overload
    def flat_map_values(self, mapper: pl.Expr | str, *, name: Name = None) -> KStream[K]: ...
    def flat_map_values(self, mapper: Callable[..., object] | pl.Expr | str, *, name: Name = None) -> KStream[K]:
        """Zero or more records for each, in order: `(value)` or `(key, value)` gives an iterable, an expression a list.

        Key, timestamp and headers are the input's.
        """
        function = functions.list_mapper(mapper, "flat_map_values")
        if isinstance(function, pl.Expr):
            schema = list_item_schema(function, self._columns(), "flat_map_values")
        else:
            schema = item_schema(function)
        return self._then("KSTREAM-FLATMAPVALUES-", name, op.FlatMapValues(function, schema), value=Known(None, schema))

    @overload
    def flat_map(self, mapper: Callable[[K, V], Iterable[tuple[KR, VR]]], *, name: Name = None) -> KStream[KR, VR]: ...
    @overload
    def flat_map(self, mapper: pl.Expr, *, name: Name = None) -> KStream: ...
    def flat_map(
        self, mapper: Callable[[K, V], Iterable[tuple[object, object]]] | pl.Expr, *, name: Name = None
    ) -> KStream:
        """Zero or more records for each, in order: `(key, value)` gives pairs `(key, value)`.

        An expression gives a list of structs with the fields `key` and `value`; null is an empty list. Timestamp and
        headers are the input's. The stream counts as re-keyed. Only the values change? Then `flat_map_values` is
        cheaper. If the mapper raises, none of the record's results is passed on.

        Example:
            lines.flat_map(lambda key, line: [(word, len(word)) for word in line.split()])
        """
        function = functions.pairs_mapper(mapper, "flat_map")
        if isinstance(function, pl.Expr):
            key, value = pair_list_schemas(function, self._columns(), "flat_map")
        else:
            types = functions.pair_types(functions.item_type(functions.return_type(function)))
            key, value = map(schema_of_type, types)
        return self._then(
            "KSTREAM-FLATMAP-",
            name,
            op.FlatMap(function, key, value),
            key=Known(None, key),
            value=Known(None, value),
            rekeyed=True,
        )

    def foreach(self, action: Callable[[K, V], object], *, name: Name = None) -> None:
        """Call `action(key, value)` for each record; the stream ends here.

        Called again when an epoch is replayed; for one record once in order, between partitions in no order.
        """
        self._then("KSTREAM-FOREACH-", name, op.Foreach(functions.callable_of(action, 2, "foreach", "(key, value)")))

    def print(self, printed: Printed) -> None:
        """Write each record as a line, `[label]: key, value`, to standard output or a file, for debugging.

        The label is the name of the stream's node unless `printed` has one. An application on Spark prints where the
        process prints that runs the task: in Spark's log. Printed again when an epoch is replayed.

        Example:
            orders.print(Printed.to_sys_out().with_label("orders"))
        """
        if not isinstance(printed, Printed):
            raise TopologyError(
                "INVALID_OPTION", f"print takes a Printed, for example Printed.to_sys_out(), not {printed!r}"
            )
        self._then("KSTREAM-PRINTER-", printed.name, op.Foreach(printed.printer(self._state.node)))

    def peek(self, action: Callable[[K, V], object], *, name: Name = None) -> KStream[K, V]:
        """Call `action(key, value)` for each record and pass the record on; called again when an epoch is replayed."""
        return self._then("KSTREAM-PEEK-", name, op.Peek(functions.callable_of(action, 2, "peek", "(key, value)")))

    def merge(self, other: KStream[K, V], *, name: Name = None) -> KStream[K, V]:
        """The records of both streams; the order inside each is kept, between them there is none promised."""
        mine, theirs = self._state, of_same_builder(self._state.graph, other, (KStream,), "merge")._state
        node = mine.graph.processor(
            mine.graph.names.name_or_next(name_of(name), "KSTREAM-MERGE-"),
            (mine.node, theirs.node),
            op.Merge(),
        )
        return KStream(
            replace(
                mine,
                node=node,
                key=mine.key.common(theirs.key),
                value=mine.value.common(theirs.value),
                rekeyed=mine.rekeyed or theirs.rekeyed,
            )
        )

    def split(self, *, name: Name = None) -> BranchedKStream[K, V]:
        """Begin to route each record to the first branch whose predicate holds; `name` begins the branches' names."""
        from hayase.dsl.branched_kstream import BranchedKStream

        return BranchedKStream(self._state, name_of(name))

    def repartition(self, repartitioned: Repartitioned[K, V] | None = None) -> KStream[K, V]:
        """Write the records to an internal topic and go on with what is read from it.

        The topic is `<application.id>-<name>-repartition`, made by the application if it is not there; its partition
        count is the one given, else that of what the stream is joined with, else the largest upstream. What an epoch
        writes is read in a later one. Keys count as partitioned by then, so that a later group or join does not
        repartition again; with a partitioner of your own that is your promise. Records with a null key are dropped,
        uncounted, unless a left join downstream wants them. Serdes that are not given are the stream's or the
        configuration's; there must be some. Values keep timestamp and headers.

        Needed only to set the number of partitions or to spread work: operations that need records of one key together
        shuffle inside the epoch by themselves, which is cheaper.

        Example:
            stream.repartition(Repartitioned.as_("by-region").with_number_of_partitions(12))
        """
        return KStream(through_topic(self._state, check_option(repartitioned, Repartitioned, "repartition")))

    def to_table(self, materialized: Materialized[K, V] | None = None, *, name: Name = None) -> KTable[K, V]:
        """The stream read as upserts: the last value of a key is its row, a null value deletes it.

        Repartitions first if the stream was re-keyed. The rows are kept if the store is named or a join reads them.
        """
        from hayase.dsl.ktable import stream_to_table

        return stream_to_table(self._state, check_option(materialized, Materialized, "to_table"), name_of(name))

    def group_by_key(self, grouped: Grouped[K, V] | None = None) -> KGroupedStream[K, V]:
        """Group by the key as it is. Repartitions, when the groups are aggregated, if the stream was re-keyed."""
        from hayase.dsl.grouped import KGroupedStream

        options = check_option(grouped, Grouped, "group_by_key")
        return KGroupedStream(grouped_state(self._state, options), options.name)

    @overload
    def group_by(
        self, mapper: Callable[[K, V], KR], grouped: Grouped[KR, V] | None = None
    ) -> KGroupedStream[KR, V]: ...
    @overload
    def group_by(self, mapper: Fielded, grouped: Grouped[Never, V] | None = None) -> KGroupedStream[Any, V]: ...
    @overload
    def group_by(self, mapper: Fielded, grouped: Grouped[KR, V]) -> KGroupedStream[KR, V]: ...
    def group_by(self, mapper: KeyFunction, grouped: Grouped[object, V] | None = None) -> KGroupedStream[Any, V]:
        """Group by a new key: `select_key(mapper)` and `group_by_key`.

        Example:
            orders.group_by(["product", "region"]).count()
        """
        from hayase.dsl.grouped import KGroupedStream

        options = check_option(grouped, Grouped, "group_by")
        selected = self._select_key(mapper, "group_by", options.name)
        return KGroupedStream(grouped_state(selected._state, options), options.name)

    @overload
    def join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V, VO], VR],
        joined: Joined[K, V, VO] | None = None,
        *,
        name: Name = None,
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[K, V, VO], VR],
        joined: Joined[K, V, VO] | None = None,
        *,
        name: Name = None,
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        other: KTable[K, VO],
        joiner: JoinedFields,
        joined: Joined[K, V, VO] | None = None,
        *,
        name: Name = None,
    ) -> KStream[K]: ...
    @overload
    def join(
        self,
        other: GlobalKTable[KR, VO],
        key_mapper: Callable[[K, V], KR | None] | Fielded,
        joiner: Callable[[V, VO], VR],
        *,
        name: Name = None,
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        other: GlobalKTable[KR, VO],
        key_mapper: Callable[[K, V], KR | None] | Fielded,
        joiner: Callable[[K, V, VO], VR],
        *,
        name: Name = None,
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        other: GlobalKTable[KR, VO],
        key_mapper: Callable[[K, V], KR | None] | Fielded,
        joiner: JoinedFields,
        *,
        name: Name = None,
    ) -> KStream[K]: ...
    @overload
    def join(
        self,
        other: KStream[K, VO],
        joiner: Callable[[V, VO], VR],
        windows: JoinWindows,
        joined: StreamJoined[K, V, VO] | None = None,
        *,
        name: Name = None,
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        other: KStream[K, VO],
        joiner: Callable[[K, V, VO], VR],
        windows: JoinWindows,
        joined: StreamJoined[K, V, VO] | None = None,
        *,
        name: Name = None,
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        other: KStream[K, VO],
        joiner: JoinedFields,
        windows: JoinWindows,
        joined: StreamJoined[K, V, VO] | None = None,
        *,
        name: Name = None,
    ) -> KStream[K]: ...
    def join(self, other: object, *arguments: object, name: Name = None, **keywords: object) -> KStream[K]:
        """Join each record with the row of a table, or with the records of another stream that are near in time.

        * `join(table, joiner, joined=None)`: the row of the record's key; without a row there is no result.
          Repartitions if the stream was re-keyed; both topics must have the same number of partitions. Only records of
          the stream trigger; the table is looked up as it is when the record is processed, a versioned one as it was at
          the record's timestamp, for which the record may wait (`Joined.with_grace_period`). Results have the record's
          timestamp.
        * `join(global_table, key_mapper, joiner)`: the row of the key that `key_mapper` makes; no such demands.
        * `join(stream, joiner, windows, joined=None)`: every record of the other stream that has the same key and lies
          in the window, once per pair, when the later of the two is processed; several by their time, then in the order
          they arrived. Both streams must have the same number of partitions; one that was re-keyed is repartitioned.
          Results have the larger timestamp and the headers of the record that came later. Null keys and null values are
          dropped and counted. Lateness is no reason to refuse a record: it meets what the other side still keeps
          (`JoinWindows.retention_ms` behind the latest record there), as in Kafka Streams.

        The joiner is `(left, right)` or `(key, left, right)`, or fields of `left(…)` and `right(…)`.

        Example:
            orders.join(users, {"id": left("id"), "city": right("city")})
            clicks.join(views, {"page": left("page"), "ad": right("ad")},
            JoinWindows.of_time_difference_with_no_grace(minute))
        """
        return self._join(other, arguments, keywords, name, "inner")

    @overload
    def left_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V, VO | None], VR],
        joined: Joined[K, V, VO] | None = None,
        *,
        name: Name = None,
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[K, V, VO | None], VR],
        joined: Joined[K, V, VO] | None = None,
        *,
        name: Name = None,
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KTable[K, VO],
        joiner: JoinedFields,
        joined: Joined[K, V, VO] | None = None,
        *,
        name: Name = None,
    ) -> KStream[K]: ...
    @overload
    def left_join(
        self,
        other: GlobalKTable[KR, VO],
        key_mapper: Callable[[K, V], KR | None] | Fielded,
        joiner: Callable[[V, VO | None], VR],
        *,
        name: Name = None,
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        other: GlobalKTable[KR, VO],
        key_mapper: Callable[[K, V], KR | None] | Fielded,
        joiner: Callable[[K, V, VO | None], VR],
        *,
        name: Name = None,
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        other: GlobalKTable[KR, VO],
        key_mapper: Callable[[K, V], KR | None] | Fielded,
        joiner: JoinedFields,
        *,
        name: Name = None,
    ) -> KStream[K]: ...
    @overload
    def left_join(
        self,
        other: KStream[K, VO],
        joiner: Callable[[V, VO | None], VR],
        windows: JoinWindows,
        joined: StreamJoined[K, V, VO] | None = None,
        *,
        name: Name = None,
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KStream[K, VO],
        joiner: Callable[[K, V, VO | None], VR],
        windows: JoinWindows,
        joined: StreamJoined[K, V, VO] | None = None,
        *,
        name: Name = None,
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KStream[K, VO],
        joiner: JoinedFields,
        windows: JoinWindows,
        joined: StreamJoined[K, V, VO] | None = None,
        *,
        name: Name = None,
    ) -> KStream[K]: ...
    def left_join(self, other: object, *arguments: object, name: Name = None, **keywords: object) -> KStream[K]:
        """As `join`, but a record that meets nothing gives a result with `right` null.

        So does one with a null key, at once.

        With another stream that result comes once the record's window and grace are over: as soon as a record of either
        stream, with any key, is processed while stream time (the largest timestamp of both) is greater than the
        record's time + after + grace (KIP-633). It has the record's own timestamp and the headers of the record that
        set it off. Such results come by time, then right before left, then by the bytes of the key. A record that late
        itself gives its result at once if it meets nothing.
        """
        return self._join(other, arguments, keywords, name, "left")

    @overload
    def outer_join(
        self,
        other: KStream[K, VO],
        joiner: Callable[[V | None, VO | None], VR],
        windows: JoinWindows,
        joined: StreamJoined[K, V, VO] | None = None,
        *,
        name: Name = None,
    ) -> KStream[K, VR]: ...
    @overload
    def outer_join(
        self,
        other: KStream[K, VO],
        joiner: Callable[[K, V | None, VO | None], VR],
        windows: JoinWindows,
        joined: StreamJoined[K, V, VO] | None = None,
        *,
        name: Name = None,
    ) -> KStream[K, VR]: ...
    @overload
    def outer_join(
        self,
        other: KStream[K, VO],
        joiner: JoinedFields,
        windows: JoinWindows,
        joined: StreamJoined[K, V, VO] | None = None,
        *,
        name: Name = None,
    ) -> KStream[K]: ...
    def outer_join(
        self,
        other: KStream[K],
        joiner: Joiner,
        windows: JoinWindows,
        joined: StreamJoined[object, object, object] | None = None,
        *,
        name: Name = None,
    ) -> KStream[K]:
        """As `left_join` with another stream, for both sides.

        A right record that meets nothing gives one with `left` null.

        That is due when stream time is greater than its time + before + grace.

        Example:
            payments.outer_join(refunds, lambda payment, refund: (payment, refund), windows)
        """
        return self._join(other, (joiner, windows, joined), {}, name, "outer")

    def _join(
        self, other: object, arguments: tuple[object, ...], keywords: dict[str, object], name: Name, kind: JoinKind
    ) -> KStream[K]:
        from hayase.dsl.ktable import GlobalKTable, KTable

        what = {"inner": "join", "left": "left_join", "outer": "outer_join"}[kind]
        kinds: tuple[type[KStream | KTable | GlobalKTable], ...] = (
            (KStream,) if kind == "outer" else (KTable, GlobalKTable, KStream)
        )
        right = of_same_builder(self._state.graph, other, kinds, what)
        if isinstance(right, GlobalKTable):
            key_mapper, joiner = bind_arguments(what, arguments, keywords, ("key_mapper", "joiner"), required=2)
            return KStream(stream_global(self._state, right, key_mapper, joiner, name_of(name), kind == "left"))
        if isinstance(right, KTable):
            joiner, joined = bind_arguments(what, arguments, keywords, ("joiner", "joined"), required=1)
            options = _named(check_option(joined, Joined, what), name)
            return KStream(stream_table(self._state, right, joiner, options, kind == "left"))
        joiner, windows, joined = bind_arguments(what, arguments, keywords, ("joiner", "windows", "joined"), required=2)
        both = check_option(joined, StreamJoined, what)
        both = both if name is None else replace(both, name=name_of(name))
        return KStream(stream_stream(self._state, right._state, joiner, windows, both, kind))

    def to(
        self,
        topic: str | TopicExtractor[K, V],
        produced: Produced[K, V] | None = None,
    ) -> None:
        """Write the records to a topic, or each to a topic of its own choice; topics must exist.

        Instead of a name `topic` may be `(key, value, record_context) -> name` (Kafka Streams' `TopicNameExtractor`)
        or an expression that gives the name. A record for a topic that does not exist stops the application; a null or
        empty name is a processing error.

        Serdes that `produced` does not give are those of the stream; after a mapping the settings
        `default.key.serde` and `default.value.serde`, and without these each value is written by its type.

        Without a partitioner the bytes of the key decide on the partition; of a windowed key those without its window,
        so that all windows of a key are in one partition (Kafka Streams' `WindowedStreamPartitioner`).

        Example:
            orders.to(lambda key, order, record_context: f"orders-{order['region']}")
        """
        options, state = check_option(produced, Produced, "to"), self._state
        fixed, extractor = (topic, None) if isinstance(topic, str) else (None, functions.topic_extractor(topic))
        if fixed == "":
            raise TopologyError("INVALID_TOPIC", "to takes the name of a topic, which must not be empty")
        if isinstance(extractor, pl.Expr):
            infer(extractor, visible_columns(state.key, state.value), "to")
        if isinstance(options.partitioner, pl.Expr):
            infer(options.partitioner, visible_columns(state.key, state.value), "the partitioner")
        state.graph.sink(
            SinkNode(
                state.graph.names.name_or_next(options.name, "KSTREAM-SINK-"),
                (state.node,),
                fixed,
                options.key_serde or state.key.serde,
                options.value_serde or state.value.serde,
                extractor,
                options.partitioner,
                windows_apart=True,
            )
        )

    def to_spark(
        self,
        name: str,
        write: SparkWriter,
        produced: Produced[K, V] | None = None,
        *,
        interval: timedelta = timedelta(seconds=1),
        max_records: int = 1_000_000,
    ) -> None:
        """Hand the records to any writer of Spark's (Parquet, Delta, Iceberg, JDBC), in numbered ranges.

        The records go to the internal topic `<application.id>-<name>-to-spark`. A thread of the application takes
        ranges of it, 0, 1, 2, …, one after the other, and calls `write(frame, number)` for each with an ordinary (not
        streaming) DataFrame. What range n covers is recorded before it is written; after a failure or crash the same
        records are written again under the same number. So the writer is what decides: one that takes a number only
        once (Delta's `txnVersion`, a folder or partition n that is overwritten, a table of numbers in the same JDBC
        transaction) gets every record exactly once, any other at least once. A number is never used for other records
        while the checkpoint lives.

        Columns: `key` and `value` (where the serde has a schema: its type, a struct for records of fields; else
        binary), `timestamp` (timestamp), `partition` (int), `offset` (bigint), `headers`
        (`array<struct<key:string,value:binary>>`). Rows of a partition are in the order of their offsets. A null value,
        a delete, is a null. The frame reads the topic each time it is used; it must not be used after `write` returned.
        `frame.sparkSession` has the time zone UTC.

        `run_to_end` and `close` wait for the write at work; `run_to_end` writes everything. In the test driver
        `create_output_topic(name, …)` reads it.

        Args:
            name: of the sink; its progress is kept under it.
            write: `(frame, number)`; what it raises fails the application, or has the range tried again
                (`set_uncaught_exception_handler`).
            produced: serdes and partitioner of the internal topic, and the name of the node.
            interval: from the beginning of a write to that of the next, at least.
            max_records: of one range.

        Raises:
            TopologyError: the name is taken, or an argument is not allowed. When the application starts:
                `INVALID_SPARK_FRAME` if the serde's schema has a type that Spark does not have.

        Example:
            totals.to_spark("totals", lambda frame, n: frame.write.mode("overwrite").parquet(f"totals/n={n}"))
        """
        spark_sink(self._state, name, write, check_option(produced, Produced, "to_spark"), interval, max_records)

    def to_connector(self, name: str, config: Mapping[str, object], produced: Produced[K, V] | None = None) -> None:
        """Hand the records to a sink connector, which belongs to the program.

        The records go to the internal topic `<application.id>-<name>-to-connector`, which the connector reads from its
        beginning, in threads of the application's process while the application runs. What its target guarantees says
        `docs/connectors`; a transactional one gets each record exactly once. The topic keeps its records.

        Settings are checked when the application starts, before Spark does. Where the configuration names no
        converters, those that fit the serdes are taken; a sink into tables that names no table writes one of the
        connector's name.

        `run_to_end` ends when the connector has written everything; `close` stops it between two writes, and the next
        start goes on there. In the test driver the connector does not run: `create_output_topic(name, …)` reads what
        it would get.

        Args:
            name: of the connector.
            config: its configuration under Kafka Connect's keys, with `connector.class` and without topics.
            produced: serdes and partitioner of the internal topic, and the name of the node.

        Raises:
            TopologyError: the name is taken, or an argument is not allowed. When the application starts:
                `INVALID_CONNECTOR` for a configuration that is wrong, with every error and the line of this call.

        Example:
            totals.to_connector("totals", {"connector.class": "SqliteSink", "connection.path": "totals.db"})
        """
        connector_sink(self._state, name, config, check_option(produced, Produced, "to_connector"))


def _changed(state: StreamState, node: str, key: Known | None, value: Known | None, rekeyed: bool) -> StreamState:
    """The stream that a node sends; what is `None` stays as it is."""
    return replace(
        state,
        node=node,
        key=state.key if key is None else key,
        value=state.value if value is None else value,
        rekeyed=state.rekeyed or rekeyed,
    )


def _named(options: Joined[object, object, object], name: Name) -> Joined[object, object, object]:
    return options if name is None else replace(options, name=name_of(name))
