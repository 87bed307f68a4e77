"""COALESCE, IFNULL, NULLIF and AS_VALUE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from hayase.sql.functions.java.equality import identity
from hayase.sql.functions.registry import scalar


@scalar(
    "COALESCE", "(T, T...) -> T", "The first value that is not null.",
    null_aware=True, lazy=True, columns=pl.coalesce,
)  # fmt: skip
@scalar(
    "IFNULL", "(T, T) -> T", "The first value, or the second where the first is null.",
    null_aware=True, lazy=True, columns=pl.coalesce,
)  # fmt: skip
def coalesce(*values: Callable[[], Any]) -> Any:
    """COALESCE and IFNULL: what comes after the first value that is not null is not computed."""
    for value in values:
        found = value()
        if found is not None:
            return found
    return None


def _same(value: pl.Expr) -> pl.Expr:
    return value


@scalar("NULLIF", "(T, T) -> T", "The first value, or null where both are equal.", null_aware=True)
def nullif(value: Any, other: Any) -> Any:
    """NULLIF: equal as in Java, so that NaN is NaN."""
    return None if identity(value) == identity(other) else value


@scalar("AS_VALUE", "(T) -> T", "A key column as a column of the value.", null_aware=True, columns=_same)
def as_value(value: Any) -> Any:
    """AS_VALUE."""
    return value
