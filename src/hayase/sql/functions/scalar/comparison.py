"""GREATEST and LEAST."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import polars as pl

from hayase.sql.functions.registry import scalar
from hayase.sql.types.java_numbers import fitted
from hayase.sql.types.sql_types import DecimalType, SqlType

_GREATEST = "The greatest of the values; nulls do not count."
_LEAST = "The least of the values; nulls do not count."
_TYPES = ("INT", "BIGINT", "DOUBLE", "STRING", "BYTES", "DATE", "TIME", "TIMESTAMP")


def order(value: Any) -> Any:
    """What values are compared by: NaN is greater than every number."""
    return (math.isnan(value), value) if type(value) is float else value


def common_decimal(types: Sequence[SqlType | None]) -> DecimalType:
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


def greatest_decimal(types: Sequence[SqlType | None], *values: Decimal | None) -> Decimal | None:
    """GREATEST of DECIMALs, with the scale of the result."""
    return _scaled(greatest(*values), types)


def least_decimal(types: Sequence[SqlType | None], *values: Decimal | None) -> Decimal | None:
    """LEAST of DECIMALs, with the scale of the result."""
    return _scaled(least(*values), types)


def _scaled(value: Decimal | None, types: Sequence[SqlType | None]) -> Decimal | None:
    if value is None:
        return None
    type_ = common_decimal(types)
    return fitted(value, type_.precision, type_.scale)


for _type in _TYPES:
    # Polars leaves NaN out, which is the greatest number here.
    _forms = (None, None) if _type == "DOUBLE" else (pl.max_horizontal, pl.min_horizontal)
    _signature = f"({_type}, {_type}...) -> {_type}"
    scalar("greatest", _signature, _GREATEST, null_aware=True, columns=_forms[0])(greatest)
    scalar("least", _signature, _LEAST, null_aware=True, columns=_forms[1])(least)
for _name, _text, _function in (("greatest", _GREATEST, greatest_decimal), ("least", _LEAST, least_decimal)):
    scalar(_name, "(DECIMAL, DECIMAL...) -> ?", _text, null_aware=True, types=True, returns=common_decimal)(_function)
