"""Expressions as syntax trees."""

from __future__ import annotations

from decimal import Decimal

import pytest

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
    LambdaVariable,
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
from hayase.sql.ast.location import Location
from hayase.sql.errors import ParseFailedError
from hayase.sql.grammar.limits import LEVELS_OF_A_CALL, MAX_NESTING
from hayase.sql.grammar.parser import parse_expression
from hayase.sql.types.sql_types import STRING

A, B, C = ColumnRef("A"), ColumnRef("B"), ColumnRef("C")
ONE = IntegerLiteral(1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2147483647", IntegerLiteral(2147483647)),
        ("2147483648", BigintLiteral(2147483648)),
        ("-2147483648", IntegerLiteral(-2147483648)),
        ("-9223372036854775808", BigintLiteral(-9223372036854775808)),
        ("- 5", IntegerLiteral(-5)),
        ("-(-5)", IntegerLiteral(5)),
        ("+5", IntegerLiteral(5)),
        ("007", IntegerLiteral(7)),
        ("-1.50", DecimalLiteral(Decimal("-1.50"))),
        (".5", DecimalLiteral(Decimal("0.5"))),
        ("5.", DecimalLiteral(Decimal(5))),
        ("1E3", DoubleLiteral(1000.0)),
        ("-2.5e-1", DoubleLiteral(-0.25)),
        ("'it''s'", StringLiteral("it's")),
        ("''", StringLiteral("")),
        ("true", BooleanLiteral(True)),
        ("FALSE", BooleanLiteral(False)),
        ("null", NullLiteral()),
    ],
)
def test_literals(text: str, expected: Expression) -> None:
    assert parse_expression(text) == expected


def test_the_digits_behind_the_point_stay() -> None:
    literal = parse_expression("1.500")
    assert isinstance(literal, DecimalLiteral) and str(literal.value) == "1.500"


@pytest.mark.parametrize("text", ["9223372036854775808", "-9223372036854775809"])
def test_whole_numbers_that_do_not_fit_bigint_are_errors(text: str) -> None:
    with pytest.raises(ParseFailedError, match=f"Invalid numeric literal: {text}"):
        parse_expression(text)


def test_doubles_that_overflow_are_errors() -> None:
    with pytest.raises(ParseFailedError, match="Number overflows DOUBLE: -1E999"):
        parse_expression("-1E999")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", A),
        ("`a`", ColumnRef("a")),
        ("s.a", ColumnRef("A", "S")),
        ("a->b", FieldRef(A, "B")),
        ("s.a->b[1]->`c`", FieldRef(Subscript(FieldRef(ColumnRef("A", "S"), "B"), ONE), "c")),
        ("a[b]", Subscript(A, B)),
        ("map", ColumnRef("MAP")),
        ("array", ColumnRef("ARRAY")),
    ],
)
def test_columns_and_parts(text: str, expected: Expression) -> None:
    assert parse_expression(text) == expected


def add(left: Expression, right: Expression) -> Expression:
    return Arithmetic(ArithmeticOperator.ADD, left, right)


def multiply(left: Expression, right: Expression) -> Expression:
    return Arithmetic(ArithmeticOperator.MULTIPLY, left, right)


def equal(left: Expression, right: Expression) -> Expression:
    return Comparison(ComparisonOperator.EQUAL, left, right)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + b * c", add(A, multiply(B, C))),
        ("(a + b) * c", multiply(add(A, B), C)),
        ("a + b + c", add(add(A, B), C)),
        ("a || b + c", add(A, add(B, C))),
        ("a || b || c", add(add(A, B), C)),
        ("-a * b", multiply(Negative(A), B)),
        ("a -1", Arithmetic(ArithmeticOperator.SUBTRACT, A, ONE)),
        ("a % -1", Arithmetic(ArithmeticOperator.MODULUS, A, IntegerLiteral(-1))),
        (
            "a = b OR b = c AND NOT a = c",
            Logical(LogicalOperator.OR, equal(A, B), Logical(LogicalOperator.AND, equal(B, C), Not(equal(A, C)))),
        ),
        ("(a = b) = c", equal(equal(A, B), C)),
        ("a != b", Comparison(ComparisonOperator.NOT_EQUAL, A, B)),
        ("a IS DISTINCT FROM b", Comparison(ComparisonOperator.IS_DISTINCT_FROM, A, B)),
        ("a is not distinct from b", Comparison(ComparisonOperator.IS_NOT_DISTINCT_FROM, A, B)),
        ("a IS NULL", IsNull(A)),
        ("a IS NOT NULL", IsNull(A, negated=True)),
        ("a BETWEEN b AND c AND true", Logical(LogicalOperator.AND, Between(A, B, C), BooleanLiteral(True))),
        ("a NOT BETWEEN 1 AND b", Not(Between(A, ONE, B))),
        ("a IN (1, b)", InList(A, (ONE, B))),
        ("a NOT IN (1)", Not(InList(A, (ONE,)))),
        ("a LIKE 'x%' ESCAPE '!'", Like(A, StringLiteral("x%"), "!")),
        ("a NOT LIKE b", Not(Like(A, B))),
    ],
)
def test_operators_bind_by_rank(text: str, expected: Expression) -> None:
    assert parse_expression(text) == expected


