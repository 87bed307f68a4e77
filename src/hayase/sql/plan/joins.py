"""Joins of streams and tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from hayase.core.join_windows import JoinWindows
from hayase.core.records import Windowed
from hayase.dsl.options.joined import Joined
from hayase.dsl.options.materialized import Materialized
from hayase.dsl.options.stream_joined import StreamJoined
from hayase.kernel.node.column_node import KEY
from hayase.sql.analysis.steps import (
    JoinForeignKey,
    JoinStreams,
    JoinStreamTable,
    JoinTables,
    Rows,
    Step,
)
from hayase.sql.analysis.windows import DAY_MS
from hayase.sql.ast.expressions import ColumnRef, Expression
from hayase.sql.ast.queries import JoinKind, Within
from hayase.sql.formats.columns import Column
from hayase.sql.plan.context import PlanContext, Stage, internal_key, rows_schema
from hayase.sql.plan.copartitioning import internal_partitioning
from hayase.sql.plan.eager_join import eager_join
from hayase.sql.plan.frame_expressions import FrameExpressions
from hayase.sql.plan.guarded import GuardedExpression
from hayase.sql.plan.source import same_key
from hayase.sql.plan.stateless import Row
from hayase.sql.plan.vectorize import bare_result, bare_schema, vectorized
from hayase.topology.operators import VectorizedResult


class JoinRows:
    """One row of two: all columns of both sides, and the key; those of a side without a row are null.

    Args:
        left: names of the columns of the side that comes first.
        right: names of those of the other side.
        key_name: of the key's column; `None` where the first side has the key's columns.
        kept: names of the columns of the results; of columns only.
    """

    def __init__(self, left: Sequence[str], right: Sequence[str], key_name: str | None, kept: Sequence[str]) -> None:
        self._kept = list(kept)
        self._left = dict.fromkeys(left)
        self._right = dict.fromkeys(right)
        self._key_name = key_name

    def __call__(self, key: Any, left: Row | None, right: Row | None) -> Any:
        """The joined row."""
        row = {**(self._left if left is None else left), **(self._right if right is None else right)}
        if self._key_name is not None:
            row[self._key_name] = key.key if isinstance(key, Windowed) else key
        return row

    def columns(self, left: pl.DataFrame, right: pl.DataFrame) -> VectorizedResult:
        """The joined rows of two frames."""
        return VectorizedResult(pl.DataFrame([self._column(name, left, right) for name in self._kept]))

    def _column(self, name: str, left: pl.DataFrame, right: pl.DataFrame) -> pl.Series:
        if name == self._key_name:
            return left[KEY].alias(name)
        return right[name] if name in self._right else left[name]


def _joiner(step: Step, first: Stage, second: Stage, key_name: str | None) -> Callable[[Any, Any, Any], Any]:
    """What makes one row of two."""
    columns, left, right = list(step.rows.columns), list(first.rows.columns), list(second.rows.columns)
    known = set(columns) <= {*left, *right, key_name}
    schema = rows_schema(step.rows) if known else None
    return vectorized(JoinRows(left, right, key_name, columns), schema, [], f"join {left} {right} {key_name} {columns}")


class JoinKey:
    """The key by which a row is joined; null if the expression fails."""

    def __init__(self, expression: GuardedExpression) -> None:
        self._expression = expression
        self._in_frames = FrameExpressions([expression])

    def __call__(self, key: Any, row: Row | None) -> Any:
        """The key of a row."""
        return None if row is None else self._expression(row)

    def columns(self, frame: pl.DataFrame) -> VectorizedResult:
        """The keys of the rows of a frame."""
        (keys,), row_by_row = self._in_frames(frame)
        return bare_result(keys, row_by_row)


def _join_key(expression: Expression, stage: Stage, context: PlanContext) -> Callable[[Any, Any], Any]:
    compiled = context.compile(expression, stage.rows.columns, "Join", "JOIN")
    schema, reads = bare_schema(compiled.dtype), frozenset(compiled.reads)
    return vectorized(JoinKey(compiled), schema, [compiled], f"join by {compiled.definition}", reads=reads)


def join_streams(step: JoinStreams, left: Stage, right: Stage, context: PlanContext) -> Stage:
    """A join of two streams; a right join is a left join with the sides swapped."""
    left, right = _by_keys(left, right, step.left_key, step.right_key, context)
    swapped = step.kind is JoinKind.RIGHT
    first, second = (right, left) if swapped else (left, right)
    joiner = _joiner(step, first, second, step.key_name)
    windows = join_windows(step.within)
    kind = {JoinKind.INNER: "inner", JoinKind.FULL: "outer"}.get(step.kind, "left")
    if kind != "inner" and step.within.grace_ms is None:
        stream = eager_join(first, second, joiner, windows, outer=kind == "outer", context=context)
    else:
        join: Callable[..., Any] = {
            "inner": first.of_stream.join,
            "left": first.of_stream.left_join,
            "outer": first.of_stream.outer_join,
        }[kind]
        joined = StreamJoined.with_(first.key_serde, first.value_serde, second.value_serde)
        stream = join(second.of_stream, joiner, windows, joined)
    return Stage(step.rows, (step.key_name,), left.key_serde, stream, partitioning=left.partitioning)


def join_windows(within: Within) -> JoinWindows:
    """The window of a join; without GRACE PERIOD its grace is what is left of a day."""
    grace_ms = max(DAY_MS - 2 * within.before_ms, 0) if within.grace_ms is None else within.grace_ms
    return JoinWindows(within.before_ms, within.after_ms, grace_ms)


def join_stream_table(step: JoinStreamTable, left: Stage, right: Stage, context: PlanContext) -> Stage:
    """A stream with the rows of a table at its key."""
    left = _like(left, step.left_key, right, context)
    joiner = _joiner(step, left, right, step.key_name)
    joined = Joined.with_(left.key_serde, left.value_serde, right.value_serde)
    stream = left.of_stream
    if step.kind is JoinKind.LEFT:
        result = stream.left_join(right.of_table, joiner, joined)
    else:
        result = stream.join(right.of_table, joiner, joined)
    return Stage(step.rows, (step.key_name,), left.key_serde, result, partitioning=left.partitioning)


def join_tables(step: JoinTables, left: Stage, right: Stage, context: PlanContext) -> Stage:
    """Two tables by their keys; a right join is a left join with the sides swapped."""
    swapped = step.kind is JoinKind.RIGHT
    first, second = (right, left) if swapped else (left, right)
    joiner = _joiner(step, first, second, step.key_name)
    joins: dict[JoinKind, Callable[..., Any]] = {
        JoinKind.INNER: first.of_table.join,
        JoinKind.FULL: first.of_table.outer_join,
    }
    join = joins.get(step.kind, first.of_table.left_join)
    table = join(second.of_table, joiner)
    return Stage(step.rows, (step.key_name,), left.key_serde, table=table, partitioning=left.partitioning)


def join_foreign_key(step: JoinForeignKey, left: Stage, right: Stage, context: PlanContext) -> Stage:
    """A table with the rows of another one that an expression names."""
    extractor = _join_key(step.left_key, left, context)
    joiner = _joiner(step, left, right, None)
    materialized = Materialized.with_(left.key_serde, replace(left, rows=step.rows).value_serde)
    join: Callable[..., Any] = left.of_table.left_join if step.kind is JoinKind.LEFT else left.of_table.join
    table = join(right.of_table, extractor, joiner, None, materialized)
    return Stage(step.rows, left.key_fields, left.key_serde, table=table, partitioning=left.partitioning)


def _by_keys(
    left: Stage, right: Stage, left_key: Expression, right_key: Expression, context: PlanContext
) -> tuple[Stage, Stage]:
    """Both streams under the key of the join, partitioned alike: a side that is so already stays as it is."""
    if _has_key(left.rows, left_key) and left.partitioning is not None:
        return left, _like(right, right_key, left, context)
    if _has_key(right.rows, right_key) and right.partitioning is not None:
        return _like(left, left_key, right, context), right
    first = _rekeyed(left, left_key, context)
    return first, _like(right, right_key, first, context)


def _has_key(rows: Rows, key: Expression) -> bool:
    return isinstance(key, ColumnRef) and rows.key == (key.name,)


def _like(stage: Stage, key: Expression, other: Stage, context: PlanContext) -> Stage:
    """The stream under a key, partitioned as the other side is."""
    same = _has_key(stage.rows, key) and stage.partitioning == other.partitioning
    if same and stage.partitioning is not None:
        return replace(stage, key_serde=other.key_serde)
    return replace(_rekeyed(stage, key, context), key_serde=other.key_serde, partitioning=other.partitioning)


def _rekeyed(stage: Stage, key: Expression, context: PlanContext) -> Stage:
    """The stream under a key, to be partitioned by it."""
    type_ = context.type_of(key, stage.rows.columns)
    assert type_ is not None
    if _has_key(stage.rows, key):
        selected, window = stage.of_stream.select_key(same_key(stage)), stage.rows.window
    else:
        selected, window = stage.of_stream.select_key(_join_key(key, stage, context)), None
    serde = internal_key((Column("KEY", type_),), window)
    return replace(stage, stream=selected, key_serde=serde, partitioning=internal_partitioning((type_,), window))
