"""Aggregations of streams and tables, with and without windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from hayase.core.records import Windowed
from hayase.core.windows import EmitStrategy, SessionWindows, TimeWindows
from hayase.dsl.options.materialized import Materialized
from hayase.dsl.options.options import Grouped
from hayase.sql.analysis.steps import Aggregate, AggregateCall, Rows
from hayase.sql.analysis.windows import grace_ms
from hayase.sql.ast.expressions import ColumnRef
from hayase.sql.ast.queries import Window, WindowKind
from hayase.sql.catalog.sources import WINDOWEND, WINDOWSTART
from hayase.sql.formats.columns import Column
from hayase.sql.formats.internal import internal_value_serde
from hayase.sql.functions.bound import BoundAggregate
from hayase.sql.plan.context import GuardedExpression, PlanContext, Stage, internal_key, windowed_serde
from hayase.sql.plan.stateless import KeyOfRow, Row
from hayase.sql.types.casts import caster

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


class GroupRow:
    """The group of a table's row, and the row."""

    def __init__(self, key: KeyOfRow) -> None:
        self._key = key

    def __call__(self, key: Any, row: Row | None) -> tuple[Any, Row | None]:
        """The pair."""
        return self._key(row), row


def aggregate(step: Aggregate, stage: Stage, context: PlanContext) -> Stage:
    """The table of groups with their results."""
    columns = stage.rows.columns
    aggregators = Aggregators([_call(call, columns, context) for call in step.aggregates])
    states = internal_value_serde([Column(call.name, call.function.state_type) for call in step.aggregates])
    names = tuple(name for name, _ in step.group_by)
    keys = internal_key(tuple(Column(name, step.rows.columns[name]) for name in names))
    parts = [(name, context.compile(each, columns, "Group By", "GROUP BY")) for name, each in step.group_by]
    grouped = Grouped.with_(keys, stage.value_serde, _GROUP_BY)
    materialized = Materialized.as_(_STORE).with_key_serde(keys).with_value_serde(states)
    key = KeyOfRow(parts, whole=True)
    if stage.table is not None:
        table = stage.table.group_by(GroupRow(key), grouped).aggregate(
            Initial(aggregators), aggregators.add, aggregators.undo, materialized
        )
    else:
        stream = stage.of_stream
        same_key = _is_key(step, stage.rows) and stage.key_fields == names
        by_key = stream.group_by_key(grouped) if same_key else stream.group_by(GroupKey(key), grouped)
        table = _aggregated(by_key, step.window, step.final, aggregators, materialized)
    rows_key = windowed_serde(keys, step.rows.window)
    return Stage(step.rows, names, rows_key, table=table.map_values(Results(aggregators, names)))


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
    if window is None:
        return grouped.aggregate(initial, add, materialized)
    grace = grace_ms(window)
    windows: SessionWindows | TimeWindows
    if window.kind is WindowKind.SESSION:
        windows = SessionWindows(window.size_ms, grace)
        least_ms = window.size_ms + grace
    else:
        windows = TimeWindows(window.size_ms, window.advance_ms or window.size_ms, grace)
        least_ms = window.size_ms + grace
    retention = timedelta(milliseconds=max(window.retention_ms or 0, least_ms))
    materialized = materialized.with_retention(retention)
    windowed = grouped.windowed_by(windows)
    if final:
        windowed = windowed.emit_strategy(EmitStrategy.on_window_close())
    if window.kind is WindowKind.SESSION:
        return windowed.aggregate(initial, add, aggregators.merge, materialized)
    return windowed.aggregate(initial, add, materialized)


def _same(value: Any) -> Any:
    return value
