"""Expressions over rows: types, values, failures."""

from __future__ import annotations

import pickle
from decimal import Decimal
from typing import Any

import pytest
from tests.unit.sql.expression_functions import registry

from hayase.sql.errors import StatementError
from hayase.sql.expressions.rows import RowExpression, compile_projection, compile_row
from hayase.sql.expressions.typing import type_of
from hayase.sql.grammar.parser import parse_expression
from hayase.sql.types.sql_types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    ArrayType,
    DecimalType,
    MapType,
    SqlType,
    StructType,
)

COLUMNS: dict[str, SqlType] = {
    "I": INTEGER,
    "J": INTEGER,
    "B": BIGINT,
    "D": DOUBLE,
    "E": DecimalType(4, 2),
    "S": STRING,
    "T": STRING,
    "F": BOOLEAN,
    "G": BOOLEAN,
    "A": ArrayType(INTEGER),
    "M": MapType(STRING, INTEGER),
    "X": StructType((("P", INTEGER), ("Q", STRING))),
    "DT": DATE,
    "TM": TIME,
    "TS": TIMESTAMP,
    "BIN": BYTES,
    "ROWTIME": BIGINT,
    "L_WINDOWSTART": BIGINT,
    "NOTHING": INTEGER,
}
ROW: dict[str, Any] = {
    "I": 7,
    "J": -2,
    "B": 2**40,
    "D": 1.5,
    "E": Decimal("10.10"),
    "S": "foo",
    "T": "f%",
    "F": True,
    "G": None,
    "A": [1, 2, 3],
    "M": {"a": 1},
    "X": {"P": 4, "Q": None},
    "DT": 3,
    "TM": 60_000,
    "TS": 1000,
    "BIN": b"!",
    "ROWTIME": 1_600_000_000_000,
    "L_WINDOWSTART": 0,
    "NOTHING": None,
}


def compiled(text: str) -> RowExpression:
    return compile_row(parse_expression(text), COLUMNS, registry(), {"prefix": "is"})


