"""Built-in aggregates for `agg(...)`: both forms know them, so they run in columns.

Example:
    grouped.agg(n=count(), revenue=sum_("amount"), last=max_(timestamp()))
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from hayase.core.errors import TopologyError
from hayase.topology.operators import AggregateFunction

Input = str | pl.Expr
"""A field of the value by name, or an expression over the record."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate without its name; made by the functions of this module."""

    function: AggregateFunction
    input: pl.Expr | None


def count(of: Input | None = None) -> Aggregate:
    """The number of records, or of non-null values of `of`; a 64-bit integer."""
    return Aggregate("count", None if of is None else _expression("count", of))


def sum_(of: Input) -> Aggregate:
    """The sum of the non-null values, 0 if there are none. Whole numbers are 64-bit; overflowing is an error."""
    return Aggregate("sum", _expression("sum_", of))


def min_(of: Input) -> Aggregate:
    """The smallest non-null value, null if there is none."""
    return Aggregate("min", _expression("min_", of))


def max_(of: Input) -> Aggregate:
    """The largest non-null value, null if there is none."""
    return Aggregate("max", _expression("max_", of))


def avg(of: Input) -> Aggregate:
    """The mean of the non-null values as a double, null if there is none."""
    return Aggregate("avg", _expression("avg", of))


def _expression(function: str, of: Input) -> pl.Expr:
    if isinstance(of, str):
        return pl.col(of)
    if isinstance(of, pl.Expr):
        return of
    raise TopologyError(
        "INVALID_EXPRESSION", f"{function} takes the name of a field or a Polars expression, not {of!r}"
    )
