"""Grouped streams and their aggregations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, overload

from hayase.core.objects import FieldValues
from hayase.core.records import Windowed
from hayase.core.type_variables import KR, VR, K, V
from hayase.core.windows import EmitStrategy, SessionWindows, SlidingWindows, Windows
from hayase.dsl import functions
from hayase.dsl.cogrouped import CogroupedKStream
from hayase.dsl.graph import TableOperator
from hayase.dsl.group import Group
from hayase.dsl.inference import (
    Known,
    aggregate_schema,
    schema_of_type,
    visible_columns,
)
from hayase.dsl.ktable import KTable
from hayase.dsl.options.aggregates import Aggregate, aggregate_arguments
from hayase.dsl.options.materialized import Materialized
from hayase.dsl.options.options import Named, name_of
from hayase.dsl.stream_state import Name, StreamState, check_option
from hayase.dsl.table_state import LateSource, TableState, key_value_spec, table_spec
from hayase.dsl.views import TableMaterialization
from hayase.dsl.windowing import Windowing, windowing_of
from hayase.kernel.aggregate.built_in_serde import aggregate_serde
from hayase.serde import JsonSerde, Serdes
from hayase.serde.protocol import BARE_FIELD
from hayase.state.stores.spec import StoreSpec
from hayase.topology.operators import (
    Aggregation,
    BuiltInAggregate,
    CallableAggregate,
    CallableReduce,
    FieldAggregate,
    StreamAggregate,
)
from hayase.topology.operators.functions import Aggregator, Merger


@dataclass(frozen=True)
class _Kind:
    """How results of one kind of aggregation are named and kept."""

    prefix: str
    aggregation: Aggregation
    value: Known


class _Aggregating(Generic[K, V, KR]):
    """The aggregations of grouped and windowed streams; `KR` is the type of the keys of their tables."""

    def __init__(self, group: Group, windowing: Windowing | None) -> None:
        self._group = group
        self._windowing = windowing

    def count(self, materialized: Materialized[K, int] | None = None, *, name: Name = None) -> KTable[KR, int]:
        """The number of records per key, a 64-bit integer. Not windowed: of records whose value is not null."""
        aggregation = BuiltInAggregate((FieldAggregate(BARE_FIELD, "count"),), bare=True)
        return self._add(_Kind("KSTREAM-AGGREGATE-", aggregation, Known(Serdes.long())), materialized, name, "count")

    def reduce(
        self,
        reducer: Callable[[V, V], V | None],
        materialized: Materialized[K, V] | None = None,
        *,
        name: Name = None,
    ) -> KTable[KR, V]:
        """Combine values per key: `reducer(aggregate, value) -> aggregate`; a key's first value is its first aggregate.

        A null result removes the row.
        """
        function = functions.callable_of(reducer, 2, "reduce", "(aggregate, value)")
        kind = _Kind("KSTREAM-REDUCE-", CallableReduce(function), self._group.state.value)
        return self._add(kind, materialized, name, "reduce")

    def aggregate(
        self,
        initializer: Callable[[], VR],
        aggregator: Callable[[K, V, VR], VR | None],
        materialized: Materialized[K, VR] | None = None,
        *,
        name: Name = None,
    ) -> KTable[KR, VR]:
        """Aggregate per key: `initializer()` makes the first, `aggregator(key, value, aggregate)` each next aggregate.

        A null result removes the row. The aggregator must not change the aggregate it is given in place and rely on
        that; what it returns counts. The value serde is the one of `materialized`, else of the aggregator's return
        annotation, else `default.value.serde`, else JSON.
        """
        return self._aggregate(initializer, aggregator, None, materialized, name)

    def _aggregate(
        self,
        initializer: Callable[[], object],
        aggregator: Aggregator[K, V],
        merger: Merger[K] | None,
        materialized: Materialized[object, object] | None,
        name: Name,
    ) -> KTable:
        first = functions.callable_of(initializer, 0, "aggregate", "no arguments as initializer")
        function = functions.callable_of(aggregator, 3, "aggregate", "(key, value, aggregate) as aggregator")
        schema = schema_of_type(functions.return_type(aggregator))
        kind = _Kind("KSTREAM-AGGREGATE-", CallableAggregate(first, function, merger), Known(None, schema))
        return self._add(kind, materialized, name, "aggregate")

    def agg(
        self,
        materialized: Materialized[K, FieldValues] | None = None,
        named: Named | None = None,
        /,
        **fields: Aggregate | Materialized[object, object] | Named | str,
    ) -> KTable[KR, FieldValues]:
        """Several built-in aggregates per key as one record of fields.

        The keywords are the fields; `materialized=` and `name=` are options if they are given a Materialized and a
        string, so that fields may be called so as well.

        Example:
            grouped.agg(Materialized.as_("sales"), n=count(), revenue=sum_("amount"))
        """
        options, named, aggregates = aggregate_arguments(materialized, named, fields)
        state = self._group.state
        schema = aggregate_schema(aggregates, visible_columns(state.key, state.value))
        value = Known(JsonSerde()) if schema is None else Known(None, schema)
        kind = _Kind("KSTREAM-AGGREGATE-", BuiltInAggregate(aggregates), value)
        return self._add(kind, options, named, "agg")

    def _add(self, kind: _Kind, materialized: Materialized[object, object] | None, name: Name, what: str) -> KTable:
        options = check_option(materialized, Materialized, what)
        graph = self._group.state.graph
        store = options.name or graph.names.next(f"{kind.prefix}STATE-STORE-")
        node = graph.names.name_or_next(name_of(name), kind.prefix)
        parent = self._group.parent(store)
        key = Known(options.key_serde) if options.key_serde else parent.key
        value = Known(options.value_serde) if options.value_serde else kind.value
        spec = self._spec(options, store, key, value, kind.aggregation)
        view = TableMaterialization(graph, spec, None, keep=True)
        windowing, aggregation, late = self._windowing, kind.aggregation, None
        if windowing is None:
            operator: TableOperator = StreamAggregate(aggregation, store)
            table_key = Known(spec.key_serde, key.inferred)
        else:
            operator = windowing.operator(aggregation, store)
            table_key = windowing.table_key(spec)
            late = LateSource((node,), table_key, parent.value)
        graph.table_processor(node, parent.node, lambda _: operator, view)
        closes_after_ms = None if windowing is None else windowing.closes_after_ms
        return KTable(TableState(graph, node, table_key, value, view, options.name, closes_after_ms, late))

    def _spec(
        self, options: Materialized[object, object], store: str, key: Known, value: Known, aggregation: Aggregation
    ) -> StoreSpec:
        spec = (table_spec if self._windowing is None else key_value_spec)(options, store, key, value)
        if isinstance(aggregation, BuiltInAggregate):
            spec = replace(spec, value_serde=aggregate_serde(aggregation, options.value_serde))
        return spec if self._windowing is None else self._windowing.spec(spec, options)


class KGroupedStream(_Aggregating[K, V, K]):
    """A stream grouped by key; made by `KStream.group_by_key` and `group_by`.

    Aggregations give a table of the latest aggregate per key. Records with a null key or a null value are dropped and
    counted; a row's timestamp is the largest that went into it.
    """

    def __init__(self, state: StreamState, repartition_name: str | None) -> None:
        super().__init__(Group(state, repartition_name), None)

    def cogroup(self, aggregator: Callable[[K, V, VR], VR | None]) -> CogroupedKStream[K, VR]:
        """The first of several grouped streams that are aggregated into one table (KIP-150).

        Args:
            aggregator: `(key, value, aggregate)` gives the next aggregate, for records of this stream.

        Example:
            carts.group_by_key().cogroup(add_cart).cogroup(orders.group_by_key(), add_order).aggregate(dict)
        """
        return CogroupedKStream.of(self, aggregator)

    @overload
    def windowed_by(self, windows: Windows | SlidingWindows) -> TimeWindowedKStream[K, V]: ...
    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedKStream[K, V]: ...
    def windowed_by(
        self, windows: Windows | SlidingWindows | SessionWindows
    ) -> TimeWindowedKStream[K, V] | SessionWindowedKStream[K, V]:
        """Aggregate per key and window.

        Args:
            windows: TimeWindows, SlidingWindows, SessionWindows, UnlimitedWindows, or a subclass of Windows of your
                own.

        Example:
            grouped.windowed_by(TimeWindows.of_size_and_grace(timedelta(hours=6), timedelta(minutes=30)))
        """
        windowing = windowing_of(windows)
        if isinstance(windows, SessionWindows):
            return SessionWindowedKStream(self._group, windowing)
        return TimeWindowedKStream(self._group, windowing)


class TimeWindowedKStream(_Aggregating[K, V, Windowed[K]]):
    """A grouped stream cut into windows; its tables' keys are `Windowed(key, window)`.

    Records with a null key are dropped and counted; null values are taken in, except by sliding windows, which drop and
    count them too. A record whose window has closed (stream time has reached its end plus grace; of sliding windows:
    has gone past it) is dropped for that window and counted; see `KTable.late_records`.
    """

    def __init__(self, group: Group, windowing: Windowing) -> None:
        super().__init__(group, windowing)
        self._windows = windowing

    def emit_strategy(self, strategy: EmitStrategy) -> TimeWindowedKStream[K, V]:
        """When results are sent: `EmitStrategy.on_window_update()`, the default, or `EmitStrategy.on_window_close()`.

        Results sent on close are not held back by a cache, have the timestamp of the window's last update and the
        headers of the record that closed the window. The store can be queried at any time and shows windows that are
        open.

        Raises:
            TopologyError: `INVALID_EMIT_STRATEGY`: none, or on close of unlimited windows, which never close.

        Example:
            grouped.windowed_by(windows).emit_strategy(EmitStrategy.on_window_close()).count()
        """
        return TimeWindowedKStream(self._group, self._windows.with_strategy(strategy))


class SessionWindowedKStream(_Aggregating[K, V, Windowed[K]]):
    """A grouped stream cut into sessions; its tables' keys are `Windowed(key, session)`.

    A record that extends or joins sessions deletes these rows (null values under their keys, in time order) and then
    sends the merged one; so it does if the session keeps its bounds, unless it is of a single instant. The timestamp of
    all of these is the end of the session, and they carry no headers. Records with a null key are dropped and counted;
    null values are taken in. A record is late, dropped and counted, if the session that it would be in ended before
    stream time
    - gap - grace; see `KTable.late_records`.

    When sessions merge, `reduce` applies its reducer to their aggregates in time order. In `agg`, `earliest_by_offset`,
    `latest_by_offset`, `collect_list` and `collect_set` take what the earlier session keeps to come before what the
    later keeps.
    """

    def __init__(self, group: Group, windowing: Windowing) -> None:
        super().__init__(group, windowing)
        self._windows = windowing

    def emit_strategy(self, strategy: EmitStrategy) -> SessionWindowedKStream[K, V]:
        """When results are sent: see `TimeWindowedKStream.emit_strategy`. Sent on close, nothing is deleted before."""
        return SessionWindowedKStream(self._group, self._windows.with_strategy(strategy))

    def aggregate(  # type: ignore[override] # sessions need a merger, as in Kafka Streams
        self,
        initializer: Callable[[], VR],
        aggregator: Callable[[K, V, VR], VR | None],
        session_merger: Callable[[K, VR, VR], object],  # VR | None leaves the types of lambdas open
        materialized: Materialized[K, VR] | None = None,
        *,
        name: Name = None,
    ) -> KTable[Windowed[K], VR]:
        """Aggregate per key and session, as `KGroupedStream.aggregate`.

        Args:
            initializer: makes the first aggregate, for every record.
            aggregator: `(key, value, aggregate)`, after merging.
            session_merger: `(key, left, right)` makes one aggregate of two: of what is merged so far, which begins with
                what the initializer gives, and of the next session in time order.
            materialized: how the sessions are kept.
            name: of the node.
        """
        merger = functions.callable_of(session_merger, 3, "aggregate", "(key, left, right) as session_merger")
        return self._aggregate(initializer, aggregator, merger, materialized, name)


__all__ = ["KGroupedStream", "SessionWindowedKStream", "TimeWindowedKStream"]