@pytest.mark.parametrize(
    ("text", "type_", "value"),
    [
        ("I + B * 2", BIGINT, 7 + 2**41),
        ("I + 2147483647", INTEGER, 7 + 2147483647 - 2**32),
        ("B * 16777216 * 2", BIGINT, 0),
        ("-(I + 2147483641 )", INTEGER, -(2**31)),
        ("J / 3", INTEGER, 0),
        ("-7 / 2", INTEGER, -3),
        ("-7 % 2", INTEGER, -1),
        ("I / D", DOUBLE, 7 / 1.5),
        ("D / 0", DOUBLE, float("inf")),
        ("E + I", DecimalType(13, 2), Decimal("17.10")),
        ("E / 3", DecimalType(15, 13), Decimal("3.3666666666667")),
        ("E * D", DOUBLE, 10.1 * 1.5),
        ("-E", DecimalType(4, 2), Decimal("-10.10")),
        ("S + '-' || T", STRING, "foo-f%"),
        ("1.50", DecimalType(3, 2), Decimal("1.50")),
        ("0.08", DecimalType(2, 2), Decimal("0.08")),
        ("1E1", DOUBLE, 10.0),
    ],
)
def test_arithmetic_is_that_of_java(text: str, type_: SqlType, value: Any) -> None:
    expression = compiled(text)
    assert expression.type == type_
    result = expression(ROW)
    assert result == value and type(result) is type(value)
    if isinstance(value, Decimal):
        assert result.as_tuple() == value.as_tuple()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("I = 7", True),
        ("I < 7.5", True),
        ("E = 10.1", True),
        ("D = 1.5", True),
        ("D < E", True),
        ("NOTHING = 1", False),
        ("NOTHING <> 1", False),
        ("NOTHING = NOTHING", False),
        ("NOT (NOTHING = 1)", True),
        ("NOTHING IS DISTINCT FROM 1", True),
        ("NOTHING IS DISTINCT FROM NOTHING", False),
        ("NOTHING IS NOT DISTINCT FROM NULL", True),
        ("S > 'fo'", True),
        ("A = ARRAY[1, 2, 3]", True),
        ("X IS DISTINCT FROM STRUCT(P := 4, Q := 'x')", True),
        ("DT = '1970-01-04'", True),
        ("'1970-01' < DT", True),
        ("TM = '00:01'", True),
        ("TS >= '1970-01-01T00:00:01'", True),
        ("TS < DT", True),
        ("DT = CONCATENATED", True),
        ("BIN = 'IQ=='", True),
        ("ROWTIME BETWEEN '2020' AND '2021-01-01T00:00:00+01:00'", True),
        ("'1970-01-01T00:00:00Z' = L_WINDOWSTART", True),
        ("I BETWEEN 7 AND 8", True),
        ("I NOT BETWEEN 7 AND 8", False),
        ("NOTHING BETWEEN 0 AND 1", False),
        ("F AND G", None),
        ("G AND F", None),
        ("G AND FALSE", False),
        ("G OR F", True),
        ("F AND I = 7 AND S = 'foo'", True),
        ("FALSE OR G OR I = 8", None),
        ("NOT G", None),
        ("G IS NULL", True),
        ("F IS NOT NULL", True),
        ("I IN (1, 7)", True),
        ("I IN (1, 7.0, '8')", True),
        ("I IN ('2147483648')", False),
        ("NOTHING IN (NOTHING)", False),
        ("F IN ('no', 'Ye')", True),
        ("S IN ('x', 'foo')", True),
        ("A IN (ARRAY['1', 2, 3])", True),
        ("M IN (MAP('a' := '1'))", True),
        ("X IN (STRUCT(P := '4'))", True),
        ("X IN (STRUCT(P := 4, Q := 'x', R := 1))", False),
        ("STRUCT(P := I) IN (STRUCT(P := I, Q := 'x'))", False),
        ("S LIKE 'f%'", True),
        ("S LIKE '_o_'", True),
        ("S LIKE T", True),
        ("T LIKE 'f\\%'", True),
        ("S LIKE 'f!%' ESCAPE '!'", False),
        ("S NOT LIKE 'o%'", True),
    ],
)
def test_a_predicate_has_a_truth_value(text: str, value: object) -> None:
    columns = {**COLUMNS, "CONCATENATED": STRING}
    expression = compile_row(parse_expression(text), columns, registry())
    assert expression.type == BOOLEAN
    assert expression({**ROW, "CONCATENATED": "1970-01-04"}) is value


