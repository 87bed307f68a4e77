"""Several grouped streams aggregated into one table (KIP-150)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, overload

from hayase.core.errors import TopologyError
from hayase.core.records import Windowed
from hayase.core.type_variables import VR, K, V
from hayase.core.windows import SessionWindows, SlidingWindows, Windows
from hayase.dsl import functions
from hayase.dsl.graph import TableOperator
from hayase.dsl.group import Group
from hayase.dsl.inference import Known, schema_of_type
from hayase.dsl.ktable import KTable
from hayase.dsl.options.materialized import Materialized
from hayase.dsl.options.options import name_of
from hayase.dsl.stream_state import Name, StreamState, check_option
from hayase.dsl.table_state import LateSource, TableState, key_value_spec, table_spec
from hayase.dsl.views import TableMaterialization
from hayase.dsl.windowing import Windowing, windowing_of
from hayase.topology.operators import CallableAggregate, CogroupMerge, StreamAggregate
from hayase.topology.operators.functions import Aggregator, Merger

if TYPE_CHECKING:
    from hayase.dsl.grouped import KGroupedStream

_AGGREGATE = "COGROUPKSTREAM-AGGREGATE-"
_MERGE = "COGROUPKSTREAM-MERGE-"


@dataclass(frozen=True)
class _Member:
    """A grouped stream and the aggregator of its records."""

    group: Group
    aggregator: Aggregator


class CogroupedKStream(Generic[K, VR]):
    """Several grouped streams with the same keys, each with an aggregator of its own; made by `KGroupedStream.cogroup`.

    Their aggregation keeps one store, where a join of as many aggregates would keep one each. Null rules are those of
    `KGroupedStream`. The streams must have the same number of partitions; those whose key was changed are
    repartitioned.
    """

    def __init__(self, members: tuple[_Member, ...]) -> None:
        self._members = members

    @classmethod
    def of(cls, grouped: KGroupedStream[K, V], aggregator: Callable[[K, V, VR], VR | None]) -> CogroupedKStream[K, VR]:
        """The first stream; users call `KGroupedStream.cogroup`."""
        first: CogroupedKStream[K, VR] = CogroupedKStream(())
        return first.cogroup(grouped, aggregator)

    def cogroup(
        self, grouped_stream: KGroupedStream[K, V], aggregator: Callable[[K, V, VR], VR | None]
    ) -> CogroupedKStream[K, VR]:
        """The cogroup with one more grouped stream and its aggregator.

        Args:
            grouped_stream: of the same topology, with the same type of key; not windowed.
            aggregator: `(key, value, aggregate)` gives the next aggregate, for records of that stream.

        Raises:
            TopologyError: `INVALID_COGROUP`: no grouped stream, one of another builder, or one that is there already.
        """
        function = functions.callable_of(aggregator, 3, "cogroup", "(key, value, aggregate) as aggregator")
        group = getattr(grouped_stream, "_group", None)
        if not isinstance(group, Group) or getattr(grouped_stream, "_windowing", None) is not None:
            raise TopologyError(
                "INVALID_COGROUP",
                f"cogroup takes a grouped stream, for example stream.group_by_key(), not {grouped_stream!r}; windows "
                "come after the last cogroup(…)",
            )
        if any(member.group is group for member in self._members):
            raise TopologyError(
                "INVALID_COGROUP", "this grouped stream is in the cogroup already; give each stream one aggregator"
            )
        if self._members and self._members[0].group.state.graph is not group.state.graph:
            raise TopologyError("INVALID_COGROUP", "the streams of a cogroup must come from one StreamsBuilder")
        return CogroupedKStream((*self._members, _Member(group, function)))

    def aggregate(
        self, initializer: Callable[[], VR], materialized: Materialized[K, VR] | None = None, *, name: Name = None
    ) -> KTable[K, VR]:
        """Aggregate all streams per key.

        `initializer()` makes the first aggregate, the record's stream says how it goes on.

        A null result removes the row. The value serde is the one of `materialized`, else of the first aggregator's
        return annotation, else `default.value.serde`, else JSON. With `name` the nodes are `<name>-cogroup-agg-<n>`,
        from 0, and `<name>-cogroup-merge`.
        """
        return _aggregated(self._members, None, initializer, None, materialized, name)

    @overload
    def windowed_by(self, windows: Windows | SlidingWindows) -> TimeWindowedCogroupedKStream[K, VR]: ...
    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedCogroupedKStream[K, VR]: ...
    def windowed_by(
        self, windows: Windows | SlidingWindows | SessionWindows
    ) -> TimeWindowedCogroupedKStream[K, VR] | SessionWindowedCogroupedKStream[K, VR]:
        """Aggregate per key and window; windows as for `KGroupedStream.windowed_by`.

        Each stream has a stream time of its own. Records that are in time by it are late all the same, and counted, for
        windows that the shared store has expired because another stream is ahead; a longer
        `Materialized.with_retention` keeps windows for a stream that lags.
        """
        windowing = windowing_of(windows)
        if isinstance(windows, SessionWindows):
            return SessionWindowedCogroupedKStream(self._members, windowing)
        return TimeWindowedCogroupedKStream(self._members, windowing)


class TimeWindowedCogroupedKStream(Generic[K, VR]):
    """A cogroup cut into windows; see `TimeWindowedKStream` for null rules and late records."""

    def __init__(self, members: tuple[_Member, ...], windowing: Windowing) -> None:
        self._members = members
        self._windowing = windowing

    def aggregate(
        self, initializer: Callable[[], VR], materialized: Materialized[K, VR] | None = None, *, name: Name = None
    ) -> KTable[Windowed[K], VR]:
        """Aggregate all streams per key and window; see `CogroupedKStream.aggregate`."""
        return _aggregated(self._members, self._windowing, initializer, None, materialized, name)


class SessionWindowedCogroupedKStream(Generic[K, VR]):
    """A cogroup cut into sessions; see `SessionWindowedKStream` for null rules and late records."""

    def __init__(self, members: tuple[_Member, ...], windowing: Windowing) -> None:
        self._members = members
        self._windowing = windowing

    def aggregate(
        self,
        initializer: Callable[[], VR],
        session_merger: Callable[[K, VR, VR], object],  # VR | None leaves the types of lambdas open
        materialized: Materialized[K, VR] | None = None,
        *,
        name: Name = None,
    ) -> KTable[Windowed[K], VR]:
        """Aggregate all streams per key and session; `session_merger` as in `SessionWindowedKStream.aggregate`."""
        merger = functions.callable_of(session_merger, 3, "aggregate", "(key, left, right) as session_merger")
        return _aggregated(self._members, self._windowing, initializer, merger, materialized, name)


def _aggregated(
    members: tuple[_Member, ...],
    windowing: Windowing | None,
    initializer: Callable[[], object],
    merger: Merger | None,
    materialized: Materialized[object, object] | None,
    name: Name,
) -> KTable:
    first = functions.callable_of(initializer, 0, "aggregate", "no arguments as initializer")
    options = check_option(materialized, Materialized, "aggregate")
    graph = members[0].group.state.graph
    store = options.name or graph.names.next(f"{_AGGREGATE}STATE-STORE-")
    parents = [member.group.parent(store) for member in members]
    schema = schema_of_type(functions.return_type(members[0].aggregator))
    value = Known(options.value_serde) if options.value_serde else Known(None, schema)
    key = Known(options.key_serde) if options.key_serde else _key_of(parents)
    spec = (table_spec if windowing is None else key_value_spec)(options, store, key, value)
    if windowing is not None:
        spec = windowing.spec(spec, options)
    view = TableMaterialization(graph, spec, None, keep=True)
    given = name_of(name)
    nodes = []
    for number, (member, parent) in enumerate(zip(members, parents, strict=True)):
        node = graph.names.name_or_next(given and f"{given}-cogroup-agg-{number}", _AGGREGATE)
        aggregation = CallableAggregate(first, member.aggregator, merger)
        graph.table_processor(node, parent.node, _operator(aggregation, windowing, store), view)
        nodes.append(node)
    merge = graph.names.name_or_next(given and f"{given}-cogroup-merge", _MERGE)
    graph.processor(merge, nodes, lambda: CogroupMerge(store, view.old_values))
    if windowing is None:
        return KTable(TableState(graph, merge, Known(spec.key_serde, key.inferred), value, view, options.name))
    table_key = windowing.table_key(spec)
    late = LateSource(tuple(nodes), table_key, _common([parent.value for parent in parents]))
    return KTable(TableState(graph, merge, table_key, value, view, options.name, windowing.closes_after_ms, late))


def _operator(
    aggregation: CallableAggregate, windowing: Windowing | None, store: str
) -> Callable[[str | None], TableOperator]:
    if windowing is None:
        return lambda _: StreamAggregate(aggregation, store, cogrouped=True)
    return lambda _: windowing.operator(aggregation, store, cogrouped=True)


def _key_of(streams: list[StreamState]) -> Known:
    known = streams[0].key
    for stream in streams[1:]:
        known = known.or_else(stream.key)
    return known


def _common(values: list[Known]) -> Known:
    known = values[0]
    for value in values[1:]:
        known = known.common(value)
    return known


__all__ = ["CogroupedKStream", "SessionWindowedCogroupedKStream", "TimeWindowedCogroupedKStream"]
