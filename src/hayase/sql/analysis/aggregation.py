"""The analysis of a query with aggregates: GROUP BY, WINDOW, HAVING."""

from __future__ import annotations

from collections.abc import Sequence

from hayase.sql.analysis.context import QueryContext
from hayase.sql.analysis.grouping import (
    Aggregates,
    aggregate_calls,
    check_group_by,
    check_grouped,
    count_text,
    window_bounds_error,
)
from hayase.sql.analysis.joins import unsupported_format
from hayase.sql.analysis.keys import KeyColumn, KeyRule
from hayase.sql.analysis.projection import Item
from hayase.sql.analysis.rewrite import column_refs, function_calls
from hayase.sql.analysis.steps import Aggregate, Filter, Rows, Step
from hayase.sql.analysis.windows import check_emit, window_of
from hayase.sql.ast.expressions import ColumnRef, Expression, FunctionCall, children
from hayase.sql.ast.queries import Emit
from hayase.sql.ast.text import expression_text
from hayase.sql.catalog.sources import WINDOW_BOUNDS
from hayase.sql.errors import StatementError, located
from hayase.sql.types.sql_types import SqlType

Named = Sequence[tuple[str, Expression]]


def is_aggregation(items: Sequence[Item], context: QueryContext) -> bool:
    """Whether a query has groups, or should have."""
    query = context.query
    calls = any(aggregate_calls(item.expression, context.functions) for item in items)
    return query.group_by is not None or query.having is not None or calls


def aggregated(step: Step, items: Sequence[Item], context: QueryContext) -> tuple[Step, list[Expression], KeyRule]:
    """The groups, the items over them, and the rule for the groups' key.

    Raises:
        StatementError: a rule is broken.
    """
    query, scope = context.query, context.scope
    if query.partition_by is not None:
        raise StatementError("INVALID_PARTITION_BY", "Queries only support one of PARTITION BY and GROUP BY")
    kafka = [each.source.name for each in scope.sources if each.source.value_format.name == "KAFKA"]
    if kafka and query.group_by is not None:
        raise unsupported_format(kafka, "GROUP BY")
    group_by = [scope.qualify(each, "GROUP BY") for each in query.group_by or ()]
    check_group_by(group_by, context.functions)
    named = context.key_columns(group_by, items)
    aggregates = Aggregates(named, step.rows.columns, context.functions, context.settings, step.rows.is_table)
    _check_has_aggregates(items, context)
    having = _having(context)
    written = [scope.flatten(item.expression) for item in items]
    over_groups = [aggregates.over_groups(each) for each in written]
    check_grouped(list(zip(written, over_groups, strict=True)), {name for name, _ in named})
    _check_has_groups(items, context)
    having_groups = None if having is None else aggregates.over_groups(having)
    aggregates.check_table()
    aggregates.check_states(scope.sources[0].source.value_format)
    check_emit(query)
    grouped = _aggregate(step, named, aggregates, context)
    if having is not None and having_groups is not None:
        _check_having(having, having_groups, grouped, aggregates, context)
        grouped = Filter(grouped.rows, grouped, having_groups, "HAVING")
    keys = [KeyColumn((name,), (expression_text(expression),), name) for name, expression in named]
    return grouped, over_groups, KeyRule("grouping expression", keys, context.sink)


def _having(context: QueryContext) -> Expression | None:
    if context.query.having is None:
        return None
    having = context.scope.qualify(context.query.having, "HAVING")
    for ref in column_refs(having):
        if ref.name in WINDOW_BOUNDS and ref.source is None:
            raise window_bounds_error(ref)
    return context.scope.flatten(having)


def _check_has_groups(items: Sequence[Item], context: QueryContext) -> None:
    if context.query.group_by is not None:
        return
    if context.query.having is not None:
        raise StatementError(
            "NO_GROUP_BY", "HAVING clause requires a GROUP BY clause.", location=context.query.having.location
        )
    calls = [call for item in items for call in aggregate_calls(item.expression, context.functions)]
    flat = [context.scope.flatten(call) for call in calls]
    text = ", ".join(count_text(call) for call in flat if isinstance(call, FunctionCall))
    raise StatementError(
        "NO_GROUP_BY",
        f"{context.what} statement does not support aggregate function [{text}] without a GROUP BY clause.",
        location=calls[0].location if calls else None,
    )


def _check_has_aggregates(items: Sequence[Item], context: QueryContext) -> None:
    having = context.query.having
    expressions = [item.expression for item in items] + ([] if having is None else [having])
    for call in (call for each in expressions for call in function_calls(each)):
        with located(call.location):
            context.functions.overloads(call.name)  # raises where there is no such function
    if context.query.group_by is not None and not any(aggregate_calls(each, context.functions) for each in expressions):
        raise StatementError(
            "NO_AGGREGATES", "GROUP BY requires aggregate functions in either the SELECT or HAVING clause."
        )


def _check_having(
    written: Expression, over_groups: Expression, grouped: Step, aggregates: Aggregates, context: QueryContext
) -> None:
    """HAVING has to be BOOLEAN; errors show the calls that were written."""
    try:
        context.typing.check_predicate(over_groups, grouped.rows.columns, "HAVING")
    except StatementError as error:
        message = error.message
        for call in aggregates.calls:
            message = message.replace(call.name, expression_text(_written(written, over_groups, call.name)))
        raise StatementError(error.condition, message, location=error.location) from error


def _written(written: Expression, over_groups: Expression, name: str) -> Expression:
    """The part of an expression that became a column of the groups."""
    if isinstance(over_groups, ColumnRef) and over_groups.name == name:
        return written
    for before, after in zip(children(written), children(over_groups), strict=False):
        found = _written(before, after, name)
        if not (isinstance(found, ColumnRef) and found.name == name):
            return found
    return ColumnRef(name)


def _aggregate(step: Step, named: Named, aggregates: Aggregates, context: QueryContext) -> Step:
    columns: dict[str, SqlType] = {
        name: context.typing.known(expression, step.rows.columns) for name, expression in named
    }
    for call in aggregates.calls:
        assert call.function.return_type is not None
        columns[call.name] = call.function.return_type
    window = context.query.window
    if window is not None:
        columns.update(WINDOW_BOUNDS)
    key = tuple(name for name, _ in named)
    rows = Rows(columns, key, True, None if window is None else window_of(window))
    return Aggregate(rows, step, tuple(named), aggregates.calls, window, context.query.emit is Emit.FINAL)
