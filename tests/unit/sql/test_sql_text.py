"""Syntax trees back as SQL: reading the text gives an equal tree."""

from __future__ import annotations

from decimal import Decimal
from operator import itemgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from hayase.sql.ast.expressions import (
    Arithmetic,
    ArithmeticOperator,
    ArrayConstructor,
    Between,
    BigintLiteral,
    BooleanLiteral,
    Cast,
    ColumnRef,
    Comparison,
    ComparisonOperator,
    DecimalLiteral,
    DoubleLiteral,
    Expression,
    FieldRef,
    FunctionCall,
    InList,
    IntegerLiteral,
    IsNull,
    Lambda,
    Like,
    Logical,
    LogicalOperator,
    MapConstructor,
    Negative,
    Not,
    NullLiteral,
    SearchedCase,
    SimpleCase,
    StringLiteral,
    StructConstructor,
    Subscript,
    TimeUnit,
    When,
)
from hayase.sql.ast.statement_text import statement_text
from hayase.sql.ast.text import expression_text, query_text
from hayase.sql.ast.words import NON_RESERVED, RESERVED
from hayase.sql.grammar.parser import parse_expression, parse_script, parse_statement
from hayase.sql.types.sql_types import (
    BIGINT,
    STRING,
    TIMESTAMP,
    ArrayType,
    DecimalType,
    MapType,
    NamedType,
    SqlType,
    StructType,
)

names = st.one_of(
    st.sampled_from(sorted(RESERVED | NON_RESERVED)),
    st.from_regex(r"[A-Za-z_0-9][A-Za-z0-9_@]{0,6}", fullmatch=True),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=6),
)
types: SearchStrategy[SqlType] = st.recursive(
    st.one_of(
        st.sampled_from([BIGINT, STRING, TIMESTAMP, DecimalType(10, 2)]),
        st.builds(NamedType, st.from_regex(r"T[a-z0-9]{1,5}", fullmatch=True)),
    ),
    lambda inner: st.one_of(
        st.builds(ArrayType, inner),
        st.builds(MapType, inner, inner),
        st.builds(StructType, st.lists(st.tuples(names, inner), max_size=3, unique_by=itemgetter(0)).map(tuple)),
    ),
    max_leaves=4,
)
literals: SearchStrategy[Expression] = st.one_of(
    st.just(NullLiteral()),
    st.builds(BooleanLiteral, st.booleans()),
    st.builds(IntegerLiteral, st.integers(-(2**31), 2**31 - 1)),
    st.builds(BigintLiteral, st.one_of(st.integers(2**31, 2**63 - 1), st.integers(-(2**63), -(2**31) - 1))),
    st.builds(DecimalLiteral, st.decimals(allow_nan=False, allow_infinity=False).filter(lambda n: abs(n) < 10**30)),
    st.builds(DoubleLiteral, st.floats(allow_nan=False, allow_infinity=False)),
    st.builds(StringLiteral, st.text(max_size=8)),
)


def operands(inner: SearchStrategy[Expression]) -> SearchStrategy[Expression]:
    lists = st.lists(inner, min_size=1, max_size=3).map(tuple)
    whens = st.lists(st.builds(When, inner, inner), min_size=1, max_size=2).map(tuple)
    bodies = inner.map(lambda body: Lambda(("lambda parameter",), body))
    negatable = inner.filter(lambda each: not isinstance(each, IntegerLiteral | DecimalLiteral | DoubleLiteral)).filter(
        lambda each: not isinstance(each, BigintLiteral) or each.value == -(2**63)
    )
    return st.one_of(
        st.builds(FieldRef, inner, names),
        st.builds(Subscript, inner, inner),
        st.builds(Arithmetic, st.sampled_from(ArithmeticOperator), inner, inner),
        st.builds(Comparison, st.sampled_from(ComparisonOperator), inner, inner),
        st.builds(Logical, st.sampled_from(LogicalOperator), inner, inner),
        st.builds(Negative, negatable),
        st.builds(Not, inner),
        st.builds(IsNull, inner, st.booleans()),
        st.builds(Between, inner, inner, inner),
        st.builds(InList, inner, lists),
        st.builds(Like, inner, inner, st.one_of(st.none(), st.sampled_from(["!", "'", "\\"]))),
        st.builds(SearchedCase, whens, st.one_of(st.none(), inner)),
        st.builds(SimpleCase, inner, whens, st.one_of(st.none(), inner)),
        st.builds(Cast, inner, types),
        st.builds(FunctionCall, names, st.one_of(st.just(()), lists)),
        st.builds(FunctionCall, names, st.tuples(inner, bodies)),
        st.builds(ArrayConstructor, lists),
        st.builds(MapConstructor, st.lists(st.tuples(inner, inner), max_size=2).map(tuple)),
        st.builds(StructConstructor, st.lists(st.tuples(names, inner), max_size=2).map(tuple)),
        st.builds(FunctionCall, st.just("DATEADD"), st.tuples(st.just(TimeUnit("DAYS")), inner)),
    )


columns = st.builds(ColumnRef, names, st.one_of(st.none(), names))
expressions = st.recursive(st.one_of(literals, columns), operands, max_leaves=12)


