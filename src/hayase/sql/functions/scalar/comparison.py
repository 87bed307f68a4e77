"""GREATEST and LEAST."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from hayase.sql.functions.registry import scalar
from hayase.sql.types.sql_types import DecimalType, SqlType

_GREATEST = "The greatest of the values; nulls do not count."
_LEAST = "The least of the values; nulls do not count."
_TYPES = ("INT", "BIGINT", "DOUBLE", "STRING", "BYTES", "DATE", "TIME", "TIMESTAMP")


def order(value: Any) -> Any:
    """What values are compared by: NaN is greater than every number."""
    return (math.isnan(value), value) if type(value) is float else value


def common_decimal(types: Sequence[SqlType | None]) -> SqlType:
    """A DECIMAL that holds all."""
    decimals = [type_ for type_ in types if isinstance(type_, DecimalType)]
    if not decimals:
        return DecimalType(38, 0)
    scale = max(type_.scale for type_ in decimals)
    return DecimalType(max(type_.precision - type_.scale for type_ in decimals) + scale, scale)


def greatest(*values: Any) -> Any:
    """GREATEST."""
    present = [value for value in values if value is not None]
    return max(present, key=order) if present else None


def least(*values: Any) -> Any:
    """LEAST."""
    present = [value for value in values if value is not None]
    return min(present, key=order) if present else None


def greatest_decimal(*values: Decimal | None) -> Decimal | None:
    """GREATEST of DECIMALs, at the largest scale."""
    found = greatest(*values)
    return None if found is None else _at_common_scale(found, values)


def least_decimal(*values: Decimal | None) -> Decimal | None:
    """LEAST of DECIMALs, at the largest scale."""
    found = least(*values)
    return None if found is None else _at_common_scale(found, values)


def _at_common_scale(found: Decimal, values: Sequence[Decimal | None]) -> Decimal:
    exponents = [exponent for value in values if value is not None for exponent in [value.as_tuple().exponent]]
    lowest = min(exponent for exponent in exponents if isinstance(exponent, int))
    return found if found.as_tuple().exponent == lowest else found.quantize(Decimal((0, (1,), lowest)))


for _type in _TYPES:
    scalar("greatest", f"({_type}, {_type}...) -> {_type}", _GREATEST, null_aware=True)(greatest)
    scalar("least", f"({_type}, {_type}...) -> {_type}", _LEAST, null_aware=True)(least)
scalar("greatest", "(DECIMAL, DECIMAL...) -> ?", _GREATEST, null_aware=True, returns=common_decimal)(greatest_decimal)
scalar("least", "(DECIMAL, DECIMAL...) -> ?", _LEAST, null_aware=True, returns=common_decimal)(least_decimal)
