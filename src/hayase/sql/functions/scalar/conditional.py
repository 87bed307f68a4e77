"""COALESCE, IFNULL, NULLIF and AS_VALUE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hayase.sql.functions.registry import scalar


@scalar("COALESCE", "(T, T...) -> T", "The first value that is not null.", null_aware=True, lazy=True)
@scalar("IFNULL", "(T, T) -> T", "The first value, or the second where the first is null.", null_aware=True, lazy=True)
def coalesce(*values: Callable[[], Any]) -> Any:
    """COALESCE and IFNULL: what comes after the first value that is not null is not computed."""
    for value in values:
        found = value()
        if found is not None:
            return found
    return None


@scalar("NULLIF", "(T, T) -> T", "The first value, or null where both are equal.", null_aware=True)
def nullif(value: Any, other: Any) -> Any:
    """NULLIF."""
    return None if value == other else value


@scalar("AS_VALUE", "(T) -> T", "A key column as a column of the value.", null_aware=True)
def as_value(value: Any) -> Any:
    """AS_VALUE."""
    return value