@pytest.mark.parametrize("text", ["a = b = c", "a IN ()", "a LIKE", "a BETWEEN b", "CASE END", "a +", "(a", "a b"])
def test_half_expressions_are_errors(text: str) -> None:
    with pytest.raises(ParseFailedError):
        parse_expression(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CASE WHEN a THEN 1 END", SearchedCase((When(A, ONE),))),
        ("CASE a WHEN b THEN 1 ELSE c END", SimpleCase(A, (When(B, ONE),), C)),
        ("CAST(a AS VARCHAR)", Cast(A, STRING)),
        ("count(*)", FunctionCall("COUNT")),
        ("now()", FunctionCall("NOW")),
        ("f(a, g(b))", FunctionCall("F", (A, FunctionCall("G", (B,))))),
        ("ARRAY[a, 1]", ArrayConstructor((A, ONE))),
        ("array[]", ArrayConstructor(())),
        ("MAP('k' := a)", MapConstructor(((StringLiteral("k"), A),))),
        ("STRUCT(x := 1, `y` := b)", StructConstructor((("X", ONE), ("y", B)))),
    ],
)
def test_calls_and_constructors(text: str, expected: Expression) -> None:
    assert parse_expression(text) == expected


def test_parameters_of_lambdas_hide_columns() -> None:
    found = parse_expression("f(x, x => g(y, (x, y) => x + y + s.x) + a)")
    x, y = LambdaVariable("X"), LambdaVariable("Y")
    inner = Lambda(("X", "Y"), add(add(x, y), ColumnRef("X", "S")))
    body = add(FunctionCall("G", (ColumnRef("Y"), inner)), A)
    assert found == FunctionCall("F", (ColumnRef("X"), Lambda(("X",), body)))


def test_a_lambda_in_parentheses_may_have_one_parameter() -> None:
    assert parse_expression("f(a, (x) => x)") == parse_expression("f(a, x => x)")
    assert parse_expression("f((a), (b))") == FunctionCall("F", (A, B))


def test_lambdas_stand_behind_the_other_arguments() -> None:
    with pytest.raises(ParseFailedError):
        parse_expression("f(a, x => x, b)")


def test_parameters_of_a_lambda_differ() -> None:
    with pytest.raises(ParseFailedError, match="Lambda arguments have the same name: X, X"):
        parse_expression("f(a, (x, x) => x)")


def test_units_are_arguments() -> None:
    assert parse_expression("dateadd(DAY, 1, a)") == FunctionCall("DATEADD", (TimeUnit("DAYS"), ONE, A))
    assert parse_expression("f(HOURS)") == FunctionCall("F", (TimeUnit("HOURS"),))
    assert parse_expression("f(second)") == FunctionCall("F", (ColumnRef("SECOND"),))
    assert parse_expression("f(`HOURS`)") == FunctionCall("F", (ColumnRef("HOURS"),))


def test_locations_are_where_an_expression_begins() -> None:
    found = parse_expression("a +\n  f(b)")
    assert isinstance(found, Arithmetic)
    assert (found.location, found.right.location) == (Location(1, 1), Location(2, 3))


@pytest.mark.parametrize("text", ["DATE '2024-01-01'", "a AT TIME ZONE 'UTC'"])
def test_what_is_only_parsed_says_so(text: str) -> None:
    with pytest.raises(ParseFailedError, match="not supported"):
        parse_expression(text)


@pytest.mark.long
@pytest.mark.parametrize(
    "text",
    [
        "(" * 10 + "NOT " * MAX_NESTING + "a" + ")" * 10,
        " + ".join("a" * (MAX_NESTING + 1)),
        "f(" * (MAX_NESTING // LEVELS_OF_A_CALL + 1) + ")" * (MAX_NESTING // LEVELS_OF_A_CALL + 1),
        "ARRAY[" * (MAX_NESTING // LEVELS_OF_A_CALL) + "a" + "]" * (MAX_NESTING // LEVELS_OF_A_CALL),
    ],
)
def test_nesting_has_a_limit_that_the_error_names(text: str) -> None:
    with pytest.raises(ParseFailedError, match=f"more than {MAX_NESTING} levels"):
        parse_expression(text)


def test_nesting_up_to_the_limit_is_fine() -> None:
    parse_expression(" + ".join("a" * MAX_NESTING))
    parse_expression("(" * 1_000 + "a" + ")" * 1_000)


def test_lists_have_a_limit() -> None:
    with pytest.raises(ParseFailedError, match="2001 values of IN; at most 2000 are allowed"):
        parse_expression(f"a IN ({', '.join('1' * 2_001)})")
