"""Filters, new keys and table functions: steps without state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import polars as pl

from hayase.core.records import Windowed
from hayase.kernel.node.column_node import KEY, NULL
from hayase.serde.protocol import BARE_FIELD, Schema
from hayase.sql.analysis.rewrite import column_refs
from hayase.sql.analysis.steps import Filter, FlatMap, PartitionBy, Rows
from hayase.sql.ast.expressions import ColumnRef
from hayase.sql.ast.text import expression_text
from hayase.sql.formats.columns import column_dtype, is_packed
from hayase.sql.formats.packing import packed_form
from hayase.sql.formats.row_columns import key_column_schema, packed_series
from hayase.sql.plan.context import PlanContext, Stage, internal_key, rows_schema
from hayase.sql.plan.copartitioning import internal_partitioning
from hayase.sql.plan.frame_expressions import FrameExpressions, rows_of
from hayase.sql.plan.guarded import GuardedExpression
from hayase.sql.plan.processing_log import log_failure
from hayase.sql.plan.vectorize import bare_result, bare_schema, fields_result, reads_of, vectorized
from hayase.sql.types.casts import caster
from hayase.sql.types.sql_types import SqlType
from hayase.topology.operators import ROW, VectorizedResult

Row = dict[str, Any]


class RowPredicate:
    """A predicate over rows; what fails, is null or has no row is not true.

    Args:
        predicate: compiled.
    """

    def __init__(self, predicate: GuardedExpression) -> None:
        self._predicate = predicate
        self._in_frames = FrameExpressions([predicate])

    def __call__(self, key: Any, row: Row | None) -> bool:
        """Whether it holds for a row."""
        return row is not None and self._predicate(row) is True

    def columns(self, frame: pl.DataFrame) -> VectorizedResult:
        """Whether it holds for each row."""
        (holds,), row_by_row = self._in_frames(frame)
        return bare_result(holds.cast(pl.Boolean), row_by_row)


def filter_rows(step: Filter, stage: Stage, context: PlanContext) -> Stage:
    """The rows for which the predicate holds; of a table, the others are deleted."""
    compiled = context.compile(step.predicate, stage.rows.columns, "Predicate", step.clause)
    predicate = vectorized(
        RowPredicate(compiled),
        bare_schema(pl.Boolean()),
        [compiled],
        f"filter {compiled.definition}",
        reads=frozenset(compiled.reads),
    )
    if stage.table is not None:
        return replace(stage, table=stage.table.filter(predicate))
    return replace(stage, stream=stage.of_stream.filter(predicate))


class KeyOfRow:
    """The key that expressions give for a row.

    Args:
        parts: name and expression of each column of the key.
        whole: a key of which a column is null is null as a whole, as groups need it.
    """

    def __init__(self, parts: Sequence[tuple[str, GuardedExpression]], *, whole: bool) -> None:
        self._parts = list(parts)
        self._whole = whole
        self._in_frames = FrameExpressions([expression for _, expression in parts])

    def __call__(self, row: Row | None) -> Any:
        """The key: a bare value, or a dict of several columns."""
        if row is None or not self._parts:
            return None
        values = {name: expression(row) for name, expression in self._parts}
        if self._whole and any(value is None for value in values.values()):
            return None
        return next(iter(values.values())) if len(values) == 1 else values

    def columns(self, frame: pl.DataFrame, present: pl.Series | None = None) -> VectorizedResult:
        """The keys of rows: bare values, or a field for each column; `present` as in `FrameExpressions`."""
        values, row_by_row = self._in_frames(frame, present)
        if len(values) == 1:
            return bare_result(values[0], row_by_row)
        null = frame[NULL]
        if self._whole:
            null = pl.select(pl.any_horizontal(null, *(value.is_null() for value in values))).to_series()
        elif present is not None:
            null = ~present
        return fields_result([name for name, _ in self._parts], values, null, row_by_row)

    @property
    def schema(self) -> Schema | None:
        """The schema of the keys; `None` if a column has no column form."""
        if any(expression.packed is not None for _, expression in self._parts):
            return None
        dtypes = [(name, expression.dtype) for name, expression in self._parts]
        if len(dtypes) == 1:
            return bare_schema(dtypes[0][1])
        fields = tuple((name, dtype) for name, dtype in dtypes if dtype is not None)
        return Schema(fields, python_type=dict) if fields and len(fields) == len(dtypes) else None

    @property
    def expressions(self) -> list[GuardedExpression]:
        """Of the columns."""
        return [expression for _, expression in self._parts]

    @property
    def definition(self) -> str:
        """What it computes, as text that is the same in every process."""
        return f"{self._whole} " + ", ".join(f"{name}: {expression.definition}" for name, expression in self._parts)


class Rekey:
    """New keys for rows, which keep them as columns, too.

    Args:
        key: of a row.
        names: of the new key's columns.
        of_keys: names of those that need columns of the old key only.
        stage: the rows before.
        kept: names of the columns of the results.
    """

    def __init__(
        self, key: KeyOfRow, names: Sequence[str], of_keys: set[str], stage: Stage, kept: Sequence[str]
    ) -> None:
        self._kept = list(kept)
        self._of_keys = of_keys
        self._key = key
        self._names = tuple(names)
        self._columns = dict.fromkeys(stage.rows.columns)
        self._before = list(zip(stage.key_fields, stage.rows.key, strict=True))

    def __call__(self, key: Any, row: Row | None) -> Any:
        """The pair of the new key and the row with it."""
        if row is None:
            return self._without_value(self._of_key(key)), None
        new = self._key(row)
        if not self._names:
            return new, row
        if len(self._names) == 1:
            return new, {**row, self._names[0]: new}
        return new, {**row, **new}

    def _without_value(self, row: Row) -> Any:
        """The key of a record without a value: what needs columns of the value is null."""
        new = self._key(row)
        if len(self._names) == 1:
            return new if self._names[0] in self._of_keys else None
        return None if new is None else {name: new[name] if name in self._of_keys else None for name in new}

    def columns(self, frame: pl.DataFrame) -> VectorizedResult:
        """The new keys and the rows with them."""
        null = frame[NULL]
        names = self._names
        if not names:
            keys = pl.Series(KEY, [None] * frame.height, dtype=pl.String)
            return VectorizedResult(frame.select(*self._kept, NULL).with_columns(keys))
        if not null.any():
            made = self._key.columns(frame)
            new = self._named(made.frame)
        else:
            all_rows = pl.repeat(True, frame.height, dtype=pl.Boolean, eager=True)
            made = self._key.columns(self._with_old_keys(frame), all_rows)
            gone = pl.when(null).then(None)
            new = self._named(made.frame).with_columns(
                gone.otherwise(pl.col(name)).alias(name) for name in names if name not in self._of_keys
            )
        keys = new.to_series() if len(names) == 1 else new.to_struct()
        values = [_null_where(null, new[name]) if name in names else frame[name] for name in self._kept]
        return VectorizedResult(pl.DataFrame([*values, null, keys.alias(KEY)]), made.row_by_row)

    def _named(self, keys: pl.DataFrame) -> pl.DataFrame:
        """Keys with the names of their columns."""
        return keys.select(pl.col(BARE_FIELD).alias(self._names[0])) if len(self._names) == 1 else keys.drop(NULL)

    def _with_old_keys(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows, those without a value with the columns of the old key."""
        bare = len(self._before) == 1
        return frame.with_columns(
            pl.when(NULL).then(pl.col(KEY) if bare else pl.col(KEY).struct.field(field)).otherwise(name).alias(name)
            for field, name in self._before
        )

    def _of_key(self, key: Any) -> Row:
        if isinstance(key, Windowed):
            key = key.key
        if len(self._before) == 1:
            return {**self._columns, self._before[0][1]: key}
        return {**self._columns, **{name: None if key is None else key[field] for field, name in self._before}}


