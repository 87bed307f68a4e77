"""The analysis of pull queries: SELECT without EMIT, which reads what is there and ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hayase.sql.analysis.access_path import AccessPath, access_path
from hayase.sql.analysis.grouping import aggregate_calls
from hayase.sql.analysis.names import column_name
from hayase.sql.analysis.projection import check_unique
from hayase.sql.analysis.query import from_clause, selected_steps
from hayase.sql.analysis.rewrite import column_refs
from hayase.sql.analysis.steps import Filter, Rows, Step
from hayase.sql.ast.expressions import Expression
from hayase.sql.ast.queries import JoinRelation, Query, SelectItem, SingleColumn
from hayase.sql.ast.text import expression_text
from hayase.sql.catalog.catalog import Catalog
from hayase.sql.catalog.sources import ROWOFFSET, ROWPARTITION, WINDOW_BOUNDS, DataSource
from hayase.sql.errors import FunctionError, StatementError
from hayase.sql.expressions.rows import compile_row
from hayase.sql.formats.columns import Column
from hayase.sql.functions.registry import FunctionRegistry
from hayase.sql.settings import is_on
from hayase.sql.types.sql_types import SqlType, quoted_name

LIMITS = "ksql.query.pull.limit.clause.enabled"
STREAMS = "ksql.query.pull.stream.enabled"
ENABLED = "ksql.pull.queries.enable"
MORE = " See https://cnfl.io/queries for more info."
USE_PUSH = "\nAdd EMIT CHANGES if you intended to issue a push query."
NOT_FOR_PULL = "NOT_FOR_PULL"
"""The condition of what pull queries cannot do and other SQL can: joins, groups."""
_NOT_ALLOWED = (ROWPARTITION, ROWOFFSET)


@dataclass(frozen=True)
class PullPlan:
    """A pull query that keeps the rules.

    Attributes:
        source: the table or stream.
        step: its rows, filtered.
        where: the condition over these rows.
        items: columns of the result, over these rows.
        columns: of the result.
        key: names of columns of the result that are those of the source's key, windows included; none of a stream.
        path: how the rows of a table are found.
        limit: at most so many rows.
    """

    source: DataSource
    step: Step
    where: Expression | None
    items: tuple[tuple[str, Expression], ...]
    columns: tuple[Column, ...]
    key: frozenset[str]
    path: AccessPath
    limit: int | None

    @property
    def rows(self) -> Rows:
        """The rows of the source."""
        return self.step.rows


def analyze_pull(
    query: Query, catalog: Catalog, functions: FunctionRegistry, settings: Mapping[str, object]
) -> PullPlan:
    """The plan of a pull query.

    Args:
        query: as parsed.
        catalog: what it can read.
        functions: all functions.
        settings: of the session.

    Raises:
        StatementError: the query breaks a rule.
    """
    _check_clauses(query, settings)
    step, join_keys, context = from_clause(query, catalog, functions, settings, "the result", "SELECT", transient=True)
    (scope_source,) = context.scope.sources
    _check_pseudo_columns(query)
    _check_aggregates([each for each in map(_expression_of, query.select) if each is not None], functions)
    steps = selected_steps(step, join_keys, context)
    rows = steps.step.rows
    columns = tuple(
        Column(item.name, context.typing.known(expression, rows.columns))
        for item, expression in zip(steps.items, steps.expressions, strict=True)
    )
    source = scope_source.source
    key_names = () if not source.is_table else (*rows.key, *(WINDOW_BOUNDS if rows.window is not None else ()))
    key = frozenset(
        item.name
        for item, expression in zip(steps.items, steps.expressions, strict=True)
        if column_name(expression) in key_names
    )
    named = [(column.name, column.type) for column in columns]
    check_unique([each for each in named if each[0] in key], [each for each in named if each[0] not in key])
    where = steps.step.predicate if isinstance(steps.step, Filter) else None
    path = AccessPath()
    if source.is_table:

        def evaluate(expression: Expression) -> tuple[object, SqlType | None]:
            compiled = compile_row(expression, {}, functions, settings)
            try:
                return compiled({}), compiled.type
            except FunctionError as error:
                raise StatementError(error.condition, error.message, location=expression.location) from error

        path = access_path(where, rows, settings, evaluate)
    items = tuple((item.name, expression) for item, expression in zip(steps.items, steps.expressions, strict=True))
    return PullPlan(source, steps.step, where, items, columns, key, path, query.limit)


def _check_clauses(query: Query, settings: Mapping[str, object]) -> None:
    if not is_on(settings, ENABLED):
        raise StatementError("PULL_DISABLED", f"Pull queries are disabled. Set {ENABLED}=true to allow them.{USE_PUSH}")
    clauses = {
        "JOIN": isinstance(query.source, JoinRelation),
        "WINDOW": query.window is not None,
        "GROUP BY": query.group_by is not None,
        "PARTITION BY": query.partition_by is not None,
        "HAVING": query.having is not None,
    }
    for clause, is_there in clauses.items():
        if is_there:
            raise StatementError(NOT_FOR_PULL, f"Pull queries don't support {clause} clauses.{MORE}{USE_PUSH}")
    if query.limit is None:
        return
    if not is_on(settings, LIMITS):
        raise StatementError(
            "LIMIT",
            "LIMIT clause in pull queries is currently disabled. You can enable them by setting "
            f"{LIMITS}=true.{MORE}{USE_PUSH}",
        )
    if query.limit < 0:
        raise StatementError(
            "LIMIT", f"Pull queries don't support negative integers in the LIMIT clause.{MORE}{USE_PUSH}"
        )


def _check_pseudo_columns(query: Query) -> None:
    """ROWPARTITION and ROWOFFSET are of records, not of rows that are kept."""
    selected = [_expression_of(item) for item in query.select]
    for clause, expressions in (("SELECT", selected), ("WHERE", [query.where])):
        used = {ref.name for each in expressions if each is not None for ref in column_refs(each)}
        found = [quoted_name(name) for name in _NOT_ALLOWED if name in used]
        if found:
            raise StatementError(
                "INVALID_PULL_QUERY",
                f"Pull queries don't support the following columns in {clause} clauses: {', '.join(found)}",
            )


def _expression_of(item: SelectItem) -> Expression | None:
    return item.expression if isinstance(item, SingleColumn) else None


def _check_aggregates(expressions: Sequence[Expression], functions: FunctionRegistry) -> None:
    for expression in expressions:
        for call in aggregate_calls(expression, functions):
            raise StatementError(
                NOT_FOR_PULL,
                f"Pull queries don't support aggregate functions: {expression_text(call)}.{MORE}{USE_PUSH}",
                location=call.location,
            )