@pytest.mark.long
@given(expressions)
def test_an_expression_reads_back(expression: Expression) -> None:
    assert parse_expression(expression_text(expression)) == expression


def test_a_parameter_of_a_lambda_reads_back() -> None:
    expression = parse_expression("f(x, (k, `v`) => k + `v` + x)")
    assert parse_expression(expression_text(expression)) == expression


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a+b*2", "(A + (B * 2))"),
        ("cast(s.a as varchar)", "CAST(S.A AS STRING)"),
        ("a = 'x' and b is not null", "((A = 'x') AND (B IS NOT NULL))"),
        ("struct(f:=v)", "STRUCT(F:=V)"),
        ("case when true then null end", "(CASE WHEN true THEN null END)"),
        ("`from`->`b c`[1]", "`from`->`b c`[1]"),
        ("1e-7", "1E-7"),
        ("- - a", "-(-A)"),
    ],
)
def test_expressions_look_like_those_of_messages(text: str, expected: str) -> None:
    assert expression_text(parse_expression(text)) == expected


def test_decimals_keep_their_digits() -> None:
    assert expression_text(DecimalLiteral(Decimal("1.500"))) == "1.500"


def test_a_query_has_a_line_for_each_clause() -> None:
    statement = parse_statement(
        "select a as x, count(*) from s t window hopping (size 60 seconds, advance by 1 second) where a > 1 "
        "group by a emit changes"
    ).statement
    assert query_text(statement.query) == (  # type: ignore[attr-defined]
        "SELECT\n  A X,\n  COUNT(*)\nFROM S T\nWINDOW HOPPING ( SIZE 1 MINUTES, ADVANCE BY 1 SECONDS )\n"
        "WHERE (A > 1)\nGROUP BY A\nEMIT CHANGES"
    )


@pytest.mark.parametrize(
    "text",
    [
        "CREATE OR REPLACE SOURCE STREAM IF NOT EXISTS s (a INT KEY, h BYTES HEADER('x''y'), i `T` ARRAY) WITH (a='b')",
        "CREATE TABLE t (a INT PRIMARY KEY, hs ARRAY<STRUCT<key STRING, value BYTES>> HEADERS)",
        "CREATE TABLE IF NOT EXISTS t WITH (partitions=1) AS SELECT *, s.*, a->* FROM s GROUP BY () LIMIT 3",
        "INSERT INTO t WITH (query_id='q') SELECT a FROM s PARTITION BY a, b HAVING x",
        "INSERT INTO t (a, `b`) VALUES (1, ARRAY[2])",
        "INSERT INTO t VALUES (1)",
        "DROP STREAM IF EXISTS s DELETE TOPIC",
        "DROP TYPE IF EXISTS t",
        "DROP CONNECTOR c",
        "ALTER STREAM s ADD a INT, ADD COLUMN `b` STRING",
        "CREATE TYPE IF NOT EXISTS t AS STRUCT<a INT>",
        "CREATE SOURCE CONNECTOR IF NOT EXISTS c WITH ('a.b'='c')",
        "SET 'a'='b'",
        "UNSET 'a'",
        "ALTER SYSTEM 'a'='b'",
        "DEFINE a='it''s'",
        "UNDEFINE a",
        "TERMINATE ALL",
        "PAUSE `q-1`",
        "RESUME q",
        "LIST SINK CONNECTORS",
        "SHOW ALL TOPICS EXTENDED",
        "DESCRIBE STREAMS EXTENDED",
        "DESCRIBE s",
        "DESCRIBE FUNCTION f",
        "DESCRIBE CONNECTOR c",
        "EXPLAIN q",
        "EXPLAIN SELECT a FROM s",
        "PRINT Orders FROM BEGINNING INTERVAL 2 LIMIT 5",
        "ASSERT NOT EXISTS TOPIC Orders WITH (partitions=2) TIMEOUT 90 SECONDS",
        "ASSERT SCHEMA SUBJECT 'x-value' ID 3",
        "SELECT a FROM s WINDOW SESSION (5 MINUTES, RETENTION 1 DAY, GRACE PERIOD 3 HOURS) GROUP BY a EMIT FINAL",
        "SELECT a FROM s x LEFT JOIN t WITHIN (1 HOUR, 2 HOURS) GRACE PERIOD 1 DAY ON a = b RIGHT JOIN u ON c = d",
        "SELECT a FROM s FULL JOIN t WITHIN 0 SECONDS ON a = b JOIN v ON a = c",
    ],
)
def test_a_statement_reads_back(text: str) -> None:
    statement = parse_statement(text).statement
    assert parse_statement(statement_text(statement)).statement == statement


@pytest.mark.parametrize(
    "text",
    [
        "ASSERT VALUES s (a) VALUES (1);",
        "ASSERT NULL VALUES s KEY (1);",
        "ASSERT TABLE t (a INT PRIMARY KEY) WITH (a='b');",
        "RUN SCRIPT 'a''b.sql';",
    ],
)
def test_a_statement_of_tests_reads_back(text: str) -> None:
    (parsed,) = parse_script(text, test_statements=True)
    (again,) = parse_script(f"{statement_text(parsed.statement)};", test_statements=True)
    assert again.statement == parsed.statement
