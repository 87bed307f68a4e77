"""Column forms of expressions are equal to the row forms."""

from __future__ import annotations

import math
from decimal import Decimal
from itertools import product
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hayase.sql.ast.expressions import (
    Arithmetic,
    ArithmeticOperator,
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
    Like,
    Logical,
    LogicalOperator,
    Negative,
    Not,
    NullLiteral,
    SearchedCase,
    SimpleCase,
    StringLiteral,
    Subscript,
    When,
)
from hayase.sql.expressions.columns import compile_columns
from hayase.sql.expressions.rows import compile_row
from hayase.sql.functions.declarations import declared_in
from hayase.sql.functions.registry import FunctionRegistry, scalar
from hayase.sql.grammar.parser import parse_expression
from hayase.sql.types.column_types import dtype_of
from hayase.sql.types.sql_types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIMESTAMP,
    ArrayType,
    DecimalType,
    SqlType,
    StructType,
)

COLUMNS: dict[str, SqlType] = {
    "I": INTEGER,
    "J": INTEGER,
    "B": BIGINT,
    "D": DOUBLE,
    "E": DOUBLE,
    "M": DecimalType(4, 2),
    "N": DecimalType(18, 6),
    "S": STRING,
    "T": STRING,
    "F": BOOLEAN,
    "DT": DATE,
    "TS": TIMESTAMP,
    "A": ArrayType(BIGINT),
    "X": StructType((("P", INTEGER), ("Q", STRING))),
    "ROWTIME": BIGINT,
}
INTEGERS = st.sampled_from([0, 1, -1, 2, 7, -7, 2**31 - 1, -(2**31)]) | st.integers(-(2**31), 2**31 - 1)
BIGINTS = st.sampled_from([0, 1, -1, 3, -3, 2**53 + 1, 2**63 - 1, -(2**63)]) | st.integers(-(2**63), 2**63 - 1)
DOUBLES = st.sampled_from([0.0, -0.0, 1.5, -2.5, math.nan, math.inf, -math.inf, 1e300, 5e-324]) | st.floats()
TEXTS = st.sampled_from(["", "a", "b", "ab", "a%", "é", "日本", "a\nb", "A.b"]) | st.text(max_size=4)


def abs_zero(value: Decimal) -> Decimal:
    """Zero has no sign in SQL."""
    return value or value.copy_abs()


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "I": INTEGERS,
    "J": INTEGERS,
    "B": BIGINTS,
    "D": DOUBLES,
    "E": DOUBLES,
    "M": st.decimals(min_value=Decimal("-99.99"), max_value=Decimal("99.99"), places=2).map(abs_zero),
    "N": st.decimals(min_value=-(10**12) + 1, max_value=10**12 - 1, places=6).map(abs_zero),
    "S": TEXTS,
    "T": TEXTS,
    "F": st.booleans(),
    "DT": st.integers(-100_000, 100_000),
    "TS": st.integers(-(10**13), 10**13),
    "A": st.lists(st.none() | BIGINTS, max_size=3),
    "X": st.fixed_dictionaries({"P": st.none() | INTEGERS, "Q": st.none() | TEXTS}),
    "ROWTIME": st.integers(0, 2 * 10**12),
}
ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()}), min_size=1, max_size=8
)


@scalar("DOUBLED", "(BIGINT) -> BIGINT", columns=lambda value: value * 2)
def doubled(value: int) -> int:
    return (2 * value + 2**63) % 2**64 - 2**63


@scalar("ROWS_ONLY", "(BIGINT) -> BIGINT")
def rows_only(value: int) -> int:
    return value


FUNCTIONS = FunctionRegistry(declared_in(__name__))
Strategy = st.SearchStrategy[Expression]
NUMERIC_OPERATORS = st.sampled_from(list(ArithmeticOperator))


