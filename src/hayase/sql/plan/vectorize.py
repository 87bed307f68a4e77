"""Functions of a topology, with a form for a row and one for a frame where the rows have columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import polars as pl

from hayase.kernel.node.column_node import NULL
from hayase.serde.protocol import BARE_FIELD, Schema
from hayase.sql.formats.row_columns import bare_of
from hayase.sql.plan.guarded import GuardedExpression
from hayase.topology.operators import VectorizedFunction, VectorizedResult


class TwoForms(Protocol):
    """A function of rows with both forms."""

    def __call__(self, *arguments: Any) -> Any:
        """The result for a row."""
        ...

    def columns(self, *frames: Any) -> VectorizedResult:
        """The results for a frame."""
        ...


def vectorized(
    function: TwoForms,
    schema: Schema | None,
    expressions: Sequence[GuardedExpression],
    definition: str,
    *,
    key_schema: Schema | None = None,
    reads: frozenset[str] | None = None,
    pairs: bool = False,
    pure: bool = True,
) -> Callable[..., Any]:
    """The function with both forms; with its row form only if results or expressions have no columns.

    Args:
        function: of rows.
        schema: of the results; of pairs that of the values.
        expressions: that it evaluates; it is not pure if they are not.
        definition: what it does, as text that is the same in every process.
        key_schema: of the keys of pairs.
        reads: see `VectorizedFunction`.
        pairs: it makes pairs.
        pure: what it does beyond the expressions is.
    """
    missing = schema is None or (pairs and key_schema is None)
    if missing or any(each.dtype is None for each in expressions):
        return function
    assert schema is not None
    return VectorizedFunction(
        function,
        function.columns,
        schema,
        key_schema,
        reads,
        pure and all(each.pure for each in expressions),
        definition,
        tuple(each.explained for each in expressions),
    )


def reads_of(expressions: Sequence[GuardedExpression]) -> frozenset[str]:
    """The columns that expressions use."""
    return frozenset(name for each in expressions for name in each.reads)


def bare_schema(dtype: pl.DataType | None) -> Schema | None:
    """The schema of bare values of a type; `None` if it has no columns."""
    return None if dtype is None else bare_of(dtype)


def bare_result(values: pl.Series, row_by_row: int = 0) -> VectorizedResult:
    """Bare values as a result."""
    return VectorizedResult(values.alias(BARE_FIELD).to_frame(), row_by_row)


def fields_result(
    names: Sequence[str], values: Sequence[pl.Series], null: pl.Series, row_by_row: int
) -> VectorizedResult:
    """Named values as a result; null as a whole where `null` is true."""
    columns = [value.alias(name) for name, value in zip(names, values, strict=True)]
    return VectorizedResult(pl.DataFrame([*columns, null.alias(NULL)]), row_by_row)
