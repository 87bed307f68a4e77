"""Java's arithmetic over columns of Polars; whole numbers have 64 bits."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

INT_HALF = 1 << 31
_LONG_LIMIT = float(1 << 63)

Column = Callable[[pl.Expr], pl.Expr]


def of_doubles(function: Column) -> Column:
    """A function of DOUBLE over columns of any numbers."""
    return lambda value: function(value.cast(pl.Float64))


def wrapped_int(value: pl.Expr) -> pl.Expr:
    """Whole numbers as INT, which goes on at the other end."""
    return (value + INT_HALF) % (2 * INT_HALF) - INT_HALF


def saturated_long(value: pl.Expr) -> pl.Expr:
    """Doubles without their fractions as BIGINT: NaN is 0, what is too large is the nearest BIGINT."""
    least, greatest = (pl.lit(limit, dtype=pl.Int64) for limit in (-(1 << 63), (1 << 63) - 1))
    inside = (value > -_LONG_LIMIT) & (value < _LONG_LIMIT)
    whole = pl.when(inside).then(value).otherwise(0.0).cast(pl.Int64)
    return (
        pl.when(value.is_nan())
        .then(pl.lit(0, dtype=pl.Int64))
        .when(value >= _LONG_LIMIT)
        .then(greatest)
        .when(value <= -_LONG_LIMIT)
        .then(least)
        .otherwise(whole)
    )


def rounded_long(value: pl.Expr) -> pl.Expr:
    """Doubles as the nearest BIGINT, a half up."""
    lower = value.floor()
    return saturated_long(pl.when(value - lower < 0.5).then(lower).otherwise(lower + 1))


def sign(value: pl.Expr) -> pl.Expr:
    """-1, 0 or 1; 0 for NaN."""
    positive = (value > 0) & ~is_nan(value)
    return positive.cast(pl.Int64) - (value < 0).cast(pl.Int64)


def is_nan(value: pl.Expr) -> pl.Expr:
    """Whether it is NaN; whole numbers are not."""
    return value.cast(pl.Float64).is_nan()


def power(base: pl.Expr, exponent: pl.Expr) -> pl.Expr:
    """`Math.pow`."""
    base, exponent = base.cast(pl.Float64), exponent.cast(pl.Float64)
    undefined = exponent.is_nan() | ((base.abs() == 1) & exponent.is_infinite())
    return pl.when(undefined).then(float("nan")).otherwise(base.pow(exponent))


def quotient_of_logarithms(base: pl.Expr, value: pl.Expr) -> pl.Expr:
    """The logarithm to a base, which must be positive and not 1."""
    base, value = base.cast(pl.Float64), value.cast(pl.Float64)
    usable = (base > 0) & (base != 1) & ~base.is_nan()
    return (
        pl.when(~usable)
        .then(float("nan"))
        .when(value == 0)
        .then(float("-inf"))
        .otherwise(value.log() / base.log())
    )  # fmt: skip