@pytest.mark.parametrize(
    ("text", "type_", "value"),
    [
        ("A[1]", INTEGER, 1),
        ("A[-1]", INTEGER, 3),
        ("A[0]", INTEGER, None),
        ("A[4]", INTEGER, None),
        ("M['a']", INTEGER, 1),
        ("M['b']", INTEGER, None),
        ("X->P", INTEGER, 4),
        ("ARRAY[null, 10, '2e1', I, B]", ArrayType(DecimalType(19, 0)), [None, 10, 20, 7, 2**40]),
        ("ARRAY['1', 2]", ArrayType(INTEGER), [1, 2]),
        ("MAP(S := F, 10 := 'no')", MapType(STRING, BOOLEAN), {"foo": True, "10": False}),
        ("STRUCT(p := I, `q` := S)", StructType((("P", INTEGER), ("q", STRING))), {"P": 7, "q": "foo"}),
        ("CASE WHEN I > 7 THEN 'a' WHEN F THEN S END", STRING, "foo"),
        ("CASE WHEN G THEN 1 ELSE null END", INTEGER, None),
        ("CASE I WHEN 7 THEN 1 ELSE 2 END", INTEGER, 1),
        ("CAST(null AS BIGINT)", BIGINT, None),
        ("CAST(D AS STRING)", STRING, "1.5"),
        ("FILTER(A, i => i >= J + 4)", ArrayType(INTEGER), [2, 3]),
        ("TRANSFORM(A, i => REDUCE(A, 0, (s, j) => s + i * j))", ArrayType(INTEGER), [6, 12, 18]),
        ("REDUCE(A, B, (s, x) => x)", BIGINT, 3),
        ("SHIFT(DAYS, 2)", STRING, "2 DAYS"),
        ("DAYS_OF('1970-01-03')", INTEGER, 2),
        ("SHOWN(I)", STRING, "is INTEGER 7"),
        ("SHOWN(NULL)", STRING, "is None None"),
        ("ABS(NOTHING)", INTEGER, None),
        ("ABS(D)", DOUBLE, 1.5),
    ],
)
def test_parts_constructors_and_functions(text: str, type_: SqlType, value: object) -> None:
    expression = compiled(text)
    assert expression.type == type_
    assert expression(ROW) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("UNKNOWN + 1", "Unknown column UNKNOWN."),
        ("A < A", "Cannot compare A (ARRAY<INTEGER>) to A (ARRAY<INTEGER>) with LESS_THAN."),
        ("I >= 'not an int'", "Cannot compare I (INTEGER) to 'not an int' (STRING) with GREATER_THAN_OR_EQUAL."),
        ("NULL <> NULL", "Comparison with NULL not supported: NULL <> NULL"),
        ("I + S", "Unsupported arithmetic types. INTEGER STRING"),
        ("CASE WHEN F THEN null ELSE null END", "Invalid Case expression. All case branches have NULL type"),
        ("CASE WHEN F THEN 1 ELSE 'a' END", "Type for the default clause should be the same"),
        ("CASE WHEN F THEN 1 WHEN G THEN 'a' END", "Type for all 'THEN' clauses should be the same"),
        ("CASE WHEN I THEN 1 END", "WHEN operand type should be boolean"),
        ("ARRAY[]", "Array constructor cannot be empty. Please supply at least one element (see https://"),
        ("ARRAY[NULL]", "Cannot construct an array with all NULL elements (see https://"),
        ("MAP('a' := NULL)", "Cannot construct a map with all NULL values"),
        ("MAP(NULL := 1)", "Cannot construct a map with all NULL keys"),
        ("ARRAY[1, 'no number']", 'invalid input syntax for type INTEGER: "no number".'),
        ("X->R", "Could not find field 'R' in 'X->R'"),
        ("I->R", "Expected STRUCT type, got: INTEGER"),
        ("I[1]", "does not apply to INTEGER"),
        ("A['x']", "The index of an ARRAY is INTEGER or BIGINT, not STRING"),
        ("NOT I", "should be BOOLEAN"),
        ("I LIKE 'x'", "should be STRING"),
        ("REPEAT(S, I)", "Parameter 2 passed to function REPEAT must be a literal constant, but was expression: 'I'"),
        ("ROWTIME > 'yesterday'", "Failed to parse timestamp 'yesterday'"),
    ],
)
def test_types_that_do_not_fit_are_named(text: str, message: str) -> None:
    with pytest.raises(StatementError) as failed:
        type_of(parse_expression(text), COLUMNS, registry())
    assert message in failed.value.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("F IN (true, 'Not a boolean')", 'invalid input syntax for type BOOLEAN: "Not a boolean".'),
        (
            "F IN (true, 10)",
            "operator does not exist: BOOLEAN = INTEGER (10)\nHint: You might need to add explicit type",
        ),
        ("I IN (10, true)", "operator does not exist: INTEGER = BOOLEAN (true)"),
        ("E IN (10, true)", "operator does not exist: DECIMAL(12, 2) = BOOLEAN (true)"),
        ("B IN (10, S)", "operator does not exist: BIGINT = STRING (S)"),
        ("A IN (ARRAY['10', 'not 10'])", 'invalid input syntax for type INTEGER: "not 10"'),
        ("X IN (STRUCT(P := F))", "= STRUCT<`P` BOOLEAN> (STRUCT(P:=F))"),
        ("CAST(BIN AS STRING)", "Cast of BYTES to STRING is not supported"),
    ],
)
def test_lists_of_in_and_casts_are_checked_when_compiled(text: str, message: str) -> None:
    expression = parse_expression(text)
    assert type_of(expression, COLUMNS, registry()) is not None
    with pytest.raises(StatementError) as failed:
        compile_row(expression, COLUMNS, registry())
    assert message in failed.value.message


