"""Grouped tables and their aggregations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic

import polars as pl

from hayase.compiler.serdes import LocalPickleSerde
from hayase.core.errors import TopologyError
from hayase.core.objects import FieldValues
from hayase.core.type_variables import VR, K, V
from hayase.dsl import functions
from hayase.dsl.functions import KeyFunction, ValueFunction
from hayase.dsl.graph import REPARTITION_SUFFIX
from hayase.dsl.inference import (
    Known,
    aggregate_schema,
    concrete_serde,
    key_schema,
    pair_schemas,
    schema_of_type,
    transport_serde,
    value_schema,
    visible_columns,
)
from hayase.dsl.ktable import KTable
from hayase.dsl.options.aggregates import Aggregate, aggregate_arguments
from hayase.dsl.options.materialized import Materialized
from hayase.dsl.options.options import Grouped, Named, name_of
from hayase.dsl.options.store_suppliers import ttl_not_possible
from hayase.dsl.stream_state import Name, check_option
from hayase.dsl.table_state import TableState, refuse_ttl, table_spec
from hayase.dsl.views import TableMaterialization
from hayase.kernel.aggregate.built_in import built_ins
from hayase.kernel.aggregate.built_in_serde import aggregate_serde
from hayase.serde import JsonSerde, Serdes
from hayase.serde.changes import ChangeSerde
from hayase.serde.protocol import BARE_FIELD
from hayase.topology.operators import (
    BuiltInAggregate,
    CallableTableAggregate,
    CallableTableReduce,
    FieldAggregate,
    TableAggregate,
    TableAggregation,
    TableGroupBy,
)

_AGGREGATE = "KTABLE-AGGREGATE-"
_REDUCE = "KTABLE-REDUCE-"


def grouped_table(
    state: TableState,
    mapper: object,
    grouped: Grouped[object, object],
    key: KeyFunction | None,
    value: ValueFunction | None,
) -> KGroupedTable:
    """Add the node that makes groups; what comes after sees old values, so the table they come from keeps its rows."""
    operator, known_key, known_value = _grouping(state, mapper, key, value)
    if state.view.forgets:
        raise ttl_not_possible(
            state.queryable or state.node,
            "it is grouped by group_by, and a row that is forgotten would never leave its group; aggregate the "
            "table's stream, or give the TTL to a table that is not grouped",
        )
    graph = state.graph
    node = graph.names.name_or_next(grouped.name, "KTABLE-SELECT-")
    state.view.send_old_values(force=True)
    graph.processor(node, (state.node,), operator)
    known_key = Known(grouped.key_serde) if grouped.key_serde else known_key
    known_value = Known(grouped.value_serde) if grouped.value_serde else known_value
    return KGroupedTable(replace(state, node=node, key=known_key, value=known_value, queryable=None), grouped.name)


def _grouping(
    state: TableState, mapper: object, key: KeyFunction | None, value: ValueFunction | None
) -> tuple[TableGroupBy, Known, Known]:
    declared = None if mapper is None else functions.declarative(mapper, "group_by")
    if (mapper is None) == (key is None) or (value is not None and mapper is not None and declared is None):
        raise TopologyError(
            "INVALID_FUNCTION",
            "group_by takes either a function of (key, value) that returns (key, value), or expressions: the new key "
            "and, if it is to be another one, value=",
        )
    if mapper is not None and declared is None:
        function = functions.callable_of(mapper, 2, "group_by", "(key, value) that returns (key, value)")
        key_schema_, value_schema_ = pair_schemas(mapper)
        return TableGroupBy(function), Known(None, key_schema_), Known(None, value_schema_)
    group = declared if key is None else functions.declarative(key, "group_by key")
    kept = None if value is None else functions.declarative(value, "group_by value")
    if group is None or (value is not None and kept is None):
        raise TopologyError(
            "INVALID_FUNCTION", "group_by(key=…, value=…) takes expressions; a function goes into group_by(function)"
        )
    composite = functions.struct_of(group) if isinstance(group, tuple) else group
    assert isinstance(composite, pl.Expr)
    columns = visible_columns(state.key, state.value)
    known_key = Known(None, key_schema(composite, columns, "group_by key"))
    known_value = state.value if kept is None else Known(None, value_schema(kept, columns, "group_by value"))
    return TableGroupBy(None, composite, kept), known_key, known_value


@dataclass(frozen=True)
class _Kind:
    """How results of one kind of aggregation are named and kept."""

    prefix: str
    aggregation: TableAggregation
    value: Known


class KGroupedTable(Generic[K, V]):
    """A table grouped by new keys; made by `KTable.group_by`.

    Each update of the table takes the row as it was out of its old group and puts the new row into its new group: in
    this order, and each group sends its row on whether it changed or not. Both groups the same: one update of it.
    Kafka Streams' `KGroupedTable`; KIP-904. A row's timestamp is the largest that went into it.

    Updates travel to the tasks of their groups by a repartition, a shuffle inside the epoch.
    """

    def __init__(self, state: TableState, repartition_name: str | None) -> None:
        self._state = state
        self._repartition_name = repartition_name
        self._shared: str | None = None

    def count(self, materialized: Materialized[K, int] | None = None, *, name: Name = None) -> KTable[K, int]:
        """The number of rows per group, a 64-bit integer. A group without rows stays in the table with 0.

        Example:
            >>> from hayase import Consumed, Serdes, StreamsBuilder
            >>> from hayase.testing import TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> users = builder.table("users", Consumed.with_(Serdes.string(), Serdes.json()))
            >>> users.group_by("city", Grouped.with_(Serdes.string())).count(Materialized.as_("per-city"))
            KTable('KTABLE-AGGREGATE-0000000006')
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     topic = driver.create_input_topic("users", Serdes.string(), Serdes.json())
            ...     for user, city in [("ann", "Oslo"), ("bob", "Oslo"), ("ann", "Rome")]:
            ...         topic.pipe_input(user, {"city": city})
            ...     [(city, row.value) for city, row in driver.store("per-city").all()]
            [('Oslo', 1), ('Rome', 1)]
        """
        aggregation = BuiltInAggregate((FieldAggregate(BARE_FIELD, "count"),), bare=True)
        return self._add(_Kind(_AGGREGATE, aggregation, Known(Serdes.long())), materialized, name, "count")

    def reduce(
        self,
        adder: Callable[[V, V], V | None],
        subtractor: Callable[[V, V], V | None],
        materialized: Materialized[K, V] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, V]:
        """Combine values per group: both functions are `(aggregate, value) -> aggregate`.

        `subtractor` takes a value out that `adder` put in, or that was the group's first; it is not called for a group
        without a row. A null result removes the row, and the next value is a first one again.

        Example:
            amounts.group_by(by_city).reduce(lambda total, n: total + n, lambda total, n: total - n)
        """
        add = functions.callable_of(adder, 2, "reduce", "(aggregate, value) as adder")
        subtract = functions.callable_of(subtractor, 2, "reduce", "(aggregate, value) as subtractor")
        kind = _Kind(_REDUCE, CallableTableReduce(add, subtract), self._state.value)
        return self._add(kind, materialized, name, "reduce")

    def aggregate(
        self,
        initializer: Callable[[], VR],
        adder: Callable[[K, V, VR], VR | None],
        subtractor: Callable[[K, V, VR], VR | None],
        materialized: Materialized[K, VR] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, VR]:
        """Aggregate per group: `initializer()`, adder and subtractor `(key, value, aggregate) -> aggregate`.

        `subtractor` takes a value out that `adder` put in; it is not called for a group without a row. A null result
        removes the row, and the next value begins with the initializer again. The value serde is the one of
        `materialized`, else of the adder's return annotation, else `default.value.serde`, else JSON.
        """
        first = functions.callable_of(initializer, 0, "aggregate", "no arguments as initializer")
        add = functions.callable_of(adder, 3, "aggregate", "(key, value, aggregate) as adder")
        subtract = functions.callable_of(subtractor, 3, "aggregate", "(key, value, aggregate) as subtractor")
        schema = schema_of_type(functions.return_type(adder))
        kind = _Kind(_AGGREGATE, CallableTableAggregate(first, add, subtract), Known(None, schema))
        return self._add(kind, materialized, name, "aggregate")

    def agg(
        self,
        materialized: Materialized[K, FieldValues] | None = None,
        named: Named | None = None,
        /,
        **fields: Aggregate | Materialized[object, object] | Named | str,
    ) -> KTable[K, FieldValues]:
        """Several built-in aggregates per group as one record of fields: `count`, `sum_` and `avg`.

        Only what can take a value out again works on a table; of a smallest, largest, first or last value no function
        knows the next one. Sums of fractions are exact up to rounding, and a NaN or infinity stays in a sum.
        `materialized=` and `name=` may be keywords, as in `KGroupedStream.agg`.

        Raises:
            TopologyError: `NOT_INVERTIBLE`: a field is another aggregate.

        Example:
            users.group_by("city").agg(Materialized.as_("cities"), people=count(), age=avg("age"))
        """
        options, named, aggregates = aggregate_arguments(materialized, named, fields)
        for field, part in zip(aggregates, built_ins(BuiltInAggregate(aggregates)), strict=True):
            if not part.invertible:
                raise TopologyError(
                    "NOT_INVERTIBLE",
                    f"agg: {field.name} is a {field.function}, which cannot take the old value of an updated or "
                    "deleted row out again. On a grouped table use count(), sum_ or avg; or aggregate(initializer, "
                    "adder, subtractor) with an aggregate that keeps all it needs",
                )
        schema = aggregate_schema(list(aggregates), visible_columns(self._state.key, self._state.value))
        value = Known(JsonSerde()) if schema is None else Known(None, schema)
        return self._add(_Kind(_AGGREGATE, BuiltInAggregate(aggregates), value), options, named, "agg")

    def _add(self, kind: _Kind, materialized: Materialized[object, object] | None, name: Name, what: str) -> KTable:
        options = check_option(materialized, Materialized, what)
        graph = self._state.graph
        before = f"{kind.prefix}STATE-STORE-"
        # also of a reduce, as in Kafka Streams
        store = options.name or graph.names.next(f"{_AGGREGATE}STATE-STORE-", before=before)
        source = self._repartitioned(store)
        node = graph.names.name_or_next(name_of(name), kind.prefix)
        key = Known(options.key_serde) if options.key_serde else self._key(store)
        value = Known(options.value_serde) if options.value_serde else kind.value
        refuse_ttl(options, store, "a group that is forgotten could not have rows taken out of it")
        spec = table_spec(options, store, key, value)
        if isinstance(kind.aggregation, BuiltInAggregate):
            spec = replace(spec, value_serde=aggregate_serde(kind.aggregation, options.value_serde))
        view = TableMaterialization(graph, spec, None, keep=True)
        graph.table_processor(node, source, lambda _: TableAggregate(kind.aggregation, store), view)
        return KTable(TableState(graph, node, Known(spec.key_serde, key.inferred), value, view, options.name))

    def _key(self, owner: str) -> Known:
        return Known(transport_serde(self._state.key, "key", owner), self._state.key.inferred)

    def _repartitioned(self, store: str) -> str:
        """The source behind the repartition, which aggregations share if it has a name of its own."""
        graph = self._state.graph
        sink, source = graph.names.next("KSTREAM-SINK-"), graph.names.next("KSTREAM-SOURCE-")  # Kafka counts both
        if self._shared is not None:
            return self._shared
        topic = (self._repartition_name or store) + REPARTITION_SUFFIX
        value = concrete_serde(self._state.value, "value", topic, fallback=LocalPickleSerde())
        serdes = self._key(topic).serde, ChangeSerde(value)
        repartition = graph.table_repartition(self._state.node, (topic, sink, source), serdes)
        if self._repartition_name is not None:
            self._shared = repartition
        return repartition


__all__ = ["KGroupedTable"]
