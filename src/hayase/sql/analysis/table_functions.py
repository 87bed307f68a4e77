"""The rules of table functions in SELECT."""

from __future__ import annotations

from dataclasses import replace

from hayase.sql.analysis.context import QueryContext
from hayase.sql.analysis.grouping import aggregate_calls, table_calls
from hayase.sql.analysis.projection import Item, replaced
from hayase.sql.analysis.rewrite import walk
from hayase.sql.analysis.steps import FlatMap, Step
from hayase.sql.ast.expressions import Expression, FunctionCall, SearchedCase, SimpleCase
from hayase.sql.ast.text import expression_text
from hayase.sql.errors import StatementError


def flat_map(step: Step, items: list[Item], context: QueryContext) -> tuple[Step, list[Item]]:
    """The rows with the results of table functions as columns, and the items over them.

    Raises:
        StatementError: table functions stand in each other, beside aggregates, or over a table.
    """
    calls = _calls(items, context)
    if not calls:
        return step, items
    if context.query.group_by is not None or any(aggregate_calls(item.expression, context.functions) for item in items):
        raise StatementError("INVALID_TABLE_FUNCTION", "Table functions cannot be used with aggregations.")
    if step.rows.is_table:
        raise StatementError("INVALID_TABLE_FUNCTION", "Table source is not supported with table functions")
    columns = dict(step.rows.columns)
    flat: list[tuple[str, FunctionCall]] = []
    for call, name in calls.items():
        over_rows = context.scope.flatten(call)
        assert isinstance(over_rows, FunctionCall)
        arguments = [context.typing(argument, step.rows.columns) for argument in over_rows.arguments]
        type_ = context.functions.table(call.name, arguments).return_type
        assert type_ is not None
        columns[name] = type_
        flat.append((name, over_rows))
    items = [replace(item, expression=replaced(item.expression, calls)) for item in items]
    return FlatMap(replace(step.rows, columns=columns), step, tuple(flat)), items


def _check_case(expression: Expression, context: QueryContext) -> None:
    """Refuse table functions in CASE: each row would have another number of results."""
    for part in walk(expression):
        if isinstance(part, SearchedCase | SimpleCase):
            for call in table_calls(part, context.functions):
                raise StatementError(
                    "INVALID_TABLE_FUNCTION",
                    f"Table functions cannot be used in CASE: {expression_text(call)}",
                    location=call.location,
                )


def _calls(items: list[Item], context: QueryContext) -> dict[FunctionCall, str]:
    """The calls, each once, with the names of the columns of their results."""
    calls: dict[FunctionCall, str] = {}
    for item in items:
        _check_case(item.expression, context)
        for call in table_calls(item.expression, context.functions):
            if any(table_calls(argument, context.functions) for argument in call.arguments):
                raise StatementError(
                    "NESTED_TABLE_FUNCTIONS",
                    f"Table functions cannot be nested: {expression_text(call)}",
                    location=call.location,
                )
            calls.setdefault(call, f"KSQL_SYNTH_{len(calls)}")
    return calls
