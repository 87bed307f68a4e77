"""Functions of numbers: rounding, roots, logarithms, powers."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_DOWN, ROUND_HALF_UP, Context, Decimal
from fractions import Fraction

import polars as pl

from hayase.sql.errors import FunctionError
from hayase.sql.functions.java.column_numbers import (
    of_doubles,
    quotient_of_logarithms,
    rounded_long,
    wrapped_int,
)
from hayase.sql.functions.java.column_numbers import power as column_power
from hayase.sql.functions.java.column_numbers import saturated_long as column_saturated_long
from hayase.sql.functions.java.column_numbers import sign as column_sign
from hayase.sql.functions.java.numbers import INT_BITS, LONG_BITS, Total, divide, power, saturated_long
from hayase.sql.functions.registry import scalar
from hayase.sql.types.decimals import rounded
from hayase.sql.types.java_numbers import wrapped
from hayase.sql.types.sql_types import DecimalType, SqlType

_EXACT = Context(prec=1000)
_NUMBERS = ("INT", "BIGINT", "DOUBLE")


def same_decimal(types: Sequence[SqlType | None]) -> DecimalType:
    """The type of the first argument, which is a DECIMAL."""
    first = types[0]
    assert isinstance(first, DecimalType)
    return first


def whole_decimal(types: Sequence[SqlType | None]) -> DecimalType:
    """A DECIMAL of the digits before the point of the first argument."""
    first = types[0]
    assert isinstance(first, DecimalType)
    return DecimalType(max(first.precision - first.scale, 1), 0)


def at_scale(value: Decimal, scale: int, rounding: str) -> Decimal:
    """`value` with `scale` digits behind the point; a negative scale rounds before the point."""
    return value.quantize(Decimal((0, (1,), -scale)), rounding=rounding, context=_EXACT)


def _fitting(value: Decimal, type_: DecimalType) -> Decimal:
    """A rounded number as one of its type.

    Raises:
        FunctionError: `OVERFLOW`: rounding carried into a digit that the type does not have.
    """
    try:
        return rounded(value, type_.precision, type_.scale)
    except ArithmeticError as error:
        raise FunctionError("OVERFLOW", str(error)) from error


def _doubles(
    name: str, description: str, function: Callable[[float], float], columns: Callable[[pl.Expr], pl.Expr] | None = None
) -> None:
    form = None if columns is None else of_doubles(columns)
    for type_ in _NUMBERS:
        scalar(name, f"({type_}) -> DOUBLE", description, columns=form)(function)


def _same(value: pl.Expr) -> pl.Expr:
    return value


def _absolute_int(value: pl.Expr) -> pl.Expr:
    return wrapped_int(value.abs())


@scalar("ABS", "(INT) -> INT", "The absolute value.", columns=_absolute_int)
def abs_int(value: int) -> int:
    """ABS of INT: that of the smallest INT is itself, as in Java."""
    return wrapped(abs(value), INT_BITS)


@scalar("ABS", "(BIGINT) -> BIGINT", "The absolute value.", columns=pl.Expr.abs)
def abs_bigint(value: int) -> int:
    """ABS of BIGINT."""
    return wrapped(abs(value), LONG_BITS)


@scalar("ABS", "(DOUBLE) -> DOUBLE", "The absolute value.", columns=pl.Expr.abs)
def abs_double(value: float) -> float:
    """ABS of DOUBLE."""
    return abs(value)


@scalar("ABS", "(DECIMAL) -> ?", "The absolute value.", returns=same_decimal)
def abs_decimal(value: Decimal) -> Decimal:
    """ABS of DECIMAL."""
    return value.copy_abs()


@scalar("CEIL", "(INT) -> INT", "The smallest whole number that is not less.", columns=_same)
@scalar("CEIL", "(BIGINT) -> BIGINT", "The smallest whole number that is not less.", columns=_same)
@scalar("FLOOR", "(INT) -> INT", "The largest whole number that is not greater.", columns=_same)
@scalar("FLOOR", "(BIGINT) -> BIGINT", "The largest whole number that is not greater.", columns=_same)
def whole(value: int) -> int:
    """CEIL and FLOOR of integers."""
    return value


@scalar("CEIL", "(DOUBLE) -> DOUBLE", "The smallest whole number that is not less.", columns=pl.Expr.ceil)
def ceil_double(value: float) -> float:
    """CEIL of DOUBLE."""
    return math.copysign(float(math.ceil(value)), value) if math.isfinite(value) else value


@scalar("CEIL", "(DECIMAL) -> ?", "The smallest whole number that is not less.", types=True, returns=same_decimal)
def ceil_decimal(types: Sequence[SqlType | None], value: Decimal) -> Decimal:
    """CEIL of DECIMAL; the scale stays."""
    return _fitting(at_scale(value, 0, ROUND_CEILING), same_decimal(types))


@scalar("FLOOR", "(DOUBLE) -> DOUBLE", "The largest whole number that is not greater.", columns=pl.Expr.floor)
def floor_double(value: float) -> float:
    """FLOOR of DOUBLE."""
    return math.copysign(float(math.floor(value)), value) if math.isfinite(value) else value


@scalar("FLOOR", "(DECIMAL) -> ?", "The largest whole number that is not greater.", types=True, returns=same_decimal)
def floor_decimal(types: Sequence[SqlType | None], value: Decimal) -> Decimal:
    """FLOOR of DECIMAL; the scale stays."""
    return _fitting(at_scale(value, 0, ROUND_FLOOR), same_decimal(types))


@scalar("ROUND", "(INT) -> BIGINT", "The nearest whole number, a half up.", columns=_same)
@scalar("ROUND", "(BIGINT) -> BIGINT", "The nearest whole number, a half up.", columns=_same)
@scalar("TRUNC", "(INT) -> BIGINT", "The number without its fraction.", columns=_same)
@scalar("TRUNC", "(BIGINT) -> BIGINT", "The number without its fraction.", columns=_same)
def whole_bigint(value: int) -> int:
    """ROUND and TRUNC of integers."""
    return value


@scalar("ROUND", "(DOUBLE) -> BIGINT", "The nearest whole number, a half up.", columns=rounded_long)
def round_double(value: float) -> int:
    """ROUND of DOUBLE: a half goes up, so that -1.5 is -1."""
    if not math.isfinite(value):
        return saturated_long(value)
    lower = math.floor(value)
    return saturated_long(float(lower)) if value - lower < 0.5 else saturated_long(float(lower + 1))


def _half(value: Decimal) -> str:
    """How a half is rounded: up, which for negative numbers is towards zero."""
    return ROUND_HALF_UP if value > 0 else ROUND_HALF_DOWN


@scalar("ROUND", "(DOUBLE, INT) -> DOUBLE", "The number rounded to a number of decimal places, a half up.")
def round_double_places(value: float, places: int) -> float:
    """ROUND of DOUBLE to decimal places; negative ones round before the point."""
    exact = _decimal(value)
    return _unsigned_zero(float(at_scale(exact, _places(places), _half(exact))))


@scalar("ROUND", "(DECIMAL) -> ?", "The nearest whole number, a half up.", types=True, returns=whole_decimal)
def round_decimal(types: Sequence[SqlType | None], value: Decimal) -> Decimal:
    """ROUND of DECIMAL."""
    return _fitting(at_scale(value, 0, _half(value)), whole_decimal(types))


@scalar(
    "ROUND",
    "(DECIMAL, INT) -> ?",
    "The number rounded to a number of decimal places.",
    types=True,
    returns=same_decimal,
)
def round_decimal_places(types: Sequence[SqlType | None], value: Decimal, places: int) -> Decimal:
    """ROUND of DECIMAL to decimal places; the scale stays."""
    return _fitting(at_scale(value, _places(places), _half(value)), same_decimal(types))


@scalar("TRUNC", "(DOUBLE) -> BIGINT", "The number without its fraction.", columns=column_saturated_long)
def trunc_double(value: float) -> int:
    """TRUNC of DOUBLE."""
    return saturated_long(value)


@scalar("TRUNC", "(DOUBLE, INT) -> DOUBLE", "The number cut to a number of decimal places.")
def trunc_double_places(value: float, places: int) -> float:
    """TRUNC of DOUBLE to decimal places."""
    return _unsigned_zero(float(at_scale(_decimal(value), _places(places), ROUND_DOWN)))


@scalar("TRUNC", "(DECIMAL) -> ?", "The number without its fraction.", types=True, returns=whole_decimal)
def trunc_decimal(types: Sequence[SqlType | None], value: Decimal) -> Decimal:
    """TRUNC of DECIMAL."""
    return _fitting(at_scale(value, 0, ROUND_DOWN), whole_decimal(types))


@scalar(
    "TRUNC", "(DECIMAL, INT) -> ?", "The number cut to a number of decimal places.", types=True, returns=same_decimal
)
def trunc_decimal_places(types: Sequence[SqlType | None], value: Decimal, places: int) -> Decimal:
    """TRUNC of DECIMAL to decimal places; the scale stays."""
    return _fitting(at_scale(value, _places(places), ROUND_DOWN), same_decimal(types))


def _decimal(value: float) -> Decimal:
    if not math.isfinite(value):
        raise FunctionError("NOT_FINITE", f"{value} cannot be rounded to decimal places; give a finite number")
    return Decimal(repr(value))


def _places(places: int) -> int:
    """A number of decimal places; beyond these bounds no DOUBLE and no DECIMAL has digits."""
    return max(-400, min(places, 400))


def _unsigned_zero(value: float) -> float:
    return value + 0.0


@scalar("SIGN", "(INT) -> INT", "-1, 0 or 1: the sign of a number.", columns=column_sign)
@scalar("SIGN", "(BIGINT) -> INT", "-1, 0 or 1: the sign of a number.", columns=column_sign)
@scalar("SIGN", "(DOUBLE) -> INT", "-1, 0 or 1: the sign of a number.", columns=column_sign)
def sign(value: float) -> int:
    """SIGN; that of NaN is 0."""
    return (value > 0) - (value < 0)


def _logarithm(value: float) -> float:
    return -math.inf if value == 0 else math.log(value)


def cbrt(value: float) -> float:
    """CBRT: the nearest number, where the C library may miss it by one place, such as for 27."""
    root = math.cbrt(value)
    if not root or not math.isfinite(root):
        return root
    exact = Fraction(value)
    nearby = (root, math.nextafter(root, math.inf), math.nextafter(root, -math.inf))
    return min(nearby, key=lambda candidate: abs(Fraction(candidate) ** 3 - exact))


sqrt = Total(math.sqrt)
exp = Total(math.exp)
ln = Total(_logarithm)

_doubles("SQRT", "The square root; that of a negative number is NaN.", sqrt, pl.Expr.sqrt)
_doubles("CBRT", "The cube root.", cbrt)
_doubles("EXP", "e to the power of a number.", exp, pl.Expr.exp)
_doubles("LN", "The natural logarithm; that of 0 is -Infinity, that of a negative number is NaN.", ln, pl.Expr.log)
_doubles("LOG", "The natural logarithm, as LN.", ln, pl.Expr.log)


@scalar(
    "LOG",
    "(INT, INT) -> DOUBLE",
    "The logarithm of the second number to the base of the first.",
    columns=quotient_of_logarithms,
)
@scalar(
    "LOG",
    "(BIGINT, BIGINT) -> DOUBLE",
    "The logarithm of the second number to the base of the first.",
    columns=quotient_of_logarithms,
)
@scalar(
    "LOG",
    "(DOUBLE, DOUBLE) -> DOUBLE",
    "The logarithm of the second number to the base of the first.",
    columns=quotient_of_logarithms,
)
def log(base: float, value: float) -> float:
    """LOG to a base; NaN for a base that is not positive, or 1; that of 0 is -Infinity to any other base."""
    if not base > 0 or base == 1:
        return math.nan
    if value == 0:
        return -math.inf
    return divide(ln(value), ln(base))


@scalar("POWER", "(INT, INT) -> DOUBLE", "The first number to the power of the second.", columns=column_power)
@scalar("POWER", "(BIGINT, BIGINT) -> DOUBLE", "The first number to the power of the second.", columns=column_power)
@scalar("POWER", "(DOUBLE, DOUBLE) -> DOUBLE", "The first number to the power of the second.", columns=column_power)
def to_power(base: float, exponent: float) -> float:
    """POWER."""
    return power(float(base), float(exponent))


@scalar("RANDOM", "() -> DOUBLE", "A random number from 0 on below 1.", pure=False)
def random_number() -> float:
    """RANDOM."""
    return random.random()
