"""CAST, texts of values, and DECIMAL arithmetic."""

from __future__ import annotations

import math
import pickle
from decimal import Decimal
from typing import Any

import pytest

from hayase.sql.errors import StatementError
from hayase.sql.types import decimals
from hayase.sql.types.casts import can_cast, cast, caster
from hayase.sql.types.coercion import common_type
from hayase.sql.types.json_text import json_text
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
from hayase.sql.types.times import date_text, parse_timestamp

STRUCT = StructType((("F0", INTEGER), ("f1", STRING)))


@pytest.mark.parametrize(
    ("source", "target", "value", "expected"),
    [
        (BIGINT, INTEGER, 2**31, -(2**31)),
        (DOUBLE, INTEGER, 1e20, 2**31 - 1),
        (DOUBLE, BIGINT, -math.inf, -(2**63)),
        (DOUBLE, INTEGER, math.nan, 0),
        (DOUBLE, INTEGER, -1.9, -1),
        (DecimalType(4, 2), INTEGER, Decimal("-1.99"), -1),
        (DOUBLE, STRING, 1e10, "1.0E10"),
        (DOUBLE, STRING, 0.001, "0.001"),
        (DOUBLE, STRING, 1e7, "1.0E7"),
        (DOUBLE, STRING, math.inf, "Infinity"),
        (DecimalType(20, 10), STRING, Decimal("0.0000000001"), "0.0000000001"),
        (DecimalType(4, 2), DecimalType(5, 3), Decimal("10.12"), Decimal("10.120")),
        (DOUBLE, DecimalType(2, 1), 0.99, Decimal("1.0")),
        (DOUBLE, DecimalType(2, 1), 0.25, Decimal("0.3")),
        (STRING, DecimalType(2, 1), " 0.01 ", Decimal("0.0")),
        (INTEGER, DecimalType(4, 2), 12, Decimal("12.00")),
        (STRING, BOOLEAN, " Ye", True),
        (STRING, BOOLEAN, "maybe", False),
        (STRING, INTEGER, " -12", -12),
        (STRING, DOUBLE, "1e3", 1000.0),
        (STRING, TIMESTAMP, "2022-04-28T21:44:47.943Z", 1651182287943),
        (STRING, TIMESTAMP, "1970-01-01T01:00:00+0100", 0),
        (STRING, TIMESTAMP, "1970-01-02", 86_400_000),
        (STRING, DATE, "1969-12-31", -1),
        (STRING, TIME, "00:01", 60_000),
        (TIMESTAMP, DATE, -2000, -1),
        (TIMESTAMP, TIME, -2000, 86_398_000),
        (DATE, TIMESTAMP, 1, 86_400_000),
        (TIMESTAMP, STRING, 10, "1970-01-01T00:00:00.010"),
        (DATE, STRING, -1, "1969-12-31"),
        (TIME, STRING, 4000, "00:00:04"),
        (TIME, STRING, 60_000, "00:01"),
        (BOOLEAN, STRING, True, "true"),
        (ArrayType(INTEGER), STRING, [1, None], "[1, null]"),
        (MapType(STRING, DOUBLE), STRING, {"a": 1.0}, "{a=1.0}"),
        (STRUCT, STRING, {"F0": 1, "f1": None}, "Struct{F0=1}"),
        (ArrayType(BIGINT), ArrayType(STRING), [1, None], ["1", None]),
        (MapType(STRING, STRING), MapType(STRING, INTEGER), {"a": "10"}, {"a": 10}),
        (STRUCT, StructType((("F0", STRING), ("F3", STRING))), {"F0": 1, "f1": "x"}, {"F0": "1", "F3": None}),
        (None, ArrayType(INTEGER), None, None),
        (STRING, INTEGER, None, None),
    ],
)
def test_a_cast_converts(source: SqlType | None, target: SqlType, value: Any, expected: Any) -> None:
    result = pickle.loads(pickle.dumps(caster(source, target)))(value)
    assert result == expected and type(result) is type(expected)
    if isinstance(expected, Decimal):
        assert result.as_tuple() == expected.as_tuple()


