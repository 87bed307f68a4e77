"""Aggregate functions as aggregates of the engine, so that groups are computed in columns: its own ones, and loops.

They keep in the store what the functions keep, and give the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from hayase.core.records import Windowed
from hayase.dsl.options.aggregates import Aggregate as BuiltIn
from hayase.kernel.node.column_node import KEY, NULL, WINDOW_END, WINDOW_START
from hayase.sql.analysis.steps import Aggregate, AggregateCall
from hayase.sql.ast.expressions import ColumnRef, Expression
from hayase.sql.ast.text import expression_text
from hayase.sql.catalog.sources import WINDOWEND, WINDOWSTART
from hayase.sql.expressions.column_operators import wrapped as wrapped_column
from hayase.sql.formats.columns import Column, is_packed
from hayase.sql.formats.packing import packed_form
from hayase.sql.formats.row_columns import can_be_a_column
from hayase.sql.functions.aggregate.counting import Count, CountRows
from hayase.sql.functions.aggregate.extremes import Max, Min
from hayase.sql.functions.aggregate.sums import (
    AvgBigint,
    AvgDouble,
    AvgInt,
    SumBigint,
    SumDouble,
    SumInt,
)
from hayase.sql.plan.context import PlanContext, Stage, rows_schema
from hayase.sql.plan.frame_expressions import FrameExpressions
from hayase.sql.plan.guarded import GuardedExpression
from hayase.sql.plan.looped_aggregates import FunctionLoop, LoopedCall, LoopInput
from hayase.sql.plan.vectorize import vectorized
from hayase.sql.types.java_numbers import wrapped
from hayase.sql.types.sql_types import BIGINT, DATE, DOUBLE, INTEGER, TIME, TIMESTAMP, SqlType, StructType
from hayase.topology.operators import VectorizedResult

State = Mapping[str, Any]
_ORDERED = (INTEGER, BIGINT, DATE, TIME, TIMESTAMP)
"""Types whose order is that of whole numbers. Java's order of texts, and what it makes of zeros and NaN, is another."""


@dataclass(frozen=True)
class BuiltInCall:
    """A call of an aggregate function as fields of the engine's aggregate.

    Attributes:
        name: of the column of its results.
        fields: the engine's aggregates by the names that they have in the store.
        columns: of the store.
        result: of the stored fields.
        column: the same over columns.
        packed: names of the stored columns that are packed.
        nested: fields of the STRUCT that is stored with the names that they have as fields of the aggregate.
    """

    name: str
    fields: Mapping[str, BuiltIn]
    columns: Sequence[Column]
    result: Callable[[State], Any]
    column: pl.Expr
    packed: frozenset[str] = frozenset()
    nested: Mapping[str, str] = field(default_factory=dict)

    @property
    def definition(self) -> str:
        """What it computes, as text."""
        return f"{self.name} {self.result}"


Call = BuiltInCall | LoopedCall
"""A call as fields of the engine's aggregate."""


def built_in_call(call: AggregateCall, value: pl.Expr | None) -> BuiltInCall | None:
    """A call as fields of the engine's aggregate; `None` if the engine does not have it.

    Args:
        call: the call.
        value: its argument, of the type that the function takes; `None` if it has none.
    """
    name, function = call.name, call.function.create()
    if isinstance(function, CountRows | Count):
        return _kept(name, BuiltIn("count", value), BIGINT)
    if value is None:
        return None
    match function:
        case SumBigint():
            return _kept(name, BuiltIn("sum", value, wraps=True), BIGINT)
        case SumDouble():
            return BuiltInCall(name, {name: BuiltIn("sum", value)}, [Column(name, DOUBLE)], _Double(name), pl.col(name))
        case SumInt():
            total = BuiltIn("sum", value, wraps=True)
            column = wrapped_column(pl.col(name)).cast(pl.Int32)
            return BuiltInCall(name, {name: total}, [Column(name, BIGINT)], _Wrapped(name), column)
        case AvgInt() | AvgBigint() | AvgDouble():
            return _mean(name, value, function.item)
        case Min() | Max() if function.state_type in _ORDERED:
            extreme = BuiltIn("min" if isinstance(function, Min) else "max", value)
            return _kept(name, extreme, function.state_type)
    return None


