"""Filters, new keys and table functions: steps without state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hayase.core.records import Windowed
from hayase.sql.analysis.rewrite import column_refs
from hayase.sql.analysis.steps import Filter, FlatMap, PartitionBy
from hayase.sql.ast.expressions import ColumnRef
from hayase.sql.plan.context import GuardedExpression, PlanContext, Stage, internal_key
from hayase.sql.plan.copartitioning import internal_partitioning
from hayase.sql.plan.processing_log import log_failure
from hayase.sql.types.casts import caster
from hayase.sql.types.sql_types import SqlType

Row = dict[str, Any]


class RowPredicate:
    """A predicate over rows; what fails, is null or has no row is not true.

    Args:
        predicate: compiled.
    """

    def __init__(self, predicate: GuardedExpression) -> None:
        self._predicate = predicate

    def __call__(self, key: Any, row: Row | None) -> bool:
        """Whether it holds for a row."""
        return row is not None and self._predicate(row) is True


def filter_rows(step: Filter, stage: Stage, context: PlanContext) -> Stage:
    """The rows for which the predicate holds; of a table, the others are deleted."""
    compiled = context.compile(step.predicate, stage.rows.columns, "Predicate", step.clause)
    predicate = RowPredicate(compiled)
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

    def __call__(self, row: Row | None) -> Any:
        """The key: a bare value, or a dict of several columns."""
        if row is None or not self._parts:
            return None
        values = {name: expression(row) for name, expression in self._parts}
        if self._whole and any(value is None for value in values.values()):
            return None
        return next(iter(values.values())) if len(values) == 1 else values


class Rekey:
    """New keys for rows, which keep them as columns, too.

    Args:
        key: of a row.
        names: of the new key's columns.
        of_keys: names of those that need columns of the old key only.
        stage: the rows before.
    """

    def __init__(self, key: KeyOfRow, names: Sequence[str], of_keys: set[str], stage: Stage) -> None:
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
    stream = stage.of_stream.map(Rekey(KeyOfRow(parts, whole=False), names, of_keys, stage))
    types = tuple(column.type for column in step.rows.key_columns)
    keys = internal_key(step.rows.key_columns)
    return Stage(step.rows, names, keys, stream, partitioning=internal_partitioning(types))


class Zip:
    """A row for each result of table functions, side by side; the shorter lists end in nulls.

    Args:
        calls: name, function and arguments of each.
    """

    def __init__(self, calls: Sequence[tuple[str, TableCall]]) -> None:
        self._calls = list(calls)

    def __call__(self, key: Any, row: Row | None) -> list[Row]:
        """The rows; none if a function fails."""
        if row is None:
            return []
        try:
            lists = [(name, call(row)) for name, call in self._calls]
        except Exception as error:  # a function of a user may raise anything
            log_failure("table functions", ", ".join(name for name, _ in self._calls), error, row)
            return []
        count = max(len(items) for _, items in lists)
        return [
            {**row, **{name: items[index] if index < len(items) else None for name, items in lists}}
            for index in range(count)
        ]


class TableCall:
    """A call of a table function.

    Args:
        function: that gives a list, or null for none.
        arguments: compiled.
        casts: what makes each argument the type that the function takes.
        null_aware: it is called with nulls, too.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: Sequence[GuardedExpression],
        casts: Sequence[Callable[[Any], Any]],
        null_aware: bool,
    ) -> None:
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
    for name, call in step.calls:
        types = [context.type_of(argument, columns) for argument in call.arguments]
        bound = context.functions.table(call.name, types)
        arguments = [context.compile(each, columns, "Function", "table function") for each in call.arguments]
        casts = [
            caster(given, target) if isinstance(target, SqlType) and given != target else _same
            for given, target in zip(types, bound.argument_types, strict=True)
        ]
        calls.append((name, TableCall(bound.function, arguments, casts, bound.null_aware)))
    return replace(stage, rows=step.rows, stream=stage.of_stream.flat_map_values(Zip(calls)))


def _same(value: Any) -> Any:
    return value
