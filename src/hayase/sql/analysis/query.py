"""The analysis of a query: from its syntax tree to a logical plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hayase.sql.analysis.aggregation import aggregated, is_aggregation
from hayase.sql.analysis.context import QueryContext
from hayase.sql.analysis.grouping import aggregate_calls
from hayase.sql.analysis.joins import JoinBuilder, JoinKeys, check_sources, source_relations
from hayase.sql.analysis.keys import KeyColumn, KeyRule
from hayase.sql.analysis.names import ColumnNames, column_name
from hayase.sql.analysis.partitioning import partition_by
from hayase.sql.analysis.projection import Item, Projection, check_names, check_values
from hayase.sql.analysis.rewrite import column_refs
from hayase.sql.analysis.scopes import Scope, ScopeSource, position
from hayase.sql.analysis.steps import Filter, Project, ReadSource, Rows, Step
from hayase.sql.analysis.table_functions import flat_map
from hayase.sql.analysis.windows import check_emit, check_window
from hayase.sql.ast.expressions import Expression
from hayase.sql.ast.queries import Query, SourceRelation
from hayase.sql.ast.text import expression_text
from hayase.sql.catalog.catalog import Catalog, did_you_mean
from hayase.sql.catalog.sources import DataSource
from hayase.sql.errors import StatementError
from hayase.sql.formats.columns import Column
from hayase.sql.functions.registry import FunctionRegistry
from hayase.sql.settings import is_on

_NEW_PLANNER = "ksql.new.query.planner.enabled"


@dataclass(frozen=True)
class QueryPlan:
    """A query that keeps the rules.

    Attributes:
        root: the last step, which has the columns of the result.
        key: columns of the result's key.
        value: columns of the result's value.
        sources: the sources that are read, from left to right.
        removes_key: PARTITION BY NULL.
    """

    root: Project
    key: tuple[Column, ...]
    value: tuple[Column, ...]
    sources: tuple[DataSource, ...]
    removes_key: bool

    @property
    def rows(self) -> Rows:
        """The rows of the result."""
        return self.root.rows


def analyze_query(
    query: Query,
    catalog: Catalog,
    functions: FunctionRegistry,
    settings: Mapping[str, object],
    sink: str,
    what: str,
) -> QueryPlan:
    """The plan of a query.

    Args:
        query: as parsed.
        catalog: what it can read.
        functions: all functions.
        settings: of the session.
        sink: name of the result.
        what: the statement, for errors: CREATE TABLE AS SELECT.

    Raises:
        StatementError: the query breaks a rule.
    """
    if query.limit is not None:
        raise StatementError("LIMIT", f"{what} statements don't support LIMIT clause.")
    step, join_keys, context = from_clause(query, catalog, functions, settings, sink, what)
    steps = selected_steps(step, join_keys, context)
    return _projected(steps.step, steps.items, steps.expressions, steps.rule, context)


def from_clause(
    query: Query,
    catalog: Catalog,
    functions: FunctionRegistry,
    settings: Mapping[str, object],
    sink: str,
    what: str,
    *,
    transient: bool = False,
) -> tuple[Step, JoinKeys | None, QueryContext]:
    """The rows of FROM, what can be their key if they are joined, and the context of the clauses over them.

    Raises:
        StatementError: a rule is broken.
    """
    sources = tuple(
        ScopeSource(relation.alias, _existing(catalog, relation)) for relation in source_relations(query.source)
    )
    scope = Scope(sources, windowed_aggregation=query.window is not None)
    check_window(query, [source.source for source in sources], transient=transient)
    if scope.is_join:
        check_sources(scope)
    names = ColumnNames(scope.all_names())
    context = QueryContext(query, scope, names, functions, settings, sink, what, transient)
    step, join_keys = _from(context)
    if join_keys is not None:
        context = replace(context, scope=scope.with_synthetic_key(join_keys.synthetic))
    return step, join_keys, context


@dataclass(frozen=True)
class SelectedSteps:
    """A query up to its projection.

    Attributes:
        step: the rows that SELECT reads.
        items: of SELECT.
        expressions: of the items, over these rows.
        rule: for the key.
    """

    step: Step
    items: Sequence[Item]
    expressions: Sequence[Expression]
    rule: KeyRule


def selected_steps(step: Step, join_keys: JoinKeys | None, context: QueryContext) -> SelectedSteps:
    """The clauses over the rows of FROM.

    Raises:
        StatementError: a rule is broken.
    """
    query, scope = context.query, context.scope
    projection = Projection(
        scope, context.names, context.typing, step.rows.columns, query.partition_by is not None, context.transient
    )
    items = projection.items(query.select)
    step = _where(step, context)
    if query.partition_by is None:
        rule = _source_rule(step, join_keys, context)
    else:
        step, items, rule = partition_by(step, items, query.partition_by, context)
    step, items = flat_map(step, items, context)
    if is_aggregation(items, context):
        step, expressions, rule = aggregated(step, items, context)
        return SelectedSteps(step, items, expressions, rule)
    check_emit(query)
    return SelectedSteps(step, items, [scope.flatten(item.expression) for item in items], rule)


def _existing(catalog: Catalog, relation: SourceRelation) -> DataSource:
    source = catalog.find(relation.name)
    if source is None:
        hint = did_you_mean(catalog, relation.name)
        raise StatementError(
            "UNKNOWN_SOURCE",
            f"Exception while preparing statement: {relation.name} does not exist.{hint}",
            location=relation.location,
        )
    return source


def _from(context: QueryContext) -> tuple[Step, JoinKeys | None]:
    steps = {source.alias: _read(source, context.scope) for source in context.scope.sources}
    builder = JoinBuilder(context.scope, steps, context.typing)
    builder.check(context.query.source)
    return builder.build(context.query.source)


def _read(source: ScopeSource, scope: Scope) -> ReadSource:
    columns = {**source.source.columns, **source.source.pseudo_columns}
    names = {name: scope.flat_name(source.alias, name) for name in columns}
    rows = Rows(
        {names[name]: type_ for name, type_ in columns.items()},
        tuple(names[column.name] for column in source.source.key),
        source.source.is_table,
        source.source.window,
    )
    return ReadSource(rows, source.source, names)


def _where(step: Step, context: QueryContext) -> Step:
    where = context.query.where
    if where is None:
        return step
    predicate = context.scope.flatten(context.scope.qualify(where, "WHERE"))
    for call in aggregate_calls(predicate, context.functions):
        if all(ref.name in step.rows.columns for ref in column_refs(call)):
            raise StatementError(
                "AGGREGATE_IN_WHERE",
                f"{position(call.location)}Aggregate functions are not allowed in WHERE: {expression_text(call)}",
                location=call.location,
            )
    context.typing.check_predicate(predicate, step.rows.columns, "WHERE")
    return Filter(step.rows, step, predicate, "WHERE")


def _source_rule(step: Step, join_keys: JoinKeys | None, context: QueryContext) -> KeyRule:
    """The rule for the key that the sources, or their join, have."""
    sink = context.sink
    if join_keys is None:
        keys = [KeyColumn((name,), (name,), name) for name in step.rows.key]
        return KeyRule("key column", keys, sink)
    if join_keys.synthetic is not None:
        name = join_keys.synthetic
        return KeyRule("join expression", [KeyColumn((name,), (name,), name)], sink, synthetic=True)
    viable = join_keys.viable
    names = [context.scope.flat_name(ref.source or "", ref.name) for ref in viable]
    texts = [expression_text(ref) for ref in viable]
    if join_keys.foreign:
        keys = [KeyColumn((name,), (text,), name) for name, text in zip(names, texts, strict=True)]
        return KeyRule("key column", keys, sink, foreign_source=viable[0].source)
    return KeyRule("join expression", [KeyColumn(tuple(names), tuple(texts), names[0])], sink)


def _projected(
    step: Step, items: Sequence[Item], expressions: Sequence[Expression], rule: KeyRule, context: QueryContext
) -> QueryPlan:
    """The plan with its last step: the columns of the result."""
    rows, partitioned = step.rows, context.query.partition_by is not None
    types = [context.typing.known(expression, rows.columns) for expression in expressions]
    selected = [(item.name, column_name(each)) for item, each in zip(items, expressions, strict=True)]
    places = rule.find(selected)
    if is_on(context.settings, _NEW_PLANNER) and rule.what == "key column":
        places = sorted(places)
    check_names(items, [items[place].name for place in places] if partitioned else [])
    key = tuple(Column(items[place].name, types[place]) for place in places)
    rest = [index for index in range(len(items)) if index not in places]
    value = tuple(Column(items[index].name, types[index]) for index in rest)
    check_values([(column.name, column.type) for column in key], [(column.name, column.type) for column in value])
    columns = {column.name: column.type for column in (*value, *key)}
    project = Project(
        Rows(columns, tuple(column.name for column in key), rows.is_table, rows.window),
        step,
        tuple((column.name, str(selected[place][1])) for column, place in zip(key, places, strict=True)),
        tuple((items[index].name, expressions[index]) for index in rest),
    )
    sources = tuple(source.source for source in context.scope.sources)
    return QueryPlan(project, key, value, sources, partitioned and not rows.key)
