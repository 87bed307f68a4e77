"""Queries from parse trees."""

from __future__ import annotations

from hayase.sql.ast.expressions import Expression, IntegerLiteral
from hayase.sql.ast.queries import (
    AllColumns,
    AllFields,
    Emit,
    JoinKind,
    JoinRelation,
    Query,
    Relation,
    SelectItem,
    SingleColumn,
    SourceRelation,
    Window,
    WindowKind,
    Within,
)
from hayase.sql.errors import ParseFailedError
from hayase.sql.grammar.build_expressions import build_expression
from hayase.sql.grammar.limits import MAX_NESTING
from hayase.sql.grammar.names import (
    Node,
    branch,
    branches,
    duration_of,
    find,
    leaf,
    limited,
    location_of,
    name_of,
    source_name_of,
)


def build_query(node: Node) -> Query:
    """The query that a tree stands for."""
    location = location_of(node)
    items = [_item(item) for item in branches(branch(node))]
    emit, limit = find(node, "emit"), find(node, "limit")
    return Query(
        limited(items, "items of a projection", location),
        _relation(branch(node, 1)),
        window=_window(find(node, "window")),
        where=_predicate(find(node, "where")),
        group_by=_expressions(find(node, "group_by")),
        partition_by=_expressions(find(node, "partition_by")),
        having=_predicate(find(node, "having")),
        emit=None if emit is None else Emit(leaf(emit, 1).upper()),
        limit=None if limit is None else _limit(limit),
        location=location,
    )


def _limit(node: Node) -> int:
    """The number of LIMIT; a negative one is an error of the analysis, whose text depends on the kind of query."""
    match build_expression(branch(node)):
        case IntegerLiteral(value):
            return value
    raise ParseFailedError(
        "INVALID_LIMIT",
        "Failed to prepare statement: Value must be integer for command: LIMIT",
        location=location_of(node),
    )


def _item(node: Node) -> SelectItem:
    location = location_of(node)
    match node.data:
        case "all_columns":
            return AllColumns(location=location)
        case "all_of_source":
            return AllColumns(name_of(branch(node)), location=location)
        case "all_fields":
            return AllFields(build_expression(branch(node)), location=location)
    alias = find(node, "alias")
    expression = build_expression(branch(node))
    return SingleColumn(expression, None if alias is None else name_of(branch(alias)), location=location)


def _predicate(node: Node | None) -> Expression | None:
    return None if node is None else build_expression(branch(node))


def _expressions(node: Node | None) -> tuple[Expression, ...] | None:
    if node is None:
        return None
    return limited([build_expression(part) for part in branches(node)], "expressions of a list", location_of(node))


def _relation(node: Node) -> Relation:
    first, *joins = branches(node)
    if len(joins) >= MAX_NESTING:
        raise ParseFailedError(
            "TOO_DEEP", f"{len(joins)} joins; at most {MAX_NESTING - 1} are allowed", location=location_of(node)
        )
    relation: Relation = _source(first)
    for join in joins:
        kind, source, *_, condition = branches(join)
        relation = JoinRelation(
            JoinKind[kind.data.upper()],
            relation,
            _source(source),
            build_expression(condition),
            _within(find(join, "within")),
            location=location_of(join),
        )
    return relation


def _source(node: Node) -> SourceRelation:
    alias = find(node, "source_alias")
    name = source_name_of(branch(node))
    alias_name = name if alias is None else source_name_of(branch(alias))
    return SourceRelation(name, alias_name, location=location_of(node))


def _within(node: Node | None) -> Within | None:
    if node is None:
        return None
    durations = [duration_of(part) for part in branches(node) if part.data == "duration"]
    grace = find(node, "join_grace")
    return Within(durations[0], durations[-1], None if grace is None else duration_of(branch(grace)))


def _window(node: Node | None) -> Window | None:
    if node is None:
        return None
    kind = branches(node)[-1]
    durations = [duration_of(part) for part in branches(kind) if part.data == "duration"]
    retention, grace = find(kind, "retention"), find(kind, "grace")
    return Window(
        WindowKind[kind.data.upper()],
        durations[0],
        advance_ms=durations[1] if len(durations) > 1 else None,
        retention_ms=None if retention is None else duration_of(branch(retention)),
        grace_ms=None if grace is None else duration_of(branch(grace)),
        location=location_of(kind),
    )
