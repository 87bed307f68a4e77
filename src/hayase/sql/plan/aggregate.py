"""Aggregations of streams and tables, with and without windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import polars as pl

from hayase.core.records import Windowed
from hayase.core.windows import EmitStrategy, SessionWindows, TimeWindows
from hayase.dsl.ktable import KTable
from hayase.dsl.options.materialized import Materialized
from hayase.dsl.options.options import Grouped
from hayase.kernel.frame.vectorized import keys_of as keys_in_one_column
from hayase.kernel.frame.vectorized import with_null
from hayase.kernel.node.column_node import NULL
from hayase.serde.protocol import Serde
from hayase.sql.analysis.steps import Aggregate, AggregateCall, Rows
from hayase.sql.analysis.windows import grace_ms
from hayase.sql.ast.expressions import ColumnRef
from hayase.sql.ast.queries import Window, WindowKind
from hayase.sql.catalog.sources import WINDOW_BOUNDS, WINDOWEND, WINDOWSTART
from hayase.sql.formats.columns import Column
from hayase.sql.formats.internal import internal_value_serde
from hayase.sql.formats.nested_states import NestedStatesSerde
from hayase.sql.functions.bound import BoundAggregate
from hayase.sql.plan.built_in_aggregates import BuiltInResults, Call, engine_calls
from hayase.sql.plan.context import PlanContext, Stage, internal_key, rows_schema, windowed_serde
from hayase.sql.plan.guarded import GuardedExpression
from hayase.sql.plan.stateless import KeyOfRow, Row
from hayase.sql.plan.vectorize import reads_of, vectorized
from hayase.sql.types.casts import caster
from hayase.topology.operators import VectorizedResult

State = dict[str, Any]
_GROUP_BY, _STORE = "Aggregate-GroupBy", "Aggregate-Aggregate-Materialize"
"""Names of the repartition and the store, which stay when a query is replaced."""


class Aggregators:
    """The aggregate functions of a step over one state: a column for each.

    Args:
        calls: name, function and compiled arguments of each.
    """

    def __init__(self, calls: Sequence[tuple[str, BoundAggregate, list[GuardedExpression], list[Any]]]) -> None:
        self._calls = list(calls)
        self._made: list[tuple[str, Any, list[tuple[GuardedExpression, Any]]]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_calls": self._calls, "_made": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    @property
    def functions(self) -> list[tuple[str, Any, list[tuple[GuardedExpression, Any]]]]:
        """Name, object and arguments of each; objects are made where they are used."""
        if self._made is None:
            self._made = [
                (name, function.create(), list(zip(arguments, casts, strict=True)))
                for name, function, arguments, casts in self._calls
            ]
        return self._made

    def initial(self) -> State:
        """The state of a group without rows."""
        return {name: function.initial() for name, function, _ in self.functions}

    def add(self, key: Any, row: Row, state: State) -> State:
        """The state with a row."""
        return {
            name: function.add(_kept(function, state[name]), *[cast(argument(row)) for argument, cast in arguments])
            for name, function, arguments in self.functions
        }

    def undo(self, key: Any, row: Row, state: State) -> State:
        """The state without a row that was added before."""
        return {
            name: function.undo(_kept(function, state[name]), *[cast(argument(row)) for argument, cast in arguments])
            for name, function, arguments in self.functions
        }

    def merge(self, key: Any, left: State, right: State) -> State:
        """The state of two sessions that become one."""
        return {
            name: function.merge(_kept(function, left[name]), _kept(function, right[name]))
            for name, function, _ in self.functions
        }


def _kept(function: Any, state: Any) -> Any:
    """The state of one function in a group; that of a function which a new definition has added is its first."""
    return function.initial() if state is None else state


class Results:
    """The rows that groups are: key, results, window bounds.

    Args:
        aggregators: of the step.
        key: names of the key's columns.
    """

    def __init__(self, aggregators: Aggregators, key: Sequence[str]) -> None:
        self._aggregators = aggregators
        self._key = tuple(key)

    def __call__(self, key: Any, state: State) -> Row:
        """The row of a group."""
        row: Row = {}
        if isinstance(key, Windowed):
            row[WINDOWSTART], row[WINDOWEND] = key.window
            key = key.key
        if len(self._key) == 1:
            row[self._key[0]] = key
        else:
            row.update({name: key[name] for name in self._key})
        for name, function, _ in self._aggregators.functions:
            row[name] = function.result(_kept(function, state[name]))
        return row


class Initial:
    """Makes the state of a group without rows."""

    def __init__(self, aggregators: Aggregators) -> None:
        self._aggregators = aggregators

    def __call__(self) -> State:
        """The state."""
        return self._aggregators.initial()


class GroupKey:
    """The group of a stream's row."""

    def __init__(self, key: KeyOfRow) -> None:
        self._key = key

    def __call__(self, key: Any, row: Row | None) -> Any:
        """The key of the group; `None` if a grouping expression is null or fails."""
        return self._key(row)

    def columns(self, frame: pl.DataFrame) -> VectorizedResult:
        """The keys of the groups of a frame's rows."""
        return self._key.columns(frame)


