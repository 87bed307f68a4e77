"""Grouped streams and their aggregations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from hayase.core.errors import TopologyError
from hayase.core.windows import TimeWindows
from hayase.dsl import functions
from hayase.dsl.aggregates import Aggregate, aggregate_arguments
from hayase.dsl.graph import TableOperator
from hayase.dsl.inference import (
    Known,
    aggregate_schema,
    schema_of_type,
    visible_columns,
    windowed_key,
)
from hayase.dsl.ktable import KTable, TableState, key_value_spec
from hayase.dsl.options import Materialized, Named, name_of
from hayase.dsl.stream_state import Name, StreamState, check_option, repartitioned
from hayase.dsl.views import TableView
from hayase.kernel.aggregate_serde import aggregate_serde
from hayase.serde import JsonSerde, Serdes
from hayase.serde.protocol import BARE_FIELD
from hayase.state.spec import StoreSpec
from hayase.topology.operators import (
    Aggregation,
    BuiltInAggregate,
    CallableAggregate,
    CallableReduce,
    FieldAggregate,
    StreamAggregate,
    StreamWindowedAggregate,
)

K = TypeVar("K")
"""Type of keys."""
V = TypeVar("V")
"""Type of values."""


class _Group:
    """A grouped stream and the repartition that its aggregations may share."""

    def __init__(self, state: StreamState, repartition_name: str | None) -> None:
        self.state = state
        self._repartition_name = repartition_name
        self._shared: StreamState | None = None

    def parent(self, store: str) -> StreamState:
        """The stream to aggregate: repartitioned if needed, once if the repartition has a name of its own."""
        if not self.state.rekeyed:
            return self.state
        if self._repartition_name is None:
            return repartitioned(self.state, store)
        if self._shared is None:
            self._shared = repartitioned(self.state, self._repartition_name)
        else:
            self.state.graph.repartition_names(self._repartition_name)  # Kafka Streams counts on
        return self._shared


@dataclass(frozen=True)
class _Kind:
    """How results of one kind of aggregation are named and kept."""

    prefix: str
    aggregation: Aggregation
    value: Known


class _Aggregating(Generic[K, V]):
    """What grouped and windowed streams have in common."""

    def __init__(self, group: _Group, windows: TimeWindows | None) -> None:
        self._group = group
        self._windows = windows

    def count(self, materialized: Materialized | None = None, *, name: Name = None) -> KTable[Any, int]:
        """The number of records per key, a 64-bit integer. Not windowed: of records whose value is not null."""
        aggregation = BuiltInAggregate((FieldAggregate(BARE_FIELD, "count"),), bare=True)
        return self._add(_Kind("KSTREAM-AGGREGATE-", aggregation, Known(Serdes.long())), materialized, name, "count")

    def reduce(
        self, reducer: Callable[[V, V], V], materialized: Materialized | None = None, *, name: Name = None
    ) -> KTable[Any, V]:
        """Combine values per key: `reducer(aggregate, value) -> aggregate`; a key's first value is its first aggregate.

        A null result removes the row.
        """
        function = functions.callable_of(reducer, 2, "reduce", "(aggregate, value)")
        kind = _Kind("KSTREAM-REDUCE-", CallableReduce(function), self._group.state.value)
        return self._add(kind, materialized, name, "reduce")

    def aggregate(
        self,
        initializer: Callable[[], Any],
        aggregator: Callable[[K, V, Any], Any],
        materialized: Materialized | None = None,
        *,
        name: Name = None,
    ) -> KTable[Any, Any]:
        """Aggregate per key: `initializer()` makes the first, `aggregator(key, value, aggregate)` each next aggregate.

        A null result removes the row. The aggregator must not change the aggregate it is given in place and rely on
        that; what it returns counts. The value serde is the one of `materialized`, else of the aggregator's return
        annotation, else `default.value.serde`, else JSON.
        """
        first = functions.callable_of(initializer, 0, "aggregate", "no arguments as initializer")
        function = functions.callable_of(aggregator, 3, "aggregate", "(key, value, aggregate) as aggregator")
        schema = schema_of_type(functions.return_type(aggregator))
        kind = _Kind("KSTREAM-AGGREGATE-", CallableAggregate(first, function), Known(None, schema))
        return self._add(kind, materialized, name, "aggregate")

    def agg(
        self,
        materialized: Materialized | None = None,
        named: Named | None = None,
        /,
        **fields: Aggregate | Materialized | Named | str,
    ) -> KTable[Any, dict[str, Any]]:
        """Several built-in aggregates per key as one record of fields.

        The keywords are the fields; `materialized=` and `name=` are options if they are given a Materialized and a
        string, so that fields may be called so as well.

        Example:
            grouped.agg(Materialized.as_("sales"), n=count(), revenue=sum_("amount"))
        """
        materialized, named, made = aggregate_arguments(materialized, named, fields)
        state = self._group.state
        schema = aggregate_schema(made, visible_columns(state.key, state.value))
        value = Known(JsonSerde()) if schema is None else Known(None, schema)
        kind = _Kind("KSTREAM-AGGREGATE-", BuiltInAggregate(made), value)
        return self._add(kind, materialized, named, "agg")

    def _add(self, kind: _Kind, materialized: Materialized | None, name: Name, what: str) -> KTable[Any, Any]:
        options = check_option(materialized, Materialized, what)
        graph = self._group.state.graph
        store = options.name or graph.names.next(f"{kind.prefix}STATE-STORE-")
        node = graph.names.name_or_next(name_of(name), kind.prefix)
        parent = self._group.parent(store)
        key = Known(options.key_serde) if options.key_serde else parent.key
        value = Known(options.value_serde) if options.value_serde else kind.value
        spec = self._spec(options, store, key, value, kind.aggregation)
        view = TableView(graph, spec, None, keep=True)
        windows = self._windows
        if windows is None:
            operator: TableOperator = StreamAggregate(kind.aggregation, store)
            table_key = Known(spec.key_serde, key.inferred)
        else:
            operator = StreamWindowedAggregate(kind.aggregation, windows, store)
            table_key = windowed_key(spec.key_serde, windows.size_ms)
        graph.table_processor(node, parent.node, lambda _: operator, view)
        closes_after_ms = None if windows is None else windows.grace_ms
        return KTable(TableState(graph, node, table_key, value, view, options.name, closes_after_ms))

    def _spec(self, options: Materialized, store: str, key: Known, value: Known, aggregation: Aggregation) -> StoreSpec:
        spec = key_value_spec(options, store, key, value)
        if isinstance(aggregation, BuiltInAggregate):
            spec = replace(spec, value_serde=aggregate_serde(aggregation, options.value_serde))
        if self._windows is None:
            return spec
        retention_ms = self._windows.retention_ms if options.retention_ms is None else options.retention_ms
        if retention_ms < self._windows.retention_ms:
            raise TopologyError(
                "INVALID_RETENTION",
                f"store {store!r}: retention is {retention_ms} ms; it must be at least window size plus grace, "
                f"{self._windows.retention_ms} ms",
            )
        return replace(spec, kind="timestamped_window", retention_ms=retention_ms, window_size_ms=self._windows.size_ms)


class KGroupedStream(_Aggregating[K, V]):
    """A stream grouped by key; made by `KStream.group_by_key` and `group_by`.

    Aggregations give a table of the latest aggregate per key. Records with a null key or a null value are dropped and
    counted; a row's timestamp is the largest that went into it.
    """

    def __init__(self, state: StreamState, repartition_name: str | None) -> None:
        super().__init__(_Group(state, repartition_name), None)

    def windowed_by(self, windows: TimeWindows) -> TimeWindowedKStream[K, V]:
        """Aggregate per key and time window.

        Example:
            grouped.windowed_by(TimeWindows.of_size_and_grace(timedelta(hours=6), timedelta(minutes=30)))
        """
        if not isinstance(windows, TimeWindows):
            raise TopologyError(
                "INVALID_WINDOW",
                f"windowed_by takes TimeWindows, for example TimeWindows.of_size_with_no_grace(…), not {windows!r}",
            )
        return TimeWindowedKStream(self._group, windows)


class TimeWindowedKStream(_Aggregating[K, V]):
    """A grouped stream cut into tumbling or hopping windows; its tables' keys are `Windowed(key, window)`.

    Records with a null key are dropped and counted; null values are taken in. A record whose window has closed
    (stream time has reached its end plus grace) is dropped for that window and counted.
    """

    def __init__(self, group: _Group, windows: TimeWindows) -> None:
        super().__init__(group, windows)


__all__ = ["KGroupedStream", "TimeWindowedKStream"]
