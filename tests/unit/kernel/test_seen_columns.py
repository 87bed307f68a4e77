"""Which columns an expression is checked against: only those that it names, or a table of 500 sums takes minutes."""

from __future__ import annotations

import polars as pl
import polars.selectors as cs
import pytest

from hayase.kernel.frame.expressions import seen_columns

_TYPES = {"a": pl.Int64(), "b": pl.String(), "c": pl.Float64()}


@pytest.mark.parametrize(
    ("expression", "seen"),
    [
        (pl.col("a") + 1, "a"),
        (pl.col("c") * pl.col("a"), "ac"),
        (pl.lit(1), ""),
        (pl.col("nope"), ""),
        (pl.all().sum(), "abc"),
        (pl.col("a") + pl.sum_horizontal(cs.numeric()), "abc"),
        (pl.col("^a.*$"), "abc"),
        (pl.first(), "abc"),
    ],
)
def test_an_expression_sees_the_columns_that_it_names_or_all(expression: pl.Expr, seen: str) -> None:
    assert "".join(sorted(seen_columns([expression], _TYPES))) == seen