class GroupRow:
    """The group of a table's row, and the row.

    Args:
        key: of the group.
        names: of the row's columns.
    """

    def __init__(self, key: KeyOfRow, names: Sequence[str]) -> None:
        self._key = key
        self._names = list(names)
        self._schema = key.schema

    def __call__(self, key: Any, row: Row | None) -> tuple[Any, Row | None]:
        """The pair."""
        return self._key(row), row

    def columns(self, frame: pl.DataFrame) -> VectorizedResult:
        """The pairs of a frame's rows."""
        made = self._key.columns(frame)
        assert self._schema is not None
        keys = keys_in_one_column(with_null(made.frame, self._schema), self._schema)
        return VectorizedResult(frame.select(*self._names, NULL).with_columns(keys), made.row_by_row)


def aggregate(step: Aggregate, stage: Stage, context: PlanContext) -> Stage:
    """The table of groups with their results."""
    names = tuple(name for name, _ in step.group_by)
    columns = stage.rows.columns
    parts = [(name, context.compile(each, columns, "Group By", "GROUP BY")) for name, each in step.group_by]
    key = KeyOfRow(parts, whole=True)
    keys = internal_key(tuple(Column(name, step.rows.columns[name]) for name in names))
    materialized: Materialized[Any, Any] = Materialized.as_(_STORE).with_key_serde(keys)
    same_key = _is_key(step, stage.rows) and stage.key_fields == names
    of_engine = engine_calls(step, stage, context)
    if of_engine is not None:
        stage, calls = of_engine
        table = _built_in(calls, _grouped(stage, key, keys, same_key), step, materialized)
        known = {*names, *(call.name for call in calls), *(WINDOW_BOUNDS if step.window is not None else ())}
        results: Callable[..., Any] = vectorized(
            BuiltInResults(calls, names, list(step.rows.columns)),
            rows_schema(step.rows) if set(step.rows.columns) <= known else None,
            [],
            f"results {[call.definition for call in calls]} of {step.rows.columns}",
        )
    else:
        aggregators = Aggregators([_call(call, columns, context) for call in step.aggregates])
        states = internal_value_serde([Column(call.name, call.function.state_type) for call in step.aggregates])
        materialized = materialized.with_value_serde(states)
        grouped = _grouped(stage, key, keys, same_key)
        if stage.table is not None:
            table = grouped.aggregate(Initial(aggregators), aggregators.add, aggregators.undo, materialized)
        else:
            table = _aggregated(grouped, step.window, step.final, aggregators, materialized)
        results = Results(aggregators, names)
    rows_key = windowed_serde(keys, step.rows.window)
    return Stage(step.rows, names, rows_key, table=table.map_values(results))


