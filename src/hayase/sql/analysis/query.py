"""The analysis of a query: from its syntax tree to a logical plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hayase.sql.analysis.grouping import (
    Aggregates,
    aggregate_calls,
    check_group_by,
    check_grouped,
    count_text,
    table_calls,
    window_bounds_error,
)
from hayase.sql.analysis.joins import JoinBuilder, JoinKeys, check_sources, source_relations, unsupported_format
from hayase.sql.analysis.keys import KeyColumn, KeyRule
from hayase.sql.analysis.names import ColumnNames, column_name
from hayase.sql.analysis.planner_settings import NEW_PLANNER, is_true
from hayase.sql.analysis.projection import Item, Projection, check_names, check_values, replaced
from hayase.sql.analysis.rewrite import column_refs, function_calls
from hayase.sql.analysis.scopes import Scope, ScopeSource, position
from hayase.sql.analysis.steps import Aggregate, Filter, FlatMap, PartitionBy, Project, ReadSource, Rows, Step
from hayase.sql.analysis.typing import Typing
from hayase.sql.analysis.windows import check_emit, check_window, window_of
from hayase.sql.ast.expressions import ColumnRef, Expression, FunctionCall, NullLiteral, children
from hayase.sql.ast.queries import Emit, Query
from hayase.sql.ast.text import expression_text
from hayase.sql.catalog.catalog import Catalog, did_you_mean
from hayase.sql.catalog.sources import WINDOW_BOUNDS, DataSource
from hayase.sql.errors import StatementError
from hayase.sql.formats.columns import Column
from hayase.sql.functions.registry import FunctionRegistry
from hayase.sql.types.sql_types import SqlType


@dataclass(frozen=True)
class QueryPlan:
    """A query that keeps the rules.

    Attributes:
        root: the last step, which has the columns of the result.
        key: columns of the result's key.
        value: columns of the result's value.
        sources: the sources that are read, from left to right.
        removes_key: PARTITION BY NULL.
        grouped: the query has a GROUP BY.
    """

    root: Project
    key: tuple[Column, ...]
    value: tuple[Column, ...]
    sources: tuple[DataSource, ...]
    removes_key: bool
    grouped: bool

    @property
    def rows(self) -> Rows:
        """The rows of the result."""
        return self.root.rows


def analyze_query(
    query: Query, catalog: Catalog, functions: FunctionRegistry, settings: Mapping[str, object], sink: str, what: str
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
    return _Analysis(query, catalog, functions, settings, sink, what).plan()


class _Analysis:
    def __init__(
        self,
        query: Query,
        catalog: Catalog,
        functions: FunctionRegistry,
        settings: Mapping[str, object],
        sink: str,
        what: str,
    ) -> None:
        self._what = what
        self._query = query
        self._functions = functions
        self._settings = settings
        self._sink = sink
        self._typing = Typing(functions)
        relations = source_relations(query.source)
        sources = tuple(
            ScopeSource(relation.alias, _existing(catalog, relation.name, relation)) for relation in relations
        )
        self._scope = Scope(sources, windowed_aggregation=query.window is not None)
        self._names = ColumnNames(self._scope.all_names())

    def plan(self) -> QueryPlan:
        if self._query.limit is not None:
            raise StatementError("LIMIT", f"{self._what} statement does not support LIMIT clause.")
        check_window(self._query, [source.source for source in self._scope.sources])
        if self._scope.is_join:
            check_sources(self._scope)
        step, join_keys = self._from()
        if join_keys is not None:
            self._scope = self._scope.with_synthetic_key(join_keys.synthetic)
        items = self._items(step)
        step = self._where(step)
        step, items, rule = self._partition_by(step, items, join_keys)
        step, items = self._flat_map(step, items)
        calls = any(aggregate_calls(item.expression, self._functions) for item in items)
        if self._query.group_by is not None or calls or self._query.having is not None:
            return self._grouped(step, items)
        check_emit(self._query)
        return self._projected(step, items, [self._scope.flatten(item.expression) for item in items], rule)

    # FROM

    def _from(self) -> tuple[Step, JoinKeys | None]:
        steps = {source.alias: self._read(source) for source in self._scope.sources}
        builder = JoinBuilder(self._scope, steps, self._typing)
        builder.check(self._query.source)
        return builder.build(self._query.source)

    def _read(self, source: ScopeSource) -> ReadSource:
        columns = {**source.source.columns, **source.source.pseudo_columns}
        names = {name: self._scope.flat_name(source.alias, name) for name in columns}
        rows = Rows(
            {names[name]: type_ for name, type_ in columns.items()},
            tuple(names[column.name] for column in source.source.key),
            source.source.is_table,
            source.source.window,
        )
        return ReadSource(rows, source.source, names)

    # WHERE, PARTITION BY, table functions

    def _items(self, step: Step) -> list[Item]:
        projection = Projection(
            self._scope, self._names, self._typing, step.rows.columns, self._query.partition_by is not None
        )
        return projection.items(self._query.select)

    def _where(self, step: Step) -> Step:
        where = self._query.where
        if where is None:
            return step
        predicate = self._scope.flatten(self._scope.qualify(where, "WHERE"))
        for call in aggregate_calls(predicate, self._functions):
            bounds = [ref for ref in column_refs(call) if ref.name not in step.rows.columns]
            if not bounds:
                raise StatementError(
                    "AGGREGATE_IN_WHERE",
                    f"{position(call.location)}Aggregate functions are not allowed in WHERE: {expression_text(call)}",
                    location=call.location,
                )
        self._typing.check_predicate(predicate, step.rows.columns, "WHERE")
        return Filter(step.rows, step, predicate, "WHERE")

    def _partition_by(
        self, step: Step, items: list[Item], join_keys: JoinKeys | None
    ) -> tuple[Step, list[Item], KeyRule]:
        written = self._query.partition_by
        if written is None:
            return step, items, self._source_rule(step, join_keys)
        if step.rows.is_table:
            raise StatementError(
                "INVALID_PARTITION_BY", "Cannot repartition a TABLE source: PARTITION BY is for streams"
            )
        if any(isinstance(expression, NullLiteral) for expression in written):
            if len(written) > 1:
                raise StatementError("INVALID_PARTITION_BY", "Cannot PARTITION BY multiple columns including NULL")
            return self._rekeyed(step, []), items, KeyRule("partitioning expression", (), self._sink)
        qualified = [self._scope.qualify(expression, "PARTITION BY") for expression in written]
        named = [(self._key_name(each, items), self._scope.flatten(each)) for each in qualified]
        rekeyed = self._rekeyed(step, named)
        by_expression = {
            expression: name
            for expression, (name, _) in zip(qualified, named, strict=True)
            if not isinstance(expression, ColumnRef)
        }
        items = [replace(item, expression=replaced(item.expression, by_expression)) for item in items]
        keys = [
            KeyColumn((name,), (expression_text(expression),), name)
            for expression, (name, _) in zip(qualified, named, strict=True)
        ]
        items = self._with_new_keys(items, [name for name, _ in named])
        return rekeyed, items, KeyRule("partitioning expression", keys, self._sink)

    def _with_new_keys(self, items: list[Item], names: list[str]) -> list[Item]:
        """A star means the columns of the new key, too."""
        if not any(item.from_star for item in items):
            return items
        selected = {column_name(self._scope.flatten(item.expression)) for item in items}
        new = [Item(name, ColumnRef(name), from_star=True) for name in names if name not in selected]
        return [*new, *items]

    def _key_name(self, expression: Expression, items: list[Item]) -> str:
        flat = self._scope.flatten(expression)
        if isinstance(flat, ColumnRef):
            return flat.name
        for item in items:
            if item.expression == expression:
                return self._free(item.name)
        return self._names.of(expression)

    def _free(self, name: str) -> str:
        """A name that no column of the rows has, for a key that is no column."""
        return name if name not in self._scope.all_names() else f"KSQL_KEY_{name}"

    def _rekeyed(self, step: Step, named: list[tuple[str, Expression]]) -> Step:
        columns = dict(step.rows.columns)
        for name, expression in named:
            columns[name] = self._typing.known(expression, step.rows.columns)
        rows = Rows(columns, tuple(name for name, _ in named), False, None)
        return PartitionBy(rows, step, tuple(named))

    def _flat_map(self, step: Step, items: list[Item]) -> tuple[Step, list[Item]]:
        calls: dict[FunctionCall, str] = {}
        for item in items:
            for call in table_calls(item.expression, self._functions):
                if any(table_calls(argument, self._functions) for argument in call.arguments):
                    raise StatementError(
                        "NESTED_TABLE_FUNCTIONS",
                        f"Table functions cannot be nested: {expression_text(call)}",
                        location=call.location,
                    )
                calls.setdefault(call, f"KSQL_SYNTH_{len(calls)}")
        if not calls:
            return step, items
        if self._query.group_by is not None or any(aggregate_calls(item.expression, self._functions) for item in items):
            raise StatementError("INVALID_TABLE_FUNCTION", "Table functions cannot be used with aggregations.")
        if step.rows.is_table:
            raise StatementError("INVALID_TABLE_FUNCTION", "Table source is not supported with table functions")
        columns = dict(step.rows.columns)
        flat: list[tuple[str, FunctionCall]] = []
        for call, name in calls.items():
            over_rows = self._scope.flatten(call)
            assert isinstance(over_rows, FunctionCall)
            arguments = [self._typing(argument, step.rows.columns) for argument in over_rows.arguments]
            type_ = self._functions.table(call.name, arguments).return_type
            assert type_ is not None
            columns[name] = type_
            flat.append((name, over_rows))
        items = [replace(item, expression=replaced(item.expression, calls)) for item in items]
        return FlatMap(replace(step.rows, columns=columns), step, tuple(flat)), items

    # the key that SELECT has to have

    def _source_rule(self, step: Step, join_keys: JoinKeys | None) -> KeyRule:
        if join_keys is None:
            keys = [KeyColumn((name,), (name,), name) for name in step.rows.key]
            return KeyRule("key column", keys, self._sink)
        flat = {ref: self._scope.flat_name(ref.source or "", ref.name) for ref in join_keys.viable}
        if join_keys.foreign:
            keys = [KeyColumn((flat[ref],), (expression_text(ref),), flat[ref]) for ref in join_keys.viable]
            left = join_keys.viable[0].source
            return KeyRule("key column", keys, self._sink, foreign_source=left)
        if join_keys.synthetic is not None:
            name = join_keys.synthetic
            return KeyRule("join expression", [KeyColumn((name,), (name,), name)], self._sink, synthetic=True)
        texts = tuple(expression_text(ref) for ref in join_keys.viable)
        names = tuple(flat[ref] for ref in join_keys.viable)
        return KeyRule("join expression", [KeyColumn(names, texts, names[0])], self._sink)

    # GROUP BY

    def _grouped(self, step: Step, items: list[Item]) -> QueryPlan:
        query = self._query
        if query.partition_by is not None:
            raise StatementError("INVALID_PARTITION_BY", "Queries only support one of PARTITION BY and GROUP BY")
        kafka = [each.source.name for each in self._scope.sources if each.source.value_format.name == "KAFKA"]
        if kafka and query.group_by is not None:
            raise unsupported_format(kafka, "GROUP BY")
        group_by = [self._scope.qualify(each, "GROUP BY") for each in query.group_by or ()]
        check_group_by(group_by, self._functions)
        named = [(self._key_name(each, items), self._scope.flatten(each)) for each in group_by]
        aggregates = Aggregates(named, step.rows.columns, self._functions, self._settings, step.rows.is_table)
        self._check_has_aggregates(items)
        written = [self._scope.flatten(item.expression) for item in items]
        having = None if query.having is None else self._scope.qualify(query.having, "HAVING")
        for ref in () if having is None else column_refs(having):
            if ref.name in WINDOW_BOUNDS and ref.source is None:
                raise window_bounds_error(ref)
        over_groups = [aggregates.over_groups(each) for each in written]
        key_names = {name for name, _ in named}
        check_grouped(list(zip(written, over_groups, strict=True)), key_names)
        self._check_has_groups(items)
        having_groups = None if having is None else aggregates.over_groups(self._scope.flatten(having))
        aggregates.check_table()
        aggregates.check_states(self._scope.sources[0].source.value_format)
        check_emit(query)
        grouped = self._aggregate(step, named, aggregates)
        if having is not None and having_groups is not None:
            self._check_having(self._scope.flatten(having), having_groups, grouped, aggregates)
            grouped = Filter(grouped.rows, grouped, having_groups, "HAVING")
        keys = [KeyColumn((name,), (expression_text(expression),), name) for name, expression in named]
        rule = KeyRule("grouping expression", keys, self._sink)
        return self._projected(grouped, items, over_groups, rule)

    def _check_has_groups(self, items: list[Item]) -> None:
        if self._query.group_by is None and self._query.having is not None:
            raise StatementError("NO_GROUP_BY", "HAVING clause requires a GROUP BY clause.")
        if self._query.group_by is None:
            calls = [call for item in items for call in aggregate_calls(item.expression, self._functions)]
            text = ", ".join(count_text(self._flat_call(call)) for call in calls)
            raise StatementError(
                "NO_GROUP_BY",
                f"{self._what} statement does not support aggregate function [{text}] without a GROUP BY clause.",
            )

    def _check_has_aggregates(self, items: list[Item]) -> None:
        having = self._query.having
        expressions = [item.expression for item in items] + ([] if having is None else [having])
        for call in (call for each in expressions for call in function_calls(each)):
            self._functions.overloads(call.name)  # raises where there is no such function
        if self._query.group_by is not None and not any(aggregate_calls(each, self._functions) for each in expressions):
            raise StatementError(
                "NO_AGGREGATES", "GROUP BY requires aggregate functions in either the SELECT or HAVING clause."
            )

    def _flat_call(self, call: FunctionCall) -> FunctionCall:
        flat = self._scope.flatten(call)
        assert isinstance(flat, FunctionCall)
        return flat

    def _check_having(
        self, written: Expression, over_groups: Expression, grouped: Step, aggregates: Aggregates
    ) -> None:
        texts = {call.name: expression_text(_written(written, over_groups, call.name)) for call in aggregates.calls}
        try:
            self._typing.check_predicate(over_groups, grouped.rows.columns, "HAVING")
        except StatementError as error:
            message = error.message
            for name, text in texts.items():
                message = message.replace(name, text)
            raise StatementError(error.condition, message, location=error.location) from error

    def _aggregate(self, step: Step, named: list[tuple[str, Expression]], aggregates: Aggregates) -> Step:
        columns: dict[str, SqlType] = {
            name: self._typing.known(expression, step.rows.columns) for name, expression in named
        }
        for call in aggregates.calls:
            assert call.function.return_type is not None
            columns[call.name] = call.function.return_type
        window = self._query.window
        if window is not None:
            columns.update(WINDOW_BOUNDS)
        keyed = window_of(window) if window is not None else step.rows.window
        if window is None and step.rows.window is not None:
            columns.update({name: type_ for name, type_ in WINDOW_BOUNDS.items() if name in step.rows.columns})
        rows = Rows(columns, tuple(name for name, _ in named), True, keyed if window is not None else None)
        final = self._query.emit is Emit.FINAL
        return Aggregate(rows, step, tuple(named), aggregates.calls, window, final)

    # SELECT

    def _projected(self, step: Step, items: list[Item], expressions: list[Expression], rule: KeyRule) -> QueryPlan:
        rows = step.rows
        removes_key = self._query.partition_by is not None and not rows.key
        types = [self._type(expression, rows) for expression in expressions]
        selected = [(item.name, column_name(each)) for item, each in zip(items, expressions, strict=True)]
        places = rule.find(selected)
        if self._keeps_select_order and rule.what == "key column":
            places = sorted(places)
        key_names = [items[place].name for place in places] if self._query.partition_by is not None else []
        check_names(items, key_names)
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
        sources = tuple(source.source for source in self._scope.sources)
        return QueryPlan(project, key, value, sources, removes_key, self._query.group_by is not None)

    @property
    def _keeps_select_order(self) -> bool:
        """Whether keys of several columns have the order of SELECT, and not that of the source."""
        return is_true(self._settings, NEW_PLANNER)

    def _type(self, expression: Expression, rows: Rows) -> SqlType:
        return self._typing.known(expression, rows.columns)


def _existing(catalog: Catalog, name: str, relation: object) -> DataSource:
    source = catalog.find(name)
    if source is None:
        location = getattr(relation, "location", None)
        raise StatementError(
            "UNKNOWN_SOURCE",
            f"Exception while preparing statement: {name} does not exist.{did_you_mean(catalog.similar(name))}",
            location=location,
        )
    return source


def _written(written: Expression, over_groups: Expression, name: str) -> Expression:
    """The part of an expression that became a column of the groups."""
    if isinstance(over_groups, ColumnRef) and over_groups.name == name:
        return written
    for before, after in zip(children(written), children(over_groups), strict=False):
        found = _written(before, after, name)
        if not (isinstance(found, ColumnRef) and found.name == name):
            return found
    return ColumnRef(name)