@pytest.mark.parametrize(
    ("source", "target", "value"),
    [
        (STRING, INTEGER, "1.5"),
        (STRING, INTEGER, "2147483648"),
        (STRING, DOUBLE, "NaN"),
        (STRING, TIME, "foo"),
        (STRING, TIMESTAMP, "2020-13-01"),
        (BIGINT, DecimalType(2, 0), 100),
        (DOUBLE, DecimalType(2, 0), math.nan),
    ],
)
def test_a_value_that_does_not_fit_is_an_error(source: SqlType, target: SqlType, value: Any) -> None:
    with pytest.raises((ValueError, ArithmeticError)):
        cast(value, source, target)


@pytest.mark.parametrize(
    ("source", "target"),
    [(BYTES, STRING), (STRING, STRUCT), (INTEGER, BOOLEAN), (DATE, TIME), (ArrayType(BYTES), ArrayType(STRING))],
)
def test_other_types_cannot_be_cast(source: SqlType, target: SqlType) -> None:
    assert not can_cast(source, target)


def test_an_unsupported_cast_names_both_types() -> None:
    with pytest.raises(StatementError, match="Cast of STRING to MAP<STRING, INTEGER> is not supported"):
        caster(STRING, MapType(STRING, INTEGER))


def test_decimals_have_the_sizes_of_their_operation() -> None:
    four = DecimalType(4, 2)
    assert decimals.sum_type(four, DecimalType(10, 0)) == DecimalType(13, 2)
    assert decimals.product_type(four, four) == DecimalType(9, 4)
    assert decimals.quotient_type(four, four) == DecimalType(11, 7)
    assert decimals.remainder_type(four, four) == four


def test_a_quotient_is_rounded_half_up_once() -> None:
    assert str(decimals.divide(Decimal("2"), Decimal("3"), 10, 6)) == "0.666667"
    assert str(decimals.divide(Decimal("-0.5"), Decimal("1"), 10, 0)) == "-1"


def test_a_remainder_has_the_sign_of_the_dividend() -> None:
    assert str(decimals.remainder(Decimal("-10.10"), Decimal("2.00"), 4, 2)) == "-0.10"


def test_division_by_zero_is_an_error() -> None:
    with pytest.raises(ZeroDivisionError):
        decimals.divide(Decimal(1), Decimal("0.0"), 10, 6)


def test_a_result_with_too_many_digits_is_an_error() -> None:
    with pytest.raises(ArithmeticError, match="precision 2 and scale 1"):
        decimals.rounded(Decimal("9.95"), 2, 1)


def test_many_digits_stay_exact() -> None:
    long = Decimal("1" * 60 + ".5")
    assert decimals.add(long, long) == Decimal("2" * 59 + "3.0")


@pytest.mark.parametrize(
    "value",
    [
        decimals.multiply(Decimal("-1.0"), Decimal("0.00")),
        decimals.rounded(Decimal("-0.0004"), 4, 3),
        decimals.negate(Decimal("0.000")),
        cast("-0", STRING, DecimalType(4, 3)),
        cast(-0.0, DOUBLE, DecimalType(4, 3)),
    ],
)
def test_there_is_one_zero(value: Decimal) -> None:
    assert str(value) == "0.000"


def test_numbers_have_the_wider_type_in_common() -> None:
    assert common_type(INTEGER, BIGINT) == BIGINT
    assert common_type(DecimalType(4, 2), INTEGER) == DecimalType(12, 2)
    assert common_type(DecimalType(4, 2), DOUBLE) == DOUBLE
    with pytest.raises(ValueError, match="no common type"):
        common_type(BOOLEAN, INTEGER)


def test_json_text_follows_the_type() -> None:
    struct = StructType((("D", DATE), ("X", DOUBLE), ("B", BYTES)))
    assert json_text({"D": 1000, "X": 1e10, "B": b"!"}, struct) == '{"D":"1972-09-27","X":1.0E10,"B":"IQ=="}'


def test_dates_go_beyond_the_calendar_of_python() -> None:
    assert date_text(-719_528) == "0000-01-01"
    assert date_text(2_932_897) == "+10000-01-01"


def test_a_fraction_of_a_second_may_have_any_number_of_digits() -> None:
    assert parse_timestamp("1970-01-01T00:00:00.5") == 500
    assert parse_timestamp("1970-01-01T00:00:00.123456") == 123
