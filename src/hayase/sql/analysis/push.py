"""The analysis of push queries: SELECT … EMIT CHANGES, whose rows are shown and not kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hayase.sql.analysis.grouping import aggregate_calls
from hayase.sql.analysis.projection import check_unique
from hayase.sql.analysis.query import from_clause, selected_steps
from hayase.sql.analysis.steps import Step
from hayase.sql.ast.expressions import Expression, IntegerLiteral
from hayase.sql.ast.queries import AllFields, Query, SingleColumn
from hayase.sql.catalog.catalog import Catalog
from hayase.sql.catalog.sources import DataSource
from hayase.sql.errors import StatementError
from hayase.sql.formats.columns import Column
from hayase.sql.functions.registry import FunctionRegistry


@dataclass(frozen=True)
class PushPlan:
    """A push query that keeps the rules.

    Attributes:
        step: the rows that SELECT reads.
        items: columns of the result, over these rows.
        columns: of the result.
        sources: the sources that are read, from left to right.
        limit: after so many rows it ends.
    """

    step: Step
    items: tuple[tuple[str, Expression], ...]
    columns: tuple[Column, ...]
    sources: tuple[DataSource, ...]
    limit: int | None


def analyze_push(
    query: Query, catalog: Catalog, functions: FunctionRegistry, settings: Mapping[str, object]
) -> PushPlan:
    """The plan of a push query.

    Args:
        query: as parsed.
        catalog: what it can read.
        functions: all functions.
        settings: of the session.

    Raises:
        StatementError: the query breaks a rule.
    """
    if query.limit is not None and query.limit < 0:
        raise StatementError("LIMIT", "Push queries don't support negative integers in the LIMIT clause.")
    query = _grouped(query, functions)
    step, join_keys, context = from_clause(query, catalog, functions, settings, "the result", "SELECT", transient=True)
    steps = selected_steps(step, join_keys, context)
    columns = tuple(
        Column(item.name, context.typing.known(expression, steps.step.rows.columns))
        for item, expression in zip(steps.items, steps.expressions, strict=True)
    )
    check_unique((), [(column.name, column.type) for column in columns])
    items = tuple((item.name, expression) for item, expression in zip(steps.items, steps.expressions, strict=True))
    sources = tuple(source.source for source in context.scope.sources)
    return PushPlan(steps.step, items, columns, sources, query.limit)


def _grouped(query: Query, functions: FunctionRegistry) -> Query:
    """A query with aggregates and without GROUP BY has all rows in one group."""
    if query.group_by is not None or query.having is not None:
        return query
    written = [
        item.expression if isinstance(item, SingleColumn) else item.base
        for item in query.select
        if isinstance(item, SingleColumn | AllFields)
    ]
    if any(aggregate_calls(expression, functions) for expression in written):
        return replace(query, group_by=(IntegerLiteral(1),))
    return query
