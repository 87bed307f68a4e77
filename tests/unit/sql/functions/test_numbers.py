"""Functions of numbers."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from tests.unit.sql.functions.evaluation import evaluate, type_text

from hayase.sql.errors import FunctionError
from hayase.sql.types.sql_types import BIGINT, DOUBLE, DecimalType


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("ABS(-3)", 3),
        ("ABS(-3.25)", Decimal("3.25")),
        ("CEIL(-1.1)", Decimal("-1.0")),
        ("FLOOR(-1.1)", Decimal("-2.0")),
        ("CEIL(1.5E0)", 2.0),
        ("SIGN(-7)", -1),
        ("SIGN(0E0)", 0),
        ("SQRT(-1)", "NaN"),
        ("CBRT(-27)", -3.0),
        ("LN(0)", -math.inf),
        ("LOG(2, 8)", 3.0),
        ("LOG(1, 8)", "NaN"),
        ("LOG(-2, 8)", "NaN"),
        ("EXP(1000)", math.inf),
        ("POWER(2, 10)", 1024.0),
        ("POWER(0, -1)", math.inf),
        ("POWER(-8E0, 0.5E0)", "NaN"),
        ("POWER(-1E300, 3E0)", -math.inf),
        ("ASIN(2)", "NaN"),
        ("COT(0)", math.inf),
        ("SINH(-1000)", -math.inf),
        ("ATAN2(1, 1)", math.pi / 4),
        ("DEGREES(PI())", 180.0),
        ("RADIANS(180)", math.pi),
    ],
)
def test_functions_of_one_number_are_total_like_javas(text: str, value: object) -> None:
    found = evaluate(text)
    assert math.isnan(found) if value == "NaN" else found == value, found


@pytest.mark.parametrize(
    ("number", "places", "rounded", "cut"),
    [
        (1.5, 0, 2.0, 1.0),
        (-1.5, 0, -1.0, -1.0),
        (-1.7, 0, -2.0, -1.0),
        (12345.678, -1, 12350.0, 12340.0),
        (1.005, 2, 1.01, 1.0),
        (3.0, -2, 0.0, 0.0),
        (0.1, 400, 0.1, 0.1),
    ],
)
def test_a_half_is_rounded_up_at_any_place(number: float, places: int, rounded: float, cut: float) -> None:
    columns = {"N": DOUBLE}
    assert evaluate(f"ROUND(N, {places})", {"N": number}, columns) == rounded
    assert evaluate(f"TRUNC(N, {places})", {"N": number}, columns) == cut


def test_rounding_to_a_whole_number_gives_bigint_and_saturates() -> None:
    columns = {"N": DOUBLE}
    assert evaluate("ROUND(N)", {"N": -2.5}, columns) == -2
    assert evaluate("ROUND(N)", {"N": 0.49999999999999994}, columns) == 0
    assert evaluate("ROUND(N)", {"N": 1e300}, columns) == 2**63 - 1
    assert evaluate("TRUNC(N)", {"N": math.nan}, columns) == 0
    assert type_text("ROUND(N)", columns) == "BIGINT"


@pytest.mark.parametrize(
    "text", ["ROUND(D)", "ROUND(D, 0)", "CEIL(D)", "TRUNC(D)", "TRUNC(D, 0)", "FLOOR(-D)", "-0.00", "-TRUNC(-D)"]
)
def test_a_decimal_that_is_rounded_to_zero_has_no_sign(text: str) -> None:
    zero = evaluate(text, {"D": Decimal("-0.30")}, {"D": DecimalType(3, 2)})
    assert str(zero).lstrip("0.") == "", zero


@pytest.mark.parametrize("text", ["ROUND(D)", "ROUND(D, 0)", "ROUND(D, -1)", "CEIL(D)", "FLOOR(-D)"])
def test_rounding_that_carries_into_a_digit_more_than_the_type_has_fails(text: str) -> None:
    columns = {"D": DecimalType(3, 2)}
    with pytest.raises(FunctionError, match="must round to an absolute value less than 10\\^1"):
        evaluate(text, {"D": Decimal("9.99")}, columns)


def test_a_rounded_decimal_keeps_its_scale_unless_no_places_are_given() -> None:
    columns = {"D": DecimalType(12, 7)}
    row = {"D": Decimal("-12345.6780000")}
    assert str(evaluate("ROUND(D, 1)", row, columns)) == "-12345.7000000"
    assert str(evaluate("TRUNC(D, -2)", row, columns)) == "-12300.0000000"
    assert str(evaluate("ROUND(D)", row, columns)) == "-12346"
    assert type_text("ROUND(D)", columns) == "DECIMAL(5, 0)"
    assert type_text("ROUND(D, 1)", columns) == "DECIMAL(12, 7)"


def test_decimals_of_many_digits_are_rounded_exactly() -> None:
    value = Decimal("12345678987654321098765432109876.23456789")
    assert str(evaluate("ROUND(D, 2)", {"D": value}, {"D": DecimalType(40, 8)})) == (
        "12345678987654321098765432109876.23000000"
    )


def test_infinity_cannot_be_rounded_to_places() -> None:
    with pytest.raises(FunctionError, match="finite"):
        evaluate("ROUND(N, 1)", {"N": math.inf}, {"N": DOUBLE})


def test_the_smallest_bigint_is_its_own_absolute_value() -> None:
    assert evaluate("ABS(N)", {"N": -(2**63)}, {"N": BIGINT}) == -(2**63)


def test_greatest_and_least_leave_nulls_out() -> None:
    assert evaluate("GREATEST(1, NULL, 3)") == 3
    assert evaluate("LEAST('b', NULL, 'a')") == "a"
    assert evaluate("LEAST(CAST(NULL AS INT), NULL)") is None
    assert evaluate("GREATEST(N, 1E0)", {"N": math.nan}, {"N": DOUBLE}) != evaluate(
        "LEAST(N, 1E0)", {"N": 0.0}, {"N": DOUBLE}
    )


def test_the_greatest_decimal_has_the_largest_scale_even_if_null_has_it() -> None:
    columns = {"A": DecimalType(4, 1), "B": DecimalType(6, 3)}
    assert str(evaluate("GREATEST(A, B)", {"A": Decimal("1.5"), "B": None}, columns)) == "1.500"
    assert type_text("GREATEST(A, B)", columns) == "DECIMAL(6, 3)"


def test_distances_are_those_on_the_globe() -> None:
    assert evaluate("GEO_DISTANCE(37.4439, -122.1663, 51.5257, -0.1122)") == pytest.approx(8634.6598, abs=1e-4)
    assert evaluate("GEO_DISTANCE(37.4439, -122.1663, 51.5257, -0.1122, 'miles')") == pytest.approx(5365.66, abs=0.1)


@pytest.mark.parametrize("arguments", ["91, 0, 0, 0", "0, 181, 0, 0", "0, 0, 0, 0, 'yards'"])
def test_a_distance_needs_valid_points_and_a_known_unit(arguments: str) -> None:
    with pytest.raises(FunctionError):
        evaluate(f"GEO_DISTANCE({arguments})")


def test_random_numbers_are_at_least_0_and_below_1() -> None:
    assert all(0 <= evaluate("RANDOM()") < 1 for _ in range(20))