def _grouped(stage: Stage, key: KeyOfRow, keys: Serde[Any], same_key: bool) -> Any:
    """The rows by groups."""
    grouped = Grouped.with_(keys, stage.value_serde, _GROUP_BY)
    if stage.table is None:
        stream = stage.of_stream
        return stream.group_by_key(grouped) if same_key else stream.group_by(_group_key(key), grouped)
    names = list(stage.rows.columns)
    pairs = vectorized(
        GroupRow(key, names),
        stage.schema,
        key.expressions,
        f"group rows by {key.definition}; {stage.rows.columns}",
        key_schema=key.schema,
        pairs=True,
    )
    return stage.table.group_by(pairs, grouped)


def _built_in(
    calls: Sequence[Call], grouped: Any, step: Aggregate, materialized: Materialized[Any, Any]
) -> KTable[Any, Any]:
    """The table of the engine's aggregates."""
    packed = frozenset(name for call in calls for name in call.packed)
    states = internal_value_serde([column for call in calls for column in call.columns], packed)
    nested = {call.name: call.nested for call in calls if call.nested}
    if nested:
        states = NestedStatesSerde(states, nested)
    fields = {name: field for call in calls for name, field in call.fields.items()}
    windowed, materialized = _windowed(grouped, step.window, step.final, materialized.with_value_serde(states))
    table: KTable[Any, Any] = windowed.agg(materialized, **fields)
    return table


def _group_key(key: KeyOfRow) -> Callable[[Any, Any], Any]:
    expressions, reads = key.expressions, reads_of(key.expressions)
    return vectorized(GroupKey(key), key.schema, expressions, f"group by {key.definition}", reads=reads)


def _is_key(step: Aggregate, rows: Rows) -> bool:
    """Whether the groups are those of the key that the rows have."""
    grouping = tuple(each.name for _, each in step.group_by if isinstance(each, ColumnRef))
    return rows.window is None and len(grouping) == len(step.group_by) and grouping == rows.key


def _call(
    call: AggregateCall, columns: Mapping[str, Any], context: PlanContext
) -> tuple[str, BoundAggregate, list[GuardedExpression], list[Any]]:
    arguments = [context.compile(each, columns, "Aggregate", call.function.name) for each in call.arguments]
    casts = []
    for each, target in zip(call.arguments, call.function.argument_types, strict=True):
        given = context.type_of(each, columns)
        casts.append(_same if target is None or given == target else caster(given, target))
    return call.name, call.function, arguments, casts


def _aggregated(
    grouped: Any, window: Window | None, final: bool, aggregators: Aggregators, materialized: Materialized[Any, Any]
) -> Any:
    initial, add = Initial(aggregators), aggregators.add
    windowed, materialized = _windowed(grouped, window, final, materialized)
    if window is not None and window.kind is WindowKind.SESSION:
        return windowed.aggregate(initial, add, aggregators.merge, materialized)
    return windowed.aggregate(initial, add, materialized)


def _windowed(
    grouped: Any, window: Window | None, final: bool, materialized: Materialized[Any, Any]
) -> tuple[Any, Materialized[Any, Any]]:
    """Groups by windows, if there are any, and how their rows are kept."""
    if window is None:
        return grouped, materialized
    grace = grace_ms(window)
    windows: SessionWindows | TimeWindows
    if window.kind is WindowKind.SESSION:
        windows = SessionWindows(window.size_ms, grace)
    else:
        windows = TimeWindows(window.size_ms, window.advance_ms or window.size_ms, grace)
    retention = timedelta(milliseconds=max(window.retention_ms or 0, window.size_ms + grace))
    windowed = grouped.windowed_by(windows)
    if final:
        windowed = windowed.emit_strategy(EmitStrategy.on_window_close())
    return windowed, materialized.with_retention(retention)


def _same(value: Any) -> Any:
    return value
