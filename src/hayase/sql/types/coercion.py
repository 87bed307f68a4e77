"""Types that become others without a CAST: INTEGER → BIGINT → DECIMAL → DOUBLE, texts → dates and times."""

from __future__ import annotations

from hayase.sql.types.sql_types import (
    BIGINT,
    DOUBLE,
    INTEGER,
    BigintType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    SqlType,
    StringType,
    TimestampType,
    TimeType,
)

_INTEGER_DIGITS = 10
_BIGINT_DIGITS = 19


def is_number(type_: SqlType | None) -> bool:
    """Whether it is a type of numbers."""
    return isinstance(type_, IntegerType | BigintType | DecimalType | DoubleType)


def is_time(type_: SqlType | None) -> bool:
    """Whether it is DATE, TIME or TIMESTAMP."""
    return isinstance(type_, DateType | TimeType | TimestampType)


def as_decimal(type_: SqlType) -> DecimalType:
    """The DECIMAL that holds a number other than DOUBLE."""
    if isinstance(type_, DecimalType):
        return type_
    if type_ == INTEGER:
        return DecimalType(_INTEGER_DIGITS, 0)
    if type_ == BIGINT:
        return DecimalType(_BIGINT_DIGITS, 0)
    raise ValueError(f"{type_} does not become a DECIMAL without a CAST")


def can_widen(source: SqlType, target: SqlType) -> bool:
    """Whether a `source` becomes a `target` without a CAST, the same type included."""
    if source == target:
        return True
    if isinstance(source, StringType):
        return is_time(target)
    order: dict[type[SqlType], int] = {IntegerType: 0, BigintType: 1, DecimalType: 2, DoubleType: 3}
    low, high = order.get(type(source)), order.get(type(target))
    if low is None or high is None:
        return False
    return low < high or (isinstance(source, DecimalType) and isinstance(target, DecimalType))


def common_decimal(left: DecimalType, right: DecimalType) -> DecimalType:
    """The smallest DECIMAL that holds both exactly."""
    scale = max(left.scale, right.scale)
    return DecimalType(max(left.precision - left.scale, right.precision - right.scale) + scale, scale)


def common_number(left: SqlType, right: SqlType) -> SqlType:
    """The type that two numbers are computed in."""
    if DOUBLE in (left, right):
        return DOUBLE
    if isinstance(left, DecimalType) or isinstance(right, DecimalType):
        return common_decimal(as_decimal(left), as_decimal(right))
    return BIGINT if BIGINT in (left, right) else INTEGER


def common_type(left: SqlType | None, right: SqlType | None) -> SqlType | None:
    """The type that both widen to; `ValueError` if there is none."""
    if left is None or right is None:
        return left if right is None else right
    if is_number(left) and is_number(right):
        return common_number(left, right)
    if can_widen(left, right):
        return right
    if can_widen(right, left):
        return left
    raise ValueError(f"{left} and {right} have no common type")
