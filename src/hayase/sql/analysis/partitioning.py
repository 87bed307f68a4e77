"""The rules of PARTITION BY."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hayase.sql.analysis.context import QueryContext
from hayase.sql.analysis.keys import KeyColumn, KeyRule
from hayase.sql.analysis.names import column_name
from hayase.sql.analysis.projection import Item, replaced
from hayase.sql.analysis.steps import PartitionBy, Rows, Step
from hayase.sql.ast.expressions import ColumnRef, Expression, NullLiteral
from hayase.sql.ast.text import expression_text
from hayase.sql.errors import StatementError

_WHAT = "partitioning expression"


def partition_by(
    step: Step, items: list[Item], written: Sequence[Expression], context: QueryContext
) -> tuple[Step, list[Item], KeyRule]:
    """The rows under new keys, the items over them, and the rule for the new keys.

    Raises:
        StatementError: the source is a table, or NULL stands beside other expressions.
    """
    if step.rows.is_table:
        raise StatementError("INVALID_PARTITION_BY", "Cannot repartition a TABLE source: PARTITION BY is for streams")
    if any(isinstance(expression, NullLiteral) for expression in written):
        if len(written) > 1:
            raise StatementError("INVALID_PARTITION_BY", "Cannot PARTITION BY multiple columns including NULL")
        return _rekeyed(step, [], context), items, KeyRule(_WHAT, (), context.sink)
    qualified = [context.scope.qualify(expression, "PARTITION BY") for expression in written]
    named = context.key_columns(qualified, items)
    names = [name for name, _ in named]
    by_expression = {
        expression: name
        for expression, name in zip(qualified, names, strict=True)
        if not isinstance(expression, ColumnRef)
    }
    items = [replace(item, expression=replaced(item.expression, by_expression)) for item in items]
    keys = [KeyColumn((name,), (expression_text(each),), name) for each, name in zip(qualified, names, strict=True)]
    items = _with_new_keys(items, names, context)
    return _rekeyed(step, named, context), items, KeyRule(_WHAT, keys, context.sink)


def _with_new_keys(items: list[Item], names: list[str], context: QueryContext) -> list[Item]:
    """A star means the columns of the new key, too."""
    if not any(item.from_star for item in items):
        return items
    selected = {column_name(context.scope.flatten(item.expression)) for item in items}
    new = [Item(name, ColumnRef(name), from_star=True) for name in names if name not in selected]
    return [*new, *items]


def _rekeyed(step: Step, named: list[tuple[str, Expression]], context: QueryContext) -> Step:
    columns = dict(step.rows.columns)
    for name, expression in named:
        columns[name] = context.typing.known(expression, step.rows.columns)
    rows = Rows(columns, tuple(name for name, _ in named), False, None)
    return PartitionBy(rows, step, tuple(named))