def numbers(depth: int) -> Strategy:
    leaves: Strategy = (
        st.sampled_from("IJB").map(ColumnRef)
        | INTEGERS.filter(lambda value: value > -(2**31)).map(IntegerLiteral)
        | (st.integers(2**31, 2**63 - 1) | st.integers(-(2**63) + 1, -(2**31) - 1)).map(BigintLiteral)
        | st.just(FieldRef(ColumnRef("X"), "P"))
        | st.integers(-3, 3).map(lambda index: Subscript(ColumnRef("A"), IntegerLiteral(index)))
    )
    if depth == 0:
        return leaves
    inner = numbers(depth - 1)
    return (
        leaves
        | st.builds(Arithmetic, NUMERIC_OPERATORS, inner, inner)
        | st.builds(Negative, inner)
        | st.builds(Cast, inner | doubles(depth - 1) | decimals(0), st.sampled_from([INTEGER, BIGINT]))
        | st.builds(lambda one: FunctionCall("DOUBLED", (one,)), inner)
        | branches(depth, st.builds(Cast, inner | doubles(depth - 1), st.just(BIGINT)))
    )


def doubles(depth: int) -> Strategy:
    leaves: Strategy = st.sampled_from("DE").map(ColumnRef) | st.floats(allow_nan=False, allow_infinity=False).map(
        DoubleLiteral
    )
    if depth == 0:
        return leaves
    inner = doubles(depth - 1)
    operators = st.sampled_from([one for one in ArithmeticOperator if one is not ArithmeticOperator.MODULUS])
    return (
        leaves
        | st.builds(Arithmetic, operators, inner, inner | numbers(depth - 1) | decimals(0))
        | st.builds(Negative, inner)
        | st.builds(Cast, numbers(depth - 1) | decimals(0), st.just(DOUBLE))
        | branches(depth, inner)
    )


def decimals(depth: int) -> Strategy:
    literals = st.sampled_from(["0.0", "1.5", "-0.001", "3", "99.99", "-12345.678"])
    leaves: Strategy = st.sampled_from("MN").map(ColumnRef) | literals.map(Decimal).map(DecimalLiteral)
    if depth == 0:
        return leaves
    inner = decimals(depth - 1)
    sizes = st.sampled_from([(4, 2), (10, 0), (20, 8), (38, 3)]).map(lambda size: DecimalType(*size))
    return (
        leaves
        | st.builds(Arithmetic, NUMERIC_OPERATORS, inner, inner)
        | st.builds(Arithmetic, NUMERIC_OPERATORS, inner, st.sampled_from("IB").map(ColumnRef))
        | st.builds(Negative, inner)
        | st.builds(Cast, inner | numbers(depth - 1), sizes)
        | branches(depth, st.builds(Cast, inner, st.just(DecimalType(20, 8))))
    )


def texts(depth: int) -> Strategy:
    leaves: Strategy = (
        st.sampled_from("ST").map(ColumnRef) | TEXTS.map(StringLiteral) | st.just(FieldRef(ColumnRef("X"), "Q"))
    )
    if depth == 0:
        return leaves
    inner = texts(depth - 1)
    return (
        leaves
        | st.builds(Arithmetic, st.just(ArithmeticOperator.ADD), inner, inner)
        | st.builds(Cast, numbers(depth - 1) | conditions(depth - 1), st.just(STRING))
        | branches(depth, inner)
    )


def branches(depth: int, result: Strategy) -> Strategy:
    searched = st.builds(When, conditions(depth - 1), result)
    simple = st.builds(When, numbers(0), result)
    default = st.none() | result | st.just(NullLiteral())
    return st.builds(SearchedCase, st.lists(searched, min_size=1, max_size=2).map(tuple), default) | st.builds(
        SimpleCase, numbers(0), st.lists(simple, min_size=1, max_size=2).map(tuple), default
    )