def _kept(name: str, field: BuiltIn, type_: SqlType) -> BuiltInCall:
    return BuiltInCall(name, {name: field}, [Column(name, type_)], _Kept(name), pl.col(name))


def _mean(name: str, value: pl.Expr, item: SqlType) -> BuiltInCall:
    total, count = f"{name}_SUM", f"{name}_COUNT"
    fields = {total: BuiltIn("sum", value, wraps=True), count: BuiltIn("count", value)}
    state = StructType((("SUM", DOUBLE if item == DOUBLE else BIGINT), ("COUNT", BIGINT)))
    summed = wrapped_column(pl.col(total)) if item == INTEGER else pl.col(total)
    counted = pl.col(count).cast(pl.Float64)
    mean = pl.when(pl.col(count) == 0).then(0.0).otherwise(summed.cast(pl.Float64) / counted)
    nested = {"SUM": total, "COUNT": count}
    return BuiltInCall(name, fields, [Column(name, state)], _Mean(total, count, item), mean, nested=nested)


class ArgumentsOfRow:
    """Rows with the arguments of aggregate functions as columns.

    Args:
        arguments: name and expression of each.
        names: of the columns of the rows before.
    """

    def __init__(self, arguments: Sequence[tuple[str, GuardedExpression]], names: Sequence[str]) -> None:
        self._arguments = list(arguments)
        self._names = list(names)
        self._in_frames = FrameExpressions([expression for _, expression in arguments])

    def __call__(self, key: Any, row: dict[str, Any] | None) -> dict[str, Any] | None:
        """A row with them."""
        return None if row is None else {**row, **{name: argument(row) for name, argument in self._arguments}}

    def columns(self, frame: pl.DataFrame) -> VectorizedResult:
        """The rows of a frame with them."""
        values, row_by_row = self._in_frames(frame)
        named = [value.alias(name) for (name, _), value in zip(self._arguments, values, strict=True)]
        return VectorizedResult(frame.select(*self._names, NULL).with_columns(named), row_by_row)


@dataclass(frozen=True)
class _Argument:
    """An argument of a call: a column, which is computed first if there is an expression for it."""

    name: str
    type: SqlType
    expression: GuardedExpression | None


def engine_calls(step: Aggregate, stage: Stage, context: PlanContext) -> tuple[Stage, list[Call]] | None:
    """All calls of a step, and the rows with their arguments; `None` if an argument cannot be a column."""
    arguments: list[list[_Argument]] = []
    for call in step.aggregates:
        made = [
            _argument(each, f"{_ARGUMENT}{len(arguments)}_{at}", call, stage, context)
            for at, each in enumerate(call.arguments)
        ]
        present = [each for each in made if each is not None]
        if len(present) < len(made) or (stage.table is not None and not call.function.can_undo):
            return None
        arguments.append(present)
    built_in = [_built_in(call, given) for call, given in zip(step.aggregates, arguments, strict=True)]
    calls: list[Call] = []
    for call, own, given in zip(step.aggregates, built_in, arguments, strict=True):
        if own is not None:
            calls.append(own)
        elif given and call.function.return_type is not None:
            calls.append(_looped(call, given))
        else:
            return None
    return _with_arguments(stage, [each for given in arguments for each in given]), calls


_ARGUMENT = "KSQL_AGG_ARGUMENT_"


def _argument(
    argument: Expression, name: str, call: AggregateCall, stage: Stage, context: PlanContext
) -> _Argument | None:
    columns = stage.rows.columns
    type_ = context.type_of(argument, columns)
    if type_ is None:
        return None
    if isinstance(argument, ColumnRef):
        return _Argument(argument.name, type_, None) if can_be_a_column(argument.name) else None
    return _Argument(name, type_, context.compile(argument, columns, "Aggregate", call.function.name))