def partition_by(step: PartitionBy, stage: Stage, context: PlanContext) -> Stage:
    """The stream under new keys; a key whose expression fails is null."""
    columns = stage.rows.columns
    parts = [
        (name, context.compile(expression, columns, "Partition By", "PARTITION BY"))
        for name, expression in step.expressions
    ]
    names = tuple(name for name, _ in parts)
    unchanged = [each for _, each in step.expressions if isinstance(each, ColumnRef)]
    if names and names == stage.rows.key and len(unchanged) == len(names):
        return replace(stage, rows=step.rows)
    of_keys = {
        name for name, each in step.expressions if {ref.name for ref in column_refs(each)} <= set(stage.rows.key)
    }
    key = KeyOfRow(parts, whole=False)
    rekey = vectorized(
        Rekey(key, names, of_keys, stage, list(step.rows.columns)),
        rows_schema(step.rows) if _has_columns(stage, step.rows, names) else None,
        key.expressions,
        f"partition by {key.definition}; {step.rows.columns}",
        key_schema=key.schema if names else key_column_schema(()),
        pairs=True,
    )
    stream = stage.of_stream.map(rekey)
    types = tuple(column.type for column in step.rows.key_columns)
    keys = internal_key(step.rows.key_columns)
    return Stage(step.rows, names, keys, stream, partitioning=internal_partitioning(types))


def _has_columns(stage: Stage, rows: Rows, names: Sequence[str]) -> bool:
    """Whether the results have columns of the rows before and of the new key only."""
    return stage.rows.window is None and set(rows.columns) <= {*stage.rows.columns, *names}