def conditions(depth: int) -> Strategy:
    leaves: Strategy = st.just(ColumnRef("F")) | st.booleans().map(BooleanLiteral)
    if depth == 0:
        return leaves
    below = depth - 1
    inner = conditions(below)
    operators = st.sampled_from(list(ComparisonOperator))
    numeric = numbers(below) | doubles(below) | decimals(below)
    times = st.sampled_from(["DT", "TS"]).map(ColumnRef) | st.sampled_from(["1970-01-04", "2020"]).map(StringLiteral)
    return (
        leaves
        | st.builds(Comparison, operators, numeric, numeric)
        | st.builds(Comparison, operators, texts(below), texts(below))
        | st.builds(Comparison, operators, st.sampled_from(["DT", "TS"]).map(ColumnRef), times)
        | st.builds(Comparison, operators, st.just(ColumnRef("ROWTIME")), st.just(StringLiteral("2018")))
        | st.builds(Between, numeric, numeric, numeric)
        | st.builds(InList, numbers(below), st.lists(numeric, min_size=1, max_size=3).map(tuple))
        | st.builds(InList, texts(below), st.lists(texts(below), min_size=1, max_size=3).map(tuple))
        | st.builds(
            Like, texts(below), st.sampled_from(["a%", "_", "%b", "a\\%", "a.b", "%\n%", "日_"]).map(StringLiteral)
        )
        | st.builds(Logical, st.sampled_from(list(LogicalOperator)), inner, inner)
        | st.builds(Not, inner)
        | st.builds(IsNull, inner | numeric | texts(below), st.booleans())
    )


def frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    schema = {name: dtype for name, type_ in COLUMNS.items() if (dtype := dtype_of(type_)) is not None}
    return pl.DataFrame({name: [row[name] for row in rows] for name in schema}, schema=schema)


def check_both_forms(expression: Expression, rows: list[dict[str, Any]]) -> None:
    """The column form is unsure exactly where the row form fails, and has its values elsewhere."""
    by_row = compile_row(expression, COLUMNS, FUNCTIONS)
    by_column = compile_columns(expression, COLUMNS, FUNCTIONS)
    if by_column is None:
        return
    failures: list[Exception] = []
    by_row.report = failures.append
    result = frame(rows).with_columns(value=by_column.value, unsure=by_column.unsure)
    for row, value, unsure in zip(rows, result["value"].to_list(), result["unsure"].to_list(), strict=True):
        failures.clear()
        try:
            expected = by_row(row)
        except (ArithmeticError, ValueError) as error:
            failures.append(error)
        assert unsure is bool(failures)
        if not failures:
            assert repr(value) == repr(expected) or (isinstance(value, Decimal) and value == expected)
            if isinstance(value, Decimal):
                assert value.as_tuple().exponent == expected.as_tuple().exponent


@pytest.mark.long
@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
@given(expression=numbers(2) | doubles(2) | decimals(2) | texts(2) | conditions(2), rows=ROWS)
def test_both_forms_agree(expression: Expression, rows: list[dict[str, Any]]) -> None:
    check_both_forms(expression, rows)


