"""Equality of row values as Java has it for lists and sets: NaN equals NaN, 0.0 differs from -0.0."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from typing import Any

_NAN = ("NaN",)
_NEGATIVE_ZERO = ("-0.0",)


def identity(value: Any) -> Hashable:
    """A hashable value that is equal for equal row values of one SQL type, and for no others."""
    kind = type(value)
    if kind is float:
        if math.isnan(value):
            return _NAN
        return _NEGATIVE_ZERO if value == 0 and math.copysign(1.0, value) < 0 else value
    if kind is list:
        return tuple(map(identity, value))
    if kind is dict:
        return frozenset((key, identity(item)) for key, item in value.items())
    return value  # type: ignore[no-any-return]


def distinct(values: Iterable[Any]) -> list[Any]:
    """The first of each group of equal values, in order."""
    found: dict[Hashable, Any] = {}
    for value in values:
        found.setdefault(identity(value), value)
    return list(found.values())