@pytest.mark.parametrize(
    "text",
    ["I / 0", "E % 0", "NOTHING + 1", "-NOTHING", "CAST(S AS INT)", "FAIL(I)", "DT = S", "TRANSFORM(A, x => x / 0)"],
)
def test_what_fails_raises(text: str) -> None:
    with pytest.raises(Exception, match=r".+"):
        compiled(text)(ROW)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("ARRAY[I, I / 0]", [7, None]),
        ("MAP('a' := I / 0, 'b' := 1)", {"a": None, "b": 1}),
        ("STRUCT(p := FAIL(I))", {"P": None}),
        ("SHOWN(FAIL(I))", "is STRING None"),
        ("COALESCE(I / 0, NOTHING, I)", 7),
        ("SHOWN(ABS(I / 0))", "is INTEGER None"),
    ],
)
def test_a_failing_argument_or_item_is_null_and_reported(text: str, value: object) -> None:
    expression = compiled(text)
    assert expression(ROW) == value
    failures: list[Exception] = []
    expression.report = failures.append
    assert expression(ROW) == value
    assert len(failures) == 1


@pytest.mark.parametrize(
    "text",
    [
        "CASE WHEN F THEN S ELSE FAIL(1) END",
        "CASE WHEN F THEN S WHEN FAIL(1) = 'x' THEN S END",
        "COALESCE(S, FAIL(1))",
        "FALSE AND FAIL(1) = 'x'",
        "F OR FAIL(1) = 'x'",
    ],
)
def test_branches_that_are_not_taken_are_not_computed(text: str) -> None:
    expression = compiled(text)
    failures: list[Exception] = []
    expression.report = failures.append
    expression(ROW)
    assert not failures


def test_a_projection_computes_each_of_its_expressions() -> None:
    texts = {"SUM": "I + J", "BAD": "I / 0", "PART": "COALESCE(FAIL(I), S)", "I": "I"}
    items = [(name, parse_expression(text)) for name, text in texts.items()]
    projection = pickle.loads(pickle.dumps(compile_projection(items, COLUMNS, registry())))
    failures: list[tuple[str, str]] = []
    projection.report = lambda name, error: failures.append((name, str(error)))
    assert projection(ROW) == {"SUM": 5, "BAD": None, "PART": "foo", "I": 7}
    assert failures == [("BAD", "/ by zero"), ("PART", "fails with 7")]
    assert projection.types == (("SUM", INTEGER), ("BAD", INTEGER), ("PART", STRING), ("I", INTEGER))


def test_an_empty_projection_is_an_empty_row() -> None:
    assert compile_projection([], COLUMNS, registry())(ROW) == {}


def test_an_expression_survives_pickling() -> None:
    expression = pickle.loads(pickle.dumps(compiled("S LIKE 'f%' AND E > 1.5")))
    assert expression(ROW) is True and expression.type == BOOLEAN


def test_code_has_nothing_of_the_statement() -> None:
    source = compiled("S = 'secret' OR I = 12345").source
    assert "secret" not in source and "12345" not in source


def test_impure_functions_make_an_expression_impure() -> None:
    assert compiled("ABS(D)").pure
    assert not compiled("TRANSFORM(A, x => CHANCE())").pure


@pytest.mark.parametrize(
    ("opening", "inner", "closing", "value"),
    [
        ("ABS(", "I / 1", ")", 7),
        ("COALESCE(NOTHING, ", "I / 1", ")", 7),
        ("CASE WHEN F THEN ", "I / 1", " END", 7),
        ("1 + (", "I", ")", 35),
        ("NOT (", "F", ")", True),
        ("REDUCE(TRANSFORM(ARRAY[I], x => ", "I / 1", "), 0, (s, y) => y)", 7),
    ],
)
def test_deep_expressions_compile(opening: str, inner: str, closing: str, value: object) -> None:
    text = opening * 28 + inner + closing * 28  # three calls within each other are within the limit of 150 levels
    assert compiled(text)(ROW) == value


def test_a_long_chain_of_or_compiles() -> None:
    assert compiled(" OR ".join(f"I = {number}" for number in range(8, 140)) + " OR F")(ROW) is True