EXTREMES: dict[str, list[Any]] = {
    "I": [None, 0, 1, -1, 7, -9999, 2**31 - 1, -(2**31)],
    "J": [None, 0, -1, 2, -7],
    "B": [None, 0, 2**53 + 1, 2**63 - 1, -(2**63)],
    "D": [None, 0.0, -0.0, 2.5, 9.3e18, math.nan, math.inf, -math.inf],
    "M": [None, *map(Decimal, ["0.00", "0.50", "-0.50", "0.05", "1.50", "-99.99"])],
    "N": [None, *map(Decimal, ["0.000000", "0.005000", "-0.005000", "0.250000", "999999999999.999999"])],
    "F": [None, True, False],
}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("I / J", "IJ"),
        ("I % J", "IJ"),
        ("I * J - B", "IJB"),
        ("-I", "I"),
        ("-B", "B"),
        ("B / J", "BJ"),
        ("CAST(B AS INT)", "B"),
        ("CAST(D AS INT)", "D"),
        ("CAST(D AS BIGINT)", "D"),
        ("D = B", "DB"),
        ("D <> D", "D"),
        ("D IS DISTINCT FROM D", "D"),
        ("D < 2.5", "D"),
        ("D / I", "DI"),
        ("D / 4.9E1", "DI"),
        ("2.5E0 / D", "DI"),
        ("I / -0.0", "I"),
        ("CAST(I AS DOUBLE) / 100E0", "I"),
        ("M + N", "MN"),
        ("M * I", "MI"),
        ("M / N", "MN"),
        ("N % M", "MN"),
        ("-M", "M"),
        ("M > 0.5", "M"),
        ("M = I", "MI"),
        ("M < D", "MD"),
        ("CAST(M AS DECIMAL(2, 1))", "M"),
        ("CAST(N AS DECIMAL(4, 2))", "N"),
        ("CAST(M AS INT)", "M"),
        ("CAST(N AS BIGINT)", "N"),
        ("CAST(M AS DOUBLE)", "M"),
        ("CAST(I AS DECIMAL(3, 2))", "I"),
        ("F AND I / J > 1", "FIJ"),
        ("F OR I / J > 1", "FIJ"),
        ("I / J > 1 AND F", "FIJ"),
        ("NOT F", "F"),
        ("CASE WHEN F THEN I / J WHEN J = 0 THEN -1 ELSE I % J END", "FIJ"),
        ("I IN (7, J, 1 / J)", "IJ"),
        ("I / J IN (7, NULL, -1, '2', 1 / I, 0)", "IJ"),
        ("B IN (0, 9007199254740993, 9223372036854775807)", "B"),
        ("D IN (0.0, 2.5, 9.3E18)", "D"),
        ("D IN (2, '0', 9223372036854775807)", "D"),
        ("M IN (0.5, -0.50, 1, '0.05')", "M"),
        ("N IN (0.005, I, 999999999999.999999)", "NI"),
        ("F IN (TRUE, 'false')", "F"),
        ("(I + J) * (I - J) + B", "IJB"),
        ("D + D * I - 1", "DI"),
        ("J BETWEEN -1 AND 1 / J", "J"),
        ("I IS NULL OR J IS NOT NULL", "IJ"),
    ],
)
def test_both_forms_agree_on_extremes(text: str, names: str) -> None:
    nothing = dict.fromkeys(COLUMNS)
    rows = [
        {**nothing, **dict(zip(names, values, strict=True))} for values in product(*(EXTREMES[name] for name in names))
    ]
    expression = parse_expression(text)
    assert compile_columns(expression, COLUMNS, FUNCTIONS) is not None
    check_both_forms(expression, rows)


@pytest.mark.long
@pytest.mark.parametrize(
    "text",
    [
        "ROWS_ONLY(B)",
        "D % 2",
        "CAST(D AS STRING)",
        "ARRAY[I]",
        "S LIKE T",
        "A[I]",
        "CAST(S AS INT)",
        "NULL",
        "DT = S",
        "CASE " + " ".join(f"WHEN I = {number} THEN {number}" for number in range(2000)) + " END",
        "I IN (" + ", ".join(f"J + {number}" for number in range(1900)) + ")",
    ],
)
def test_what_has_no_column_form_is_computed_by_row(text: str) -> None:
    assert compile_columns(parse_expression(text), COLUMNS, FUNCTIONS) is None


def test_a_list_of_constants_is_one_look_up_in_both_forms() -> None:
    text = "I IN (" + ", ".join(str(number) for number in range(1900)) + ")"
    form = compile_columns(parse_expression(text), COLUMNS, FUNCTIONS)
    assert form is not None
    assert "is_in" in str(form.value) and len(str(form.value)) < 1000


def test_a_chain_of_operators_asks_each_operand_once_whether_it_is_null() -> None:
    form = compile_columns(parse_expression(" + ".join(["J"] * 100)), COLUMNS, FUNCTIONS)
    assert form is not None
    assert str(form.unsure).count("is_null") == 100


def test_an_operand_that_is_not_reached_leaves_no_row_to_the_row_form() -> None:
    form = compile_columns(parse_expression("J <> 0 AND I / J > 1"), COLUMNS, FUNCTIONS)
    assert form is not None
    data = pl.DataFrame({"I": [4, 4], "J": [0, 2]}, schema={"I": pl.Int32, "J": pl.Int32})
    assert data.select(form.value.alias("v"), form.unsure.alias("u")).rows() == [(False, False), (True, False)]