def _built_in(call: AggregateCall, given: Sequence[_Argument]) -> BuiltInCall | None:
    """A call as an aggregate that the engine has, if its argument has a type of Polars' own."""
    if not given:
        return built_in_call(call, None)
    (target,) = call.function.argument_types if len(given) == 1 else (None,)
    argument = given[0]
    if len(given) > 1 or target not in (None, argument.type) or is_packed(argument.type):
        return None
    return built_in_call(call, pl.col(argument.name))


def _looped(call: AggregateCall, given: Sequence[_Argument]) -> LoopedCall:
    inputs = [
        LoopInput(each.name, each.type, target, packed_form(each.type) if is_packed(each.type) else None)
        for each, target in zip(given, call.function.argument_types, strict=True)
    ]
    text = f"{call.function.name}({', '.join(map(expression_text, call.arguments))})"
    assert call.function.return_type is not None
    loop = FunctionLoop(call.function, inputs, text)
    return LoopedCall(call.name, loop, call.function.state_type, call.function.return_type)


def _with_arguments(stage: Stage, arguments: Sequence[_Argument]) -> Stage:
    named = [(each.name, each.expression) for each in arguments if each.expression is not None]
    if not named:
        return stage
    types = {each.name: each.type for each in arguments if each.expression is not None}
    rows = replace(stage.rows, columns={**stage.rows.columns, **types})
    mapper = vectorized(
        ArgumentsOfRow(named, list(stage.rows.columns)),
        rows_schema(rows),
        [expression for _, expression in named],
        f"arguments {[(name, expression.definition) for name, expression in named]} of {stage.rows.columns}",
    )
    if stage.table is not None:
        return replace(stage, rows=rows, table=stage.table.map_values(mapper))
    return replace(stage, rows=rows, stream=stage.of_stream.map_values(mapper))


@dataclass(frozen=True)
class _Kept:
    name: str

    def __call__(self, state: State) -> Any:
        return state[self.name]


@dataclass(frozen=True)
class _Double:
    """A sum of doubles: of none it is 0, where the type of the values is not known."""

    name: str

    def __call__(self, state: State) -> float:
        return float(state[self.name])


@dataclass(frozen=True)
class _Wrapped:
    name: str

    def __call__(self, state: State) -> int:
        return wrapped(state[self.name], 32)


@dataclass(frozen=True)
class _Mean:
    total: str
    count: str
    item: SqlType

    def __call__(self, state: State) -> float:
        total = wrapped(state[self.total], 32) if self.item == INTEGER else state[self.total]
        return float(total) / float(state[self.count]) if state[self.count] else 0.0


class BuiltInResults:
    """The rows that groups are: key, results, window bounds.

    Args:
        calls: of the step.
        key: names of the key's columns.
        kept: names of the columns of the results; in columns only.
    """

    def __init__(self, calls: Sequence[Call], key: Sequence[str], kept: Sequence[str]) -> None:
        self._calls = list(calls)
        self._key = tuple(key)
        self._kept = list(kept)

    def __call__(self, key: Any, state: State) -> dict[str, Any]:
        """The row of a group."""
        row: dict[str, Any] = {}
        if isinstance(key, Windowed):
            row[WINDOWSTART], row[WINDOWEND] = key.window
            key = key.key
        if len(self._key) == 1:
            row[self._key[0]] = key
        else:
            row.update({name: key[name] for name in self._key})
        for call in self._calls:
            row[call.name] = call.result(state)
        return row

    def columns(self, frame: pl.DataFrame) -> VectorizedResult:
        """The rows of groups."""
        made = {call.name: call.column for call in self._calls if isinstance(call, BuiltInCall)}
        bare = len(self._key) == 1
        made |= {name: pl.col(KEY) if bare else pl.col(KEY).struct.field(name) for name in self._key}
        if WINDOW_START in frame.columns:
            made |= {WINDOWSTART: pl.col(WINDOW_START), WINDOWEND: pl.col(WINDOW_END)}
        looped = [
            call.values(frame) for call in self._calls if isinstance(call, LoopedCall) and call.name in self._kept
        ]
        own = frame.select(pl.col(NULL), *(made[name].alias(name) for name in self._kept if name in made))
        return VectorizedResult(own.with_columns(looped).select(NULL, *self._kept))
