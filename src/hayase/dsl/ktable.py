"""`KTable`: a table kept up to date by a stream of upserts and deletes; `GlobalKTable`: one that every task sees whole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from hayase.dsl import functions
from hayase.dsl.functions import KeyFunction, Predicate, ValueFunction
from hayase.dsl.graph import Graph, TableView
from hayase.dsl.inference import Known, check_predicate, concrete_serde, visible_columns
from hayase.dsl.kstream import KStream
from hayase.dsl.options import Materialized, name_of
from hayase.dsl.stream_state import Name, StreamState, check_option, mapped_values, repartitioned
from hayase.serde import JsonSerde
from hayase.state.spec import StoreSpec
from hayase.topology.operators import TableFilter, TableMapValues, TableSource, TableToStream

K = TypeVar("K")
"""Type of keys."""
V = TypeVar("V")
"""Type of values."""

_FILTER = "KTABLE-FILTER-"


@dataclass(frozen=True)
class TableState:
    """What a table knows of itself.

    Attributes:
        graph: of the topology.
        node: the node that sends its updates.
        key: what is known about keys.
        value: what is known about values.
        view: where its rows can be read.
        queryable: name of its store if it was named.
    """

    graph: Graph
    node: str
    key: Known
    value: Known
    view: TableView
    queryable: str | None


class KTable(Generic[K, V]):
    """A table: for each key the latest value. Made by `StreamsBuilder.table`, `KStream.to_table` and aggregations.

    A null value deletes a row. Operations without a named store keep no rows; a join that needs rows computes them
    from the table before.
    """

    def __init__(self, state: TableState) -> None:
        self._state = state

    @property
    def queryable_store_name(self) -> str | None:
        """Name of the store to query, `None` if the table has no named store."""
        return self._state.queryable

    def filter(
        self, predicate: Predicate, materialized: Materialized | None = None, *, name: Name = None
    ) -> KTable[K, V]:
        """The rows for which `predicate` is true; a row that no longer fits becomes a delete."""
        return self._filter(predicate, False, materialized, name)

    def filter_not(
        self, predicate: Predicate, materialized: Materialized | None = None, *, name: Name = None
    ) -> KTable[K, V]:
        """The rows for which `predicate` is not true; a row that no longer fits becomes a delete."""
        return self._filter(predicate, True, materialized, name)

    def _filter(
        self, predicate: Predicate, negate: bool, materialized: Materialized | None, name: Name
    ) -> KTable[K, V]:
        what = "filter_not" if negate else "filter"
        function = functions.predicate(predicate, what)
        state = self._state
        check_predicate(function, visible_columns(state.key, state.value), what)
        return self._derived(
            _FILTER,
            materialized,
            name,
            state.value,
            lambda store: TableFilter(function, negate, state.node, store),
            what,
        )

    def map_values(
        self, mapper: ValueFunction, materialized: Materialized | None = None, *, name: Name = None
    ) -> KTable[K, Any]:
        """The rows with new values; deletes stay deletes and are not shown to `mapper`."""
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

    def _derived(
        self,
        prefix: str,
        materialized: Materialized | None,
        name: Name,
        value: Known,
        operator: Any,
        what: str,
    ) -> KTable[Any, Any]:
        """A table computed row by row from this one; it keeps rows only in a named store."""
        state, options = self._state, check_option(materialized, Materialized, what)
        graph = state.graph
        if materialized is not None and options.name is None:
            graph.names.next(f"{prefix}STATE-STORE-")  # Kafka Streams counts on although there will be no store
        node = graph.names.name_or_next(name_of(name), prefix)
        key = Known(options.key_serde) if options.key_serde else state.key
        value = Known(options.value_serde) if options.value_serde else value
        spec = None if options.name is None else key_value_spec(options, options.name, key, value)
        view = TableView(graph, spec, state.view, keep=spec is not None)
        if prefix == _FILTER:  # knows whether a row was there before, so that it sends no needless deletes
            view.old_values = state.view.send_old_values()
        graph.table_processor(node, state.node, operator, view)
        return KTable(TableState(graph, node, key, value, view, options.name))

    def to_stream(self, key_mapper: KeyFunction | None = None, *, name: Name = None) -> KStream[Any, V]:
        """The table's updates as records, null for a delete; with a key mapper re-keyed as by `select_key`."""
        state = self._state
        node = state.graph.names.name_or_next(name_of(name), "KTABLE-TOSTREAM-")
        state.graph.processor(node, (state.node,), TableToStream())
        stream: KStream[Any, V] = KStream(StreamState(state.graph, node, state.key, state.value))
        return stream if key_mapper is None else stream.select_key(key_mapper)


class GlobalKTable(Generic[K, V]):
    """A table of which every task can read every row; made by `StreamsBuilder.global_table`, used in joins."""

    def __init__(self, state: GlobalTableState) -> None:
        self._state = state

    @property
    def queryable_store_name(self) -> str | None:
        """Name of the store to query, `None` if it was not named."""
        return self._state.queryable


@dataclass(frozen=True)
class GlobalTableState:
    """What a global table knows of itself; `store` holds its rows."""

    graph: Graph
    store: str
    key: Known
    value: Known
    queryable: str | None


def key_value_spec(options: Materialized, name: str, key: Known, value: Known) -> StoreSpec:
    """The store of a table that is not windowed."""
    return StoreSpec(
        name,
        "timestamped_key_value",
        options.key_serde or concrete_serde(key, "key", name),
        options.value_serde or concrete_serde(value, "value", name, fallback=JsonSerde()),
        caching=options.caching,
        logging=options.logging,
        store_type=options.store_type,
    )


def stream_to_table(state: StreamState, options: Materialized, name: str | None) -> KTable[Any, Any]:
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
    spec = key_value_spec(options, store, state.key, state.value)
    view = TableView(graph, spec, None, keep=options.name is not None)
    graph.table_processor(node, state.node, TableSource, view)
    return KTable(TableState(graph, node, state.key, state.value, view, options.name))
