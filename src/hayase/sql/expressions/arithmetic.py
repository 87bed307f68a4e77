"""Arithmetic of rows as Java has it: types of results, and what generated code calls."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NoReturn

from hayase.sql.ast.expressions import ArithmeticOperator
from hayase.sql.types import decimals
from hayase.sql.types.coercion import as_decimal, is_number
from hayase.sql.types.sql_types import BIGINT, DOUBLE, INTEGER, STRING, DecimalType, SqlType

_DECIMAL_TYPES: dict[ArithmeticOperator, Callable[[DecimalType, DecimalType], DecimalType]] = {
    ArithmeticOperator.ADD: decimals.sum_type,
    ArithmeticOperator.SUBTRACT: decimals.sum_type,
    ArithmeticOperator.MULTIPLY: decimals.product_type,
    ArithmeticOperator.DIVIDE: decimals.quotient_type,
    ArithmeticOperator.MODULUS: decimals.remainder_type,
}
EXACT_FUNCTIONS: dict[ArithmeticOperator, Callable[[Decimal, Decimal], Decimal]] = {
    ArithmeticOperator.ADD: decimals.add,
    ArithmeticOperator.SUBTRACT: decimals.subtract,
    ArithmeticOperator.MULTIPLY: decimals.multiply,
}
"""What gives a DECIMAL that needs no rounding."""
ROUNDING_FUNCTIONS: dict[ArithmeticOperator, Callable[[Decimal, Decimal, int, int], Decimal]] = {
    ArithmeticOperator.DIVIDE: decimals.divide,
    ArithmeticOperator.MODULUS: decimals.remainder,
}
"""What takes the precision and scale of the result."""


def arithmetic_type(operator: ArithmeticOperator, left: SqlType | None, right: SqlType | None) -> SqlType | None:
    """The type of the result; `None` if the operator does not take these types."""
    if left == right == STRING:
        return STRING if operator is ArithmeticOperator.ADD else None
    if left is None or right is None or not (is_number(left) and is_number(right)):
        return None
    if DOUBLE in (left, right):
        return DOUBLE
    if isinstance(left, DecimalType) or isinstance(right, DecimalType):
        return _DECIMAL_TYPES[operator](as_decimal(left), as_decimal(right))
    return BIGINT if BIGINT in (left, right) else INTEGER


def null_operand() -> NoReturn:
    """Arithmetic with null fails, as in ksqlDB; in a projection the result is null either way."""
    raise ArithmeticError("an operand of an arithmetic operator is null")


def int_divide(left: int, right: int) -> int:
    """The quotient without its fraction."""
    if right == 0:
        raise ZeroDivisionError("/ by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def int_remainder(left: int, right: int) -> int:
    """The remainder, with the sign of `left`."""
    if right == 0:
        raise ZeroDivisionError("/ by zero")
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def double_divide(left: float, right: float) -> float:
    """The quotient; infinite or NaN where it is divided by zero."""
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left) or math.isnan(right):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def double_remainder(left: float, right: float) -> float:
    """The remainder, with the sign of `left`; NaN where there is none."""
    if right == 0 or math.isinf(left):
        return math.nan
    return math.fmod(left, right)


def array_item(values: list[Any] | None, index: int | None) -> Any:
    """The item at a position from 1, or from -1 backwards; null beyond the ends."""
    if values is None or index is None or index == 0:
        return None
    position = index - 1 if index > 0 else index + len(values)
    return values[position] if 0 <= position < len(values) else None
