"""DECIMAL in columns: whole numbers of 128 bits, scaled by the scale of the type, for up to 38 digits."""

from __future__ import annotations

import polars as pl

from hayase.sql.ast.expressions import ArithmeticOperator
from hayase.sql.expressions.column_forms import Form, NoColumnFormError, quotient
from hayase.sql.types.coercion import as_decimal
from hayase.sql.types.column_types import MAX_DIGITS
from hayase.sql.types.sql_types import DecimalType, SqlType

_DOUBLE_DIGITS = 15
"""Digits of whole numbers that a double holds exactly."""
_DOUBLE_SCALE = 22
"""The largest power of ten that a double holds exactly."""


def arithmetic(
    operator: ArithmeticOperator, type_: DecimalType, left: Form, left_type: SqlType, right: Form, right_type: SqlType
) -> Form:
    """The result of an operator, whose operands are DECIMAL or whole numbers and not null."""
    types = as_decimal(left_type), as_decimal(right_type)
    if type_.precision > MAX_DIGITS:
        raise NoColumnFormError
    one, other = (form.value.cast(pl.Int128) for form in (left, right))
    if operator is ArithmeticOperator.MULTIPLY:
        return Form(one * other)
    if operator is ArithmeticOperator.DIVIDE:
        one = _scaled_up(one, types[0].precision, type_.scale - types[0].scale + types[1].scale)
        return Form(_rounded_quotient(one, _not_zero(other)), _is_zero(other))
    common = max(types[0].scale, types[1].scale)
    one, other = (
        _scaled_up(value, type_.precision, common - type_.scale)
        for value, type_ in zip((one, other), types, strict=True)
    )
    if operator is ArithmeticOperator.MODULUS:
        divisor = _not_zero(other)
        return Form(one - _truncated_quotient(one, divisor) * divisor, _is_zero(other))
    return Form(one + other if operator is ArithmeticOperator.ADD else one - other)


def _is_zero(value: pl.Expr) -> pl.Expr:
    return (value == 0).fill_null(False)


def _not_zero(value: pl.Expr) -> pl.Expr:
    return pl.when(value == 0).then(pl.lit(1, dtype=pl.Int128)).otherwise(value)


def _scaled_up(value: pl.Expr, precision: int, digits: int) -> pl.Expr:
    """More digits behind the point; a number that could have too many then has no column form."""
    if precision + digits > MAX_DIGITS:
        raise NoColumnFormError
    return value * pl.lit(10**digits, dtype=pl.Int128) if digits else value


def _rounded_quotient(value: pl.Expr, divisor: pl.Expr) -> pl.Expr:
    """`value / divisor`, rounded half up: away from zero."""
    numerator, denominator = value.abs(), divisor.abs()
    quotient = numerator // denominator
    rest = numerator - quotient * denominator
    rounded = quotient + (rest >= denominator - rest).cast(pl.Int128)
    return pl.when((value < 0) != (divisor < 0)).then(0 - rounded).otherwise(rounded)


def _truncated_quotient(value: pl.Expr, divisor: pl.Expr) -> pl.Expr:
    quotient = value.abs() // divisor.abs()
    return pl.when((value < 0) != (divisor < 0)).then(0 - quotient).otherwise(quotient)


def comparable(value: pl.Expr, type_: SqlType, other: SqlType) -> pl.Expr:
    """One side of a comparison of numbers that are not DOUBLE, with the scale that both sides have."""
    own, common = as_decimal(type_), max(as_decimal(type_).scale, as_decimal(other).scale)
    return _scaled_up(value.cast(pl.Int128), own.precision, common - own.scale)


def from_number(value: pl.Expr, source: SqlType, target: DecimalType) -> Form:
    """A whole number or DECIMAL as another DECIMAL; where it has too many digits, the row form has the error."""
    own = as_decimal(source)
    value = value.cast(pl.Int128)
    if target.precision > MAX_DIGITS:
        raise NoColumnFormError
    if target.scale >= own.scale:
        result = _scaled_up(value, own.precision, target.scale - own.scale)
    else:
        result = _rounded_quotient(value, pl.lit(10 ** (own.scale - target.scale), dtype=pl.Int128))
    limit = pl.lit(10**target.precision, dtype=pl.Int128)
    return Form(result, ((result >= limit) | (result <= 0 - limit)).fill_null(False))


def to_whole_number(value: pl.Expr, source: DecimalType, bits: int) -> pl.Expr:
    """A DECIMAL without its fraction, as a whole number that goes on at the other end."""
    whole = _truncated_quotient(value, pl.lit(10**source.scale, dtype=pl.Int128))
    half = pl.lit(1 << bits - 1, dtype=pl.Int128)
    return ((whole + half) % (half + half) - half).cast(pl.Int64)


def to_double(value: pl.Expr, source: DecimalType) -> pl.Expr:
    """A DECIMAL as the nearest double, where one division of exact numbers gives it."""
    if source.precision > _DOUBLE_DIGITS or source.scale > _DOUBLE_SCALE:
        raise NoColumnFormError
    return quotient(value.cast(pl.Float64), pl.lit(float(10**source.scale)))
