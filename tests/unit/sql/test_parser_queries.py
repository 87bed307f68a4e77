"""Queries as syntax trees."""

from __future__ import annotations

import pytest

from hayase.sql.ast.expressions import ColumnRef, Comparison, ComparisonOperator, FieldRef, FunctionCall, IntegerLiteral
from hayase.sql.ast.queries import (
    AllColumns,
    AllFields,
    Emit,
    JoinKind,
    JoinRelation,
    Query,
    SingleColumn,
    SourceRelation,
    Window,
    WindowKind,
    Within,
)
from hayase.sql.ast.statements import SelectQuery
from hayase.sql.errors import ParseFailedError
from hayase.sql.grammar.parser import parse_statement


def query(text: str) -> Query:
    statement = parse_statement(text).statement
    assert isinstance(statement, SelectQuery)
    return statement.query


def test_items_have_aliases_stars_and_fields() -> None:
    items = query("SELECT a, b AS key, c date, s.*, *, a->b->*, t.x->* FROM s").select
    assert items == (
        SingleColumn(ColumnRef("A")),
        SingleColumn(ColumnRef("B"), "KEY"),
        SingleColumn(ColumnRef("C"), "DATE"),
        AllColumns("S"),
        AllColumns(),
        AllFields(FieldRef(ColumnRef("A"), "B")),
        AllFields(ColumnRef("X", "T")),
    )


def test_all_clauses_in_their_order() -> None:
    found = query(
        "SELECT a FROM s WINDOW TUMBLING (SIZE 1 HOUR) WHERE a > 1 GROUP BY a, b PARTITION BY c HAVING COUNT(*) = 2 "
        "EMIT FINAL LIMIT 3;"
    )
    assert found.window == Window(WindowKind.TUMBLING, 3_600_000)
    assert found.where == Comparison(ComparisonOperator.GREATER, ColumnRef("A"), IntegerLiteral(1))
    assert found.group_by == (ColumnRef("A"), ColumnRef("B"))
    assert found.partition_by == (ColumnRef("C"),)
    assert found.having == Comparison(ComparisonOperator.EQUAL, FunctionCall("COUNT"), IntegerLiteral(2))
    assert (found.emit, found.limit) == (Emit.FINAL, 3)


def test_absent_clauses_are_none() -> None:
    found = query("SELECT * FROM s")
    assert (found.window, found.where, found.group_by, found.partition_by, found.having, found.emit, found.limit) == (
        None,
    ) * 7


@pytest.mark.parametrize("text", ["(a, b)", "a, b"])
def test_groupings_may_stand_in_parentheses(text: str) -> None:
    assert query(f"SELECT * FROM s GROUP BY {text}").group_by == (ColumnRef("A"), ColumnRef("B"))


def test_a_list_of_groupings_may_be_empty() -> None:
    assert query("SELECT * FROM s GROUP BY ()").group_by == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TUMBLING (SIZE 5 SECONDS)", Window(WindowKind.TUMBLING, 5_000)),
        (
            "w HOPPING (SIZE 1 DAY, ADVANCE BY 2 HOURS, RETENTION 3 DAYS, GRACE PERIOD 1 MILLISECOND)",
            Window(WindowKind.HOPPING, 86_400_000, 7_200_000, 259_200_000, 1),
        ),
        ("SESSION (20 MINUTES, GRACE PERIOD 0 SECONDS)", Window(WindowKind.SESSION, 1_200_000, grace_ms=0)),
    ],
)
def test_windows(text: str, expected: Window) -> None:
    assert query(f"SELECT COUNT(*) FROM s WINDOW {text} GROUP BY a").window == expected


def test_joins_nest_to_the_left() -> None:
    found = query(
        "SELECT * FROM a x JOIN b AS y WITHIN 1 HOUR ON x.k = y.k LEFT OUTER JOIN c ON x.k = c.k FULL JOIN d ON a = b"
    )
    outer = found.source
    assert isinstance(outer, JoinRelation) and isinstance(outer.left, JoinRelation)
    inner = outer.left.left
    assert isinstance(inner, JoinRelation)
    assert [outer.kind, outer.left.kind, inner.kind] == [JoinKind.FULL, JoinKind.LEFT, JoinKind.INNER]
    assert (inner.left, inner.right) == (SourceRelation("A", "X"), SourceRelation("B", "Y"))
    assert inner.within == Within(3_600_000, 3_600_000)


def test_within_has_two_bounds_and_grace() -> None:
    found = query("SELECT * FROM a RIGHT JOIN b WITHIN (1 SECOND, 2 SECONDS) GRACE PERIOD 3 SECONDS ON a.k = b.k")
    assert isinstance(found.source, JoinRelation)
    assert found.source.within == Within(1_000, 2_000, 3_000)


def test_emit_and_partition_are_aliases_unless_their_clause_follows() -> None:
    assert query("SELECT a emit FROM s emit EMIT CHANGES").source == SourceRelation("S", "EMIT")
    found = query("SELECT a FROM s PARTITION BY a")
    assert (found.source, found.partition_by) == (SourceRelation("S", "S"), (ColumnRef("A"),))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT DISTINCT a FROM s",
        "SELECT a FROM s ORDER BY a",
        "SELECT a FROM s UNION SELECT a FROM t",
        "SELECT a FROM (SELECT a FROM s)",
        "SELECT a FROM s, t",
        "WITH x AS (SELECT a FROM s) SELECT a FROM x",
        "SELECT a FROM s WHERE a > 1 WINDOW TUMBLING (SIZE 1 HOUR)",
    ],
)
def test_what_the_dialect_lacks_is_a_syntax_error(text: str) -> None:
    with pytest.raises(ParseFailedError, match=r"line 1:\d+: Syntax Error"):
        query(text)


def test_a_limit_is_a_whole_number() -> None:
    with pytest.raises(ParseFailedError, match="Value must be integer for command: LIMIT"):
        query("SELECT a FROM s LIMIT 1.5")


def test_a_duration_is_limited() -> None:
    with pytest.raises(ParseFailedError, match="Invalid duration: 99999999999999999999 DAYS"):
        query("SELECT a FROM s WINDOW TUMBLING (SIZE 99999999999999999999 DAYS) GROUP BY a")