def _null_where(null: pl.Series, values: pl.Series) -> pl.Series:
    return pl.select(pl.when(~null).then(values).alias(values.name)).to_series()


class Zip:
    """A row for each result of table functions, side by side; the shorter lists end in nulls.

    Args:
        calls: name, function and arguments of each.
        kept: names of the columns of the results.
    """

    def __init__(self, calls: Sequence[tuple[str, TableCall]], kept: Sequence[str]) -> None:
        self._calls = list(calls)
        self._kept = list(kept)
        arguments = [each for _, call in calls for each in call.arguments]
        self._reads = sorted(reads_of(arguments))
        self._packed = {name: form for each in arguments for name, form in each.packed_reads.items()}

    def __call__(self, key: Any, row: Row | None) -> list[Row]:
        """The rows; none if a function fails."""
        if row is None:
            return []
        names = [name for name, _ in self._calls]
        return [{**row, **dict(zip(names, results, strict=True))} for results in self._results(row)]

    def _results(self, row: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """The results of the functions, side by side."""
        try:
            lists = [call(row) for _, call in self._calls]
        except Exception as error:  # a function of a user may raise anything
            log_failure("table functions", ", ".join(name for name, _ in self._calls), error, row)
            return []
        return list(zip_longest(*lists))

    def columns(self, frame: pl.DataFrame) -> VectorizedResult:
        """The rows of each row, numbered by `__row`; functions are called for each, with the columns they need."""
        present = frame if not frame[NULL].any() else frame.filter(~frame[NULL])
        at = (~frame[NULL]).arg_true().to_list()
        made: list[tuple[Any, ...]] = []
        origins: list[int] = []
        for position, row in zip(at, rows_of(present, self._reads, self._packed), strict=True):
            for results in self._results(row):
                made.append(results)
                origins.append(position)
        row_numbers = pl.Series(ROW, origins, dtype=pl.Int64)
        columns = zip(*made, strict=True) if made else [()] * len(self._calls)
        lists = [
            packed_series(name, list(values), call.dtype, call.packed)
            for (name, call), values in zip(self._calls, columns, strict=True)
        ]
        kept = [name for name in self._kept if name not in dict(self._calls)]
        rows = frame.select(pl.col(kept).gather(row_numbers)) if kept else pl.DataFrame(height=len(origins))
        null = pl.repeat(False, len(origins), dtype=pl.Boolean, eager=True).alias(NULL)
        return VectorizedResult(rows.with_columns(*lists, null, row_numbers))


class TableCall:
    """A call of a table function.

    Args:
        function: that gives a list, or null for none.
        arguments: compiled.
        casts: what makes each argument the type that the function takes.
        null_aware: it is called with nulls, too.
        type_: of the results.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: Sequence[GuardedExpression],
        casts: Sequence[Callable[[Any], Any]],
        null_aware: bool,
        type_: SqlType,
    ) -> None:
        self.arguments = list(arguments)
        self.dtype = column_dtype(type_)
        self.packed = packed_form(type_) if is_packed(type_) else None
        self._function = function
        self._arguments = list(zip(arguments, casts, strict=True))
        self._null_aware = null_aware

    def __call__(self, row: Mapping[str, Any]) -> list[Any]:
        """The results for a row."""
        values = [cast(argument(row)) for argument, cast in self._arguments]
        if not self._null_aware and any(value is None for value in values):
            return []
        return self._function(*values) or []


def flat_map(step: FlatMap, stage: Stage, context: PlanContext) -> Stage:
    """The rows that table functions make."""
    columns = stage.rows.columns
    calls: list[tuple[str, TableCall]] = []
    pure: list[bool] = []
    for name, call in step.calls:
        types = [context.type_of(argument, columns) for argument in call.arguments]
        bound = context.functions.table(call.name, types)
        arguments = [context.compile(each, columns, "Function", "table function") for each in call.arguments]
        casts = [
            caster(given, target) if isinstance(target, SqlType) and given != target else _same
            for given, target in zip(types, bound.argument_types, strict=True)
        ]
        pure.append(bound.pure)
        calls.append((name, TableCall(bound.function, arguments, casts, bound.null_aware, step.rows.columns[name])))
    names = [name for name, _ in calls]
    mapper = vectorized(
        Zip(calls, list(step.rows.columns)),
        rows_schema(step.rows) if set(step.rows.columns) <= {*columns, *names} else None,
        [argument for _, call in calls for argument in call.arguments],
        f"table functions {[(name, expression_text(call)) for name, call in step.calls]}; {step.rows.columns}",
        pure=all(pure),
    )
    return replace(stage, rows=step.rows, stream=stage.of_stream.flat_map_values(mapper))


def _same(value: Any) -> Any:
    return value
