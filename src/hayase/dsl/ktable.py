"""`KTable`: a table kept up to date by a stream of upserts and deletes.

`GlobalKTable`: one that every task sees whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Never, overload

from hayase.core.errors import TopologyError
from hayase.core.type_variables import KR, VO, VR, K, V
from hayase.dsl import functions
from hayase.dsl.elsewhere import of_streams
from hayase.dsl.functions import Fielded, JoinedFields, Joiner, KeyFunction, ValueFunction
from hayase.dsl.graph import TableOperator
from hayase.dsl.inference import Known, check_predicate, visible_columns
from hayase.dsl.joins.foreign_key import foreign_key_join
from hayase.dsl.joins.table_table import table_table
from hayase.dsl.kstream import KStream
from hayase.dsl.options.joined import TableJoined
from hayase.dsl.options.materialized import Materialized
from hayase.dsl.options.options import Grouped, name_of
from hayase.dsl.options.suppressed import Suppressed
from hayase.dsl.stream_state import (
    Name,
    StreamState,
    bind_arguments,
    check_option,
    mapped_values,
    of_same_builder,
    repartitioned,
)
from hayase.dsl.suppress import suppress
from hayase.dsl.table_state import GlobalTableState, TableState, keeps_store, table_spec
from hayase.dsl.views import TableMaterialization
from hayase.processor.api import ValueTransformerSupplier, ValueTransformerWithKey
from hayase.topology.operators import (
    JoinKind,
    LateRecords,
    TableFilter,
    TableMapValues,
    TableSource,
    TableToStream,
    TableTransformValues,
)
from hayase.topology.operators.functions import PairMapper, Predicate
from hayase.topology.suppliers import brought_stores, check_supplier

if TYPE_CHECKING:
    from hayase.dsl.grouped_table import KGroupedTable

_FILTER = "KTABLE-FILTER-"


class KTable(Generic[K, V]):
    """A table: for each key the latest value. Made by `StreamsBuilder.table`, `KStream.to_table` and aggregations.

    A null value deletes a row. Operations without a named store keep no rows; a join that needs rows computes them
    from the table before.
    """

    if not TYPE_CHECKING:  # to a type checker there is no other attribute

        def __getattr__(self, name: str) -> object:
            of_streams("KTable", name)

    def __init__(self, state: TableState) -> None:
        self._state = state

    def __repr__(self) -> str:
        return f"KTable({self._state.node!r})"

    @property
    def queryable_store_name(self) -> str | None:
        """Name of the store to query, `None` if the table has no named store."""
        return self._state.queryable

    def filter(
        self, predicate: Predicate[K, V], materialized: Materialized[K, V] | None = None, *, name: Name = None
    ) -> KTable[K, V]:
        """The rows for which a predicate is true. Kafka Streams' `KTable.filter`.

        A row that does not fit is deleted from the result: a null value is sent on. Where this table keeps its rows,
        that is left out if the row was not in the result before; otherwise readers see deletes of rows that they do not
        have. Deletes of this table are sent on and not shown to `predicate`.

        Args:
            predicate: `(key, value) -> bool`, or a Boolean expression over the fields of the value; a null result is
                false. It is also called for old values, so it must give the same answer for the same row.
            materialized: with a name, keeps the rows in a store that can be queried. Without one no rows are kept: a
                join that needs one computes it from the table before.
            name: of the node.

        Raises:
            TopologyError: as `KStream.filter`.

        Example:
            >>> from hayase import *
            >>> from hayase.testing import TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> counts = Consumed.with_(Serdes.string(), Serdes.long())
            >>> stock = builder.table("stock", counts, Materialized.as_("stock"))
            >>> stock.filter(lambda item, count: count > 0).to_stream().to("for-sale")
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     topic = driver.create_input_topic("stock", Serdes.string(), Serdes.long())
            ...     for item, count in (("pen", 2), ("ink", 0), ("pen", 0)):
            ...         topic.pipe_input(item, count)
            ...     driver.create_output_topic("for-sale", Serdes.string(), Serdes.long()).read_key_values_to_list()
            [('pen', 2), ('pen', None)]
        """
        return self._filter(predicate, False, materialized, name)

    def filter_not(
        self, predicate: Predicate[K, V], materialized: Materialized[K, V] | None = None, *, name: Name = None
    ) -> KTable[K, V]:
        """The rows for which a predicate is not true. As `filter`, but a null result keeps the row."""
        return self._filter(predicate, True, materialized, name)

    def _filter(
        self, predicate: Predicate[K, V], negate: bool, materialized: Materialized[K, V] | None, name: Name
    ) -> KTable[K, V]:
        what = "filter_not" if negate else "filter"
        function = functions.predicate(predicate, what)
        state = self._state
        check_predicate(function, visible_columns(state.key, state.value), what)
        versioned = state.view.history_ms is not None
        return self._derived(
            _FILTER,
            materialized,
            name,
            state.value,
            lambda store: TableFilter(function, negate, state.node, store, versioned=versioned),
            what,
        )

    @overload
    def map_values(
        self, mapper: Callable[[V], VR | None], materialized: Materialized[K, VR] | None = None, *, name: Name = None
    ) -> KTable[K, VR]: ...
    @overload
    def map_values(
        self, mapper: Callable[[K, V], VR | None], materialized: Materialized[K, VR] | None = None, *, name: Name = None
    ) -> KTable[K, VR]: ...
    @overload
    def map_values(
        self, mapper: Fielded, materialized: Materialized[K, Never] | None = None, *, name: Name = None
    ) -> KTable[K]: ...
    @overload
    def map_values(self, mapper: Fielded, materialized: Materialized[K, VR], *, name: Name = None) -> KTable[K, VR]: ...
    def map_values(
        self, mapper: ValueFunction, materialized: Materialized[K, object] | None = None, *, name: Name = None
    ) -> KTable[K]:
        """The rows with new values. Kafka Streams' `KTable.mapValues`.

        Every update is sent on, also one that does not change the new value. Deletes stay deletes and are not shown to
        `mapper`; a new value of null deletes the row.

        Args:
            mapper: as in `KStream.map_values`. It is also called for old values and for rows that a join looks up,
                unless `materialized` has a name, so it must give the same answer for the same row.
            materialized: with a name, keeps the new rows in a store that can be queried; its `value_serde` is that of
                the new values. Without one no rows are kept.
            name: of the node.

        Raises:
            TopologyError: as `KStream.map_values`.

        Example:
            >>> from hayase import *
            >>> from hayase.testing import TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> users = builder.table("users", Consumed.with_(Serdes.string(), Serdes.string()))
            >>> names = users.map_values(str.upper, Materialized.as_("names").with_value_serde(Serdes.string()))
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     topic = driver.create_input_topic("users", Serdes.string(), Serdes.string())
            ...     for name in ("Ann", "Anna"):
            ...         topic.pipe_input("7", name)
            ...     driver.store("names").get("7").value
            'ANNA'
        """
        state = self._state
        function, schema = mapped_values(mapper, visible_columns(state.key, state.value), "map_values")
        return self._derived(
            "KTABLE-MAPVALUES-",
            materialized,
            name,
            Known(None, schema),
            lambda store: TableMapValues(function, state.node, store, schema),
            "map_values",
        )

    def transform_values(
        self,
        supplier: ValueTransformerSupplier[K, V, VR],
        *store_names: str,
        materialized: Materialized[K, VR] | None = None,
        name: Name = None,
    ) -> KTable[K, VR]:
        """The rows with the values that an object of yours makes, with access to stores and time.

        Unlike `map_values` it is shown deletes, as `None`, and may give them a value. Without a named store in
        `materialized` it is called again for old values and for rows that a join looks up.

        Args:
            supplier: a subclass of `ValueTransformerWithKey`, or a function that makes one. Stores that its `stores()`
                gives are added and connected (KIP-401).
            store_names: stores to connect it with; of global tables all can be read without that.
            materialized: as in `map_values`.
            name: of the node.

        Kafka Streams' `KTable.transformValues`.

        Example:
            >>> from hayase import *
            >>> from hayase.testing import TopologyTestDriver
            >>> class Versions(ValueTransformerWithKey):
            ...     def init(self, context):
            ...         self.seen = context.get_state_store("seen")
            ...
            ...     def transform(self, key, value):
            ...         self.seen.put(key, (self.seen.get(key) or 0) + 1)
            ...         return f"{value}, version {self.seen.get(key)}"
            >>> builder = StreamsBuilder()
            >>> _ = builder.add_state_store(Stores.key_value_store("seen", Serdes.string(), Serdes.long()))
            >>> users = builder.table("users", Consumed.with_(Serdes.string(), Serdes.string()))
            >>> versions = users.transform_values(Versions, "seen")
            >>> versions.to_stream().to("out", Produced.with_(Serdes.string(), Serdes.string()))
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     topic = driver.create_input_topic("users", Serdes.string(), Serdes.string())
            ...     for name in ("Ann", "Anna"):
            ...         topic.pipe_input("7", name)
            ...     driver.create_output_topic("out", Serdes.string(), Serdes.string()).read_key_values_to_list()
            [('7', 'Ann, version 1'), ('7', 'Anna, version 2')]
        """
        graph, parent = self._state.graph, self._state.node
        checked = check_supplier(supplier, ValueTransformerWithKey)
        brought = brought_stores(supplier)
        for spec in brought:
            graph.add_once(spec)
        connected = tuple(dict.fromkeys((*store_names, *(spec.name for spec in brought))))
        return self._derived(
            "KTABLE-TRANSFORMVALUES-",
            materialized,
            name,
            Known(None),
            lambda store: TableTransformValues(checked, parent, store),
            "transform_values",
            connected,
        )

    def _derived(
        self,
        prefix: str,
        materialized: Materialized[object, object] | None,
        name: Name,
        value: Known,
        operator: Callable[[str | None], TableOperator],
        what: str,
        stores: Sequence[str] = (),
    ) -> KTable:
        """A table computed row by row from this one; it keeps rows only in a named store."""
        state, options = self._state, check_option(materialized, Materialized, what)
        graph = state.graph
        if materialized is not None and options.name is None:
            graph.names.next(f"{prefix}STATE-STORE-")  # Kafka Streams counts on although there will be no store
        node = graph.names.name_or_next(name_of(name), prefix)
        key = Known(options.key_serde) if options.key_serde else state.key
        value = Known(options.value_serde) if options.value_serde else value
        spec = table_spec(options, options.name or "", key, value) if keeps_store(options) else None
        view = TableMaterialization(graph, spec, state.view, keep=spec is not None)
        if prefix == _FILTER:  # knows whether a row was there before, so that it sends no needless deletes
            view.old_values = state.view.send_old_values()
        graph.table_processor(node, state.node, operator, view, stores)
        return KTable(replace(state, node=node, key=key, value=value, view=view, queryable=options.name, late=None))

    def suppress(self, suppressed: Suppressed) -> KTable[K, V]:
        """Hold updates back: until a window closes, or for a span of stream time. Kafka Streams' `KTable.suppress`.

        Stream time is here the largest timestamp of the updates that reached this point. Rows that are due are sent
        when an update comes, by due time, then by the bytes of the key, with their own timestamps and headers; their
        old value, where a node downstream wants it, is the one that was sent before. The table begins to keep its rows
        if it does not yet. With caches on, updates of one epoch are merged before they come here.

        Raises:
            StateError: `SUPPRESSION_BUFFER_FULL`, while running, if the buffer may not send early.

        Example:
            >>> from datetime import timedelta
            >>> from hayase import *
            >>> from hayase.testing import TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> clicks = builder.stream("clicks", Consumed.with_(Serdes.string(), Serdes.string()))
            >>> windows = TimeWindows.of_size_and_grace(timedelta(seconds=10), timedelta(seconds=2))
            >>> counts = clicks.group_by_key().windowed_by(windows).count()
            >>> last = counts.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
            >>> last.to_stream(lambda window, n: window.key).to("out", Produced.with_(Serdes.string(), Serdes.long()))
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     topic = driver.create_input_topic("clicks", Serdes.string(), Serdes.string())
            ...     for second in (1, 5, 11, 12):
            ...         topic.pipe_input("a", "click", timestamp_ms=second * 1000)
            ...     driver.create_output_topic("out", Serdes.string(), Serdes.long()).read_key_values_to_list()
            [('a', 2)]
        """
        if not isinstance(suppressed, Suppressed):
            raise TopologyError(
                "INVALID_OPTION",
                "suppress takes a Suppressed, for example Suppressed.until_window_closes(BufferConfig.unbounded()), "
                f"not {suppressed!r}",
            )
        return KTable(suppress(self._state, suppressed))

    @overload
    def group_by(
        self, mapper: Callable[[K, V], tuple[KR | None, VR | None]], grouped: Grouped[KR, VR] | None = None
    ) -> KGroupedTable[KR, VR]: ...
    @overload
    def group_by(self, mapper: Fielded, grouped: Grouped[Never, V] | None = None) -> KGroupedTable[Any, V]: ...
    @overload
    def group_by(self, mapper: Fielded, grouped: Grouped[KR, V]) -> KGroupedTable[KR, V]: ...
    @overload
    def group_by(
        self,
        mapper: Fielded | None = None,
        grouped: Grouped[object, object] | None = None,
        *,
        key: Fielded | None = None,
        value: Fielded | None = None,
    ) -> KGroupedTable: ...
    def group_by(
        self,
        mapper: PairMapper[K, V] | Fielded | None = None,
        grouped: Grouped[object, object] | None = None,
        *,
        key: KeyFunction | None = None,
        value: ValueFunction | None = None,
    ) -> KGroupedTable:
        """Group the rows by a new key, to be aggregated.

        `mapper` is a function of a row, `(key, value) -> (new key, new value)`, or an expression, a field's name or
        fields for the new key; then the value stays, or is what `value=` gives. It is shown old rows as well as new
        ones, so it must be a function of its arguments alone. A row whose new key or new value is null is in no group.
        Timestamps and headers stay. The table begins to keep its rows if it does not yet, for their old values.

        `grouped` has the serdes for the repartition and its name.

        Example:
            users.group_by(lambda user, row: (row["city"], row["age"]), Grouped.with_(Serdes.string(), Serdes.long()))
            users.group_by("city")
            users.group_by(key=pl.col("city").str.to_lowercase(), value=pl.col("age"))
        """
        from hayase.dsl.grouped_table import grouped_table

        return grouped_table(self._state, mapper, check_option(grouped, Grouped, "group_by"), key, value)

    @overload
    def to_stream(self, key_mapper: None = None, *, name: Name = None) -> KStream[K, V]: ...
    @overload
    def to_stream(self, key_mapper: Callable[[K, V], KR], *, name: Name = None) -> KStream[KR, V]: ...
    @overload
    def to_stream(self, key_mapper: Fielded, *, name: Name = None) -> KStream[Any, V]: ...
    def to_stream(self, key_mapper: KeyFunction | None = None, *, name: Name = None) -> KStream[Any, V]:
        """The table's updates as records, null for a delete; with a key mapper re-keyed as by `select_key`."""
        state = self._state
        node = state.graph.names.name_or_next(name_of(name), "KTABLE-TOSTREAM-")
        state.graph.processor(node, (state.node,), TableToStream())
        stream: KStream[K, V] = KStream(StreamState(state.graph, node, state.key, state.value))
        return stream if key_mapper is None else stream.select_key(key_mapper)

    def late_records(self, *, name: Name = None) -> KStream[K]:
        """The records that this windowed aggregate refused as late, as a stream.

        Beyond Kafka Streams, which only counts them.

        A record is sent once for each window that refused it, under `Windowed(key, window)`, with its own value,
        timestamp and headers, when it is refused: of hopping windows one record may be sent several times, and be taken
        in by other windows. Records without a key are not late but invalid and never sent. Of a cogroup, the records of
        all its streams. Refused records are counted whether they are asked for or not.

        Raises:
            TopologyError: `NO_LATE_RECORDS`: this is no table that a windowed aggregation made.

        Example:
            counts = orders.group_by_key().windowed_by(windows).count()
            counts.late_records().select_key(lambda key, value: key.key).to("orders-late")
        """
        state, late = self._state, self._state.late
        if late is None:
            raise TopologyError(
                "NO_LATE_RECORDS",
                f"table {state.node!r} is not what a windowed aggregation gives, so that nothing is late for it; call "
                "late_records() on the table that windowed_by(…).count() and the like give",
            )
        node = state.graph.names.name_or_next(name_of(name), "KTABLE-LATERECORDS-")
        state.graph.processor(node, late.nodes, LateRecords())
        return KStream(StreamState(state.graph, node, late.key, late.value))

    @overload
    def join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V, VO], VR | None],
        materialized: Materialized[K, VR] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, VR]: ...
    @overload
    def join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[K, V, VO], VR | None],
        materialized: Materialized[K, VR] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, VR]: ...
    @overload
    def join(
        self,
        other: KTable[K, VO],
        joiner: JoinedFields,
        materialized: Materialized[K, Never] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K]: ...
    @overload
    def join(
        self, other: KTable[K, VO], joiner: JoinedFields, materialized: Materialized[K, VR], *, name: Name = None
    ) -> KTable[K, VR]: ...
    @overload
    def join(
        self,
        other: KTable[KR, VO],
        foreign_key_extractor: Callable[[V], KR | None] | Fielded,
        joiner: Callable[[V, VO], VR | None],
        table_joined: TableJoined | None = None,
        materialized: Materialized[K, VR] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, VR]: ...
    @overload
    def join(
        self,
        other: KTable[KR, VO],
        foreign_key_extractor: Callable[[V], KR | None] | Fielded,
        joiner: Callable[[K, V, VO], VR | None],
        table_joined: TableJoined | None = None,
        materialized: Materialized[K, VR] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, VR]: ...
    @overload
    def join(
        self,
        other: KTable[KR, VO],
        foreign_key_extractor: Callable[[V], KR | None] | Fielded,
        joiner: JoinedFields,
        table_joined: TableJoined | None = None,
        materialized: Materialized[K, object] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K]: ...
    @overload
    def join(
        self,
        other: KTable[KR, VO],
        foreign_key_extractor: Callable[[K, V], KR | None],
        joiner: Callable[[V, VO], VR | None],
        table_joined: TableJoined | None = None,
        materialized: Materialized[K, VR] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, VR]: ...
    @overload
    def join(
        self,
        other: KTable[KR, VO],
        foreign_key_extractor: Callable[[K, V], KR | None],
        joiner: Callable[[K, V, VO], VR | None],
        table_joined: TableJoined | None = None,
        materialized: Materialized[K, VR] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, VR]: ...
    @overload
    def join(
        self,
        other: KTable[KR, VO],
        foreign_key_extractor: Callable[[K, V], KR | None],
        joiner: JoinedFields,
        table_joined: TableJoined | None = None,
        materialized: Materialized[K, object] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K]: ...
    def join(self, other: object, *arguments: object, name: Name = None, **keywords: object) -> KTable[K]:
        """Join the rows of two tables, by the same key or by a foreign key.

        * `join(other, joiner, materialized=None)`: rows with the same key; a key that one table does not have has no
          row. An update of either side is joined with the other side's row as it is then; the row's timestamp is the
          larger of the two. A delete, and any update whose result is null, is passed on as a delete if the other side
          has a row, whether there was a result before or not. Both topics must have the same number of partitions.
        * `join(other, foreign_key_extractor, joiner, table_joined=None, materialized=None)`: each row with the row of
          `other` whose key `foreign_key_extractor` gives: a function of `(value)` or `(key, value)`, an expression, or
          a field's name. Results have the keys of this table. An update of a right row is joined with all left rows
          that name it, in the order of their keys' bytes, at the right row's timestamp; an update of a left row gives a
          result at the larger timestamp of the two. A row whose foreign key is null has no result and is counted as
          dropped. Any numbers of partitions. Questions and answers travel between the tasks (KIP-213): results of an
          epoch come out in the next one; an answer for a row that has changed since is dropped and counted.

        The joiner is `(left, right)` or `(key, left, right)`, or fields of `left(…)` and `right(…)`; a null result is
        no row. Both tables begin to keep their rows if they do not yet; the result is kept if its store is named. In a
        join by key the caches of the two tables are off, in one by foreign key that of `other`, unlike in Kafka
        Streams: with them a row that goes on both sides, or comes and goes on the other one, within an epoch would
        leave its result behind.

        Kafka Streams' `KTable.join`.

        Example:
            >>> from hayase import Consumed, Produced, Serdes, StreamsBuilder
            >>> from hayase.testing import TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> orders = builder.table("orders", Consumed.with_(Serdes.string(), Serdes.json()))
            >>> users = builder.table("users", Consumed.with_(Serdes.string(), Serdes.string()))
            >>> named = orders.join(
            ...     users, lambda order: order["user"], lambda order, user: f"{order['item']} for {user}"
            ... )
            >>> named.to_stream().to("out", Produced.with_(Serdes.string(), Serdes.string()))
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     given = driver.create_input_topic("orders", Serdes.string(), Serdes.json())
            ...     given.pipe_input("o1", {"user": "7", "item": "tea"})
            ...     for name in ("Ann", "Anna"):
            ...         driver.create_input_topic("users", Serdes.string(), Serdes.string()).pipe_input("7", name)
            ...     driver.create_output_topic("out", Serdes.string(), Serdes.string()).read_key_values_to_list()
            [('o1', 'tea for Ann'), ('o1', 'tea for Anna')]
        """
        return self._join(other, arguments, keywords, name, "inner")

    @overload
    def left_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V, VO | None], VR | None],
        materialized: Materialized[K, VR] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[K, V, VO | None], VR | None],
        materialized: Materialized[K, VR] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KTable[K, VO],
        joiner: JoinedFields,
        materialized: Materialized[K, Never] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K]: ...
    @overload
    def left_join(
        self, other: KTable[K, VO], joiner: JoinedFields, materialized: Materialized[K, VR], *, name: Name = None
    ) -> KTable[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KTable[KR, VO],
        foreign_key_extractor: Callable[[V], KR | None] | Fielded,
        joiner: Callable[[V, VO | None], VR | None],
        table_joined: TableJoined | None = None,
        materialized: Materialized[K, VR] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KTable[KR, VO],
        foreign_key_extractor: Callable[[V], KR | None] | Fielded,
        joiner: Callable[[K, V, VO | None], VR | None],
        table_joined: TableJoined | None = None,
        materialized: Materialized[K, VR] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KTable[KR, VO],
        foreign_key_extractor: Callable[[V], KR | None] | Fielded,
        joiner: JoinedFields,
        table_joined: TableJoined | None = None,
        materialized: Materialized[K, object] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K]: ...
    @overload
    def left_join(
        self,
        other: KTable[KR, VO],
        foreign_key_extractor: Callable[[K, V], KR | None],
        joiner: Callable[[V, VO | None], VR | None],
        table_joined: TableJoined | None = None,
        materialized: Materialized[K, VR] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KTable[KR, VO],
        foreign_key_extractor: Callable[[K, V], KR | None],
        joiner: Callable[[K, V, VO | None], VR | None],
        table_joined: TableJoined | None = None,
        materialized: Materialized[K, VR] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KTable[KR, VO],
        foreign_key_extractor: Callable[[K, V], KR | None],
        joiner: JoinedFields,
        table_joined: TableJoined | None = None,
        materialized: Materialized[K, object] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K]: ...
    def left_join(self, other: object, *arguments: object, name: Name = None, **keywords: object) -> KTable[K]:
        """As `join`, but every row of this table gives one; `right` is null where there is no other row."""
        return self._join(other, arguments, keywords, name, "left")

    @overload
    def outer_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V | None, VO | None], VR | None],
        materialized: Materialized[K, VR] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, VR]: ...
    @overload
    def outer_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[K, V | None, VO | None], VR | None],
        materialized: Materialized[K, VR] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, VR]: ...
    @overload
    def outer_join(
        self,
        other: KTable[K, VO],
        joiner: JoinedFields,
        materialized: Materialized[K, Never] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K]: ...
    @overload
    def outer_join(
        self, other: KTable[K, VO], joiner: JoinedFields, materialized: Materialized[K, VR], *, name: Name = None
    ) -> KTable[K, VR]: ...
    def outer_join(
        self,
        other: KTable[K],
        joiner: Joiner,
        materialized: Materialized[K, object] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K]:
        """As `join` by key, but every row of either table gives one; `left` or `right` is null where there is none."""
        return self._join(other, (joiner, materialized), {}, name, "outer")

    def _join(
        self, other: object, arguments: tuple[object, ...], keywords: dict[str, object], name: Name, kind: JoinKind
    ) -> KTable[K]:
        what = {"inner": "join", "left": "left_join", "outer": "outer_join"}[kind]
        right = of_same_builder(self._state.graph, other, (KTable,), what)._state
        extracts = len(arguments) > 1 and not isinstance(arguments[1], Materialized | None)
        if extracts or "foreign_key_extractor" in keywords or (len(arguments) == 1 and "joiner" in keywords):
            parameters = ("foreign_key_extractor", "joiner", "table_joined", "materialized")
            extractor, joiner, joined, kept = bind_arguments(what, arguments, keywords, parameters, required=2)
            table_joined = check_option(joined, TableJoined, what)
            if name is not None:
                table_joined = replace(table_joined, name=name_of(name))
            options = check_option(kept, Materialized, what)
            return KTable(
                foreign_key_join(self._state, right, extractor, joiner, table_joined, options, is_left=kind == "left")
            )
        joiner, kept = bind_arguments(what, arguments, keywords, ("joiner", "materialized"), required=1)
        options = None if kept is None else check_option(kept, Materialized, what)
        return KTable(table_table(self._state, right, joiner, options, name_of(name), kind))


class GlobalKTable(Generic[K, V]):
    """A table of which every task can read every row; made by `StreamsBuilder.global_table`, used in joins."""

    def __init__(self, state: GlobalTableState) -> None:
        self._state = state

    @property
    def queryable_store_name(self) -> str | None:
        """Name of the store to query, `None` if it was not named."""
        return self._state.queryable


def stream_to_table(state: StreamState, options: Materialized[object, object], name: str | None) -> KTable:
    """The table of a stream of upserts."""
    graph = state.graph
    # the order of the two counts, and both always count, is Kafka Streams'
    node = graph.names.name_or_next(name, "KSTREAM-TOTABLE-")
    store = options.name or graph.names.next("KSTREAM-TOTABLE-STATE-STORE-")
    if options.key_serde is not None:
        state = replace(state, key=Known(options.key_serde))
    if options.value_serde is not None:
        state = replace(state, value=Known(options.value_serde))
    if state.rekeyed:
        state = repartitioned(state, node)
    spec = table_spec(options, store, state.key, state.value)
    view = TableMaterialization(graph, spec, None, keep=options.name is not None)
    graph.table_processor(node, state.node, TableSource, view)
    return KTable(TableState(graph, node, state.key, state.value, view, options.name))
