"""Exact arithmetic of DECIMAL: results have the scale of their type, are rounded half up, and must fit."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

from hayase.sql.types.sql_types import DecimalType

# Results of sums, products and roundings are exact or rounded once; only their digits are kept, whatever the limit is.
_EXACT = Context(prec=20_000, rounding=ROUND_HALF_UP, Emin=-999_999, Emax=999_999, clamp=0)


def sum_type(left: DecimalType, right: DecimalType) -> DecimalType:
    """The type of a sum or difference."""
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return DecimalType(scale + whole + 1, scale)


def product_type(left: DecimalType, right: DecimalType) -> DecimalType:
    """The type of a product."""
    return DecimalType(left.precision + right.precision + 1, left.scale + right.scale)


def quotient_type(left: DecimalType, right: DecimalType) -> DecimalType:
    """The type of a quotient."""
    scale = max(6, left.scale + right.precision + 1)
    return DecimalType(left.precision - left.scale + right.scale + scale, scale)


def remainder_type(left: DecimalType, right: DecimalType) -> DecimalType:
    """The type of a remainder."""
    scale = max(left.scale, right.scale)
    return DecimalType(min(left.precision - left.scale, right.precision - right.scale) + scale, scale)


def rounded(value: Decimal, precision: int, scale: int) -> Decimal:
    """`value` with that scale, rounded half up; an error if it has too many digits."""
    try:
        result = value.quantize(Decimal((0, (1,), -scale)), context=_EXACT)
    except InvalidOperation as error:
        raise overflow(value, precision, scale) from error
    if (result.adjusted() >= precision - scale and result) or result.is_nan():
        raise overflow(value, precision, scale)
    return result or result.copy_abs()  # BigDecimal has one zero


def overflow(value: Decimal, precision: int, scale: int) -> ArithmeticError:
    """The error of a number that does not fit."""
    return ArithmeticError(
        f"Numeric field overflow: A field with precision {precision} and scale {scale} must round to an absolute value "
        f"less than 10^{precision - scale}. Got {value!s:.80}"
    )


def add(left: Decimal, right: Decimal) -> Decimal:
    """`left + right`, which has the scale of `sum_type` and always fits it."""
    return _EXACT.add(left, right)


def subtract(left: Decimal, right: Decimal) -> Decimal:
    """`left - right`, which has the scale of `sum_type` and always fits it."""
    return _EXACT.subtract(left, right)


def multiply(left: Decimal, right: Decimal) -> Decimal:
    """`left * right`, which has the scale of `product_type` and always fits it."""
    return _EXACT.multiply(left, right) or _EXACT.multiply(left, right).copy_abs()


def divide(left: Decimal, right: Decimal, precision: int, scale: int) -> Decimal:
    """`left / right`, rounded half up once."""
    if not right:
        raise ZeroDivisionError("Division by zero")
    numerator, denominator = _unscaled(left), _unscaled(right)
    shift = scale - _scale(left) + _scale(right)
    if shift >= 0:
        numerator *= 10**shift
    else:
        denominator *= 10**-shift
    quotient, rest = divmod(abs(numerator), abs(denominator))
    if 2 * rest >= abs(denominator):
        quotient += 1
    if (numerator < 0) != (denominator < 0):
        quotient = -quotient
    return rounded(Decimal(quotient).scaleb(-scale, _EXACT), precision, scale)


def remainder(left: Decimal, right: Decimal, precision: int, scale: int) -> Decimal:
    """`left % right` with the sign of `left`."""
    if not right:
        raise ZeroDivisionError("Division by zero")
    common = max(_scale(left), _scale(right))
    dividend, divisor = (_unscaled(value) * 10 ** (common - _scale(value)) for value in (left, right))
    rest = abs(dividend) % abs(divisor)
    return rounded(Decimal(-rest if dividend < 0 else rest).scaleb(-common, _EXACT), precision, scale)


def negate(value: Decimal) -> Decimal:
    """`-value` with the same scale; zero has no sign."""
    return value.copy_negate() if value else value


def _scale(value: Decimal) -> int:
    return -int(value.as_tuple().exponent)


def _unscaled(value: Decimal) -> int:
    return int(value.scaleb(_scale(value), _EXACT))
