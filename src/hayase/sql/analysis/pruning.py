"""Plans without the columns that nothing needs, so that stores and shuffles do not carry them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hayase.sql.analysis.rewrite import column_refs
from hayase.sql.analysis.steps import (
    Aggregate,
    Filter,
    FlatMap,
    JoinForeignKey,
    JoinStreams,
    JoinStreamTable,
    JoinTables,
    PartitionBy,
    Project,
    ReadSource,
    Rows,
    Step,
)
from hayase.sql.ast.expressions import Expression
from hayase.sql.catalog.sources import ROWTIME

_Join = JoinForeignKey | JoinStreams | JoinStreamTable | JoinTables


def pruned(root: Project) -> Project:
    """The plan with the same result, each of whose steps gives only columns that a later one needs, and its key."""
    needed = _used(expression for _, expression in root.values) | {column for _, column in root.key}
    return replace(root, input=_prune(root.input, needed))


def _prune(step: Step, needed: set[str]) -> Step:
    """The step with only the needed columns and those of the key."""
    needed = needed | set(step.rows.key)
    match step:
        case ReadSource():
            if not needed & set(step.rows.columns) and not step.rows.is_table and ROWTIME in step.names:
                needed = {step.names[ROWTIME]}  # rows without columns have no column form
            names = {column: name for column, name in step.names.items() if name in needed}
            return replace(step, rows=_only(step.rows, needed), names=names)
        case Filter():
            return _pruned_filter(step, needed)
        case PartitionBy():
            before = _used(expression for _, expression in step.expressions) | needed
        case FlatMap():
            before = _used(call for _, call in step.calls) | needed
        case Aggregate():
            grouping = _used(expression for _, expression in step.group_by)
            arguments = _used(argument for call in step.aggregates for argument in call.arguments)
            return replace(step, input=_prune(step.input, grouping | arguments))
        case JoinForeignKey() | JoinStreams() | JoinStreamTable() | JoinTables():
            return _pruned_join(step, needed)
        case _:
            return step
    return replace(step, rows=_only(step.rows, needed), input=_prune(step.input, before & set(step.input.rows.columns)))


def _pruned_filter(step: Filter, needed: set[str]) -> Step:
    if isinstance(step.input, ReadSource) and step.input.rows.is_table:
        return step  # its rows are kept under a name, for definitions of the query that need other columns
    before = _prune(step.input, needed | _used([step.predicate]))
    return replace(step, rows=before.rows, input=before)


def _pruned_join(step: _Join, needed: set[str]) -> Step:
    left = _prune(step.left, (needed & set(step.left.rows.columns)) | _used([step.left_key]))
    right = _prune(step.right, (needed & set(step.right.rows.columns)) | _used([step.right_key]))
    given = {*left.rows.columns, *right.rows.columns, *step.rows.key}
    return replace(step, rows=_only(step.rows, given), left=left, right=right)


def _only(rows: Rows, needed: set[str]) -> Rows:
    return replace(rows, columns={name: type_ for name, type_ in rows.columns.items() if name in needed})


def _used(expressions: Iterable[Expression]) -> set[str]:
    """Names of the columns that expressions use."""
    return {ref.name for expression in expressions for ref in column_refs(expression)}
