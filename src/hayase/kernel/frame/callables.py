"""Callables in column form: a loop over the batch, in record order, once per record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from hayase.core.errors import SerializationError
from hayase.kernel.frame.python_values import frame_of, keys_of
from hayase.kernel.node.column_node import KEY, NULL, ORDER, FailureHandler, order_columns, order_of
from hayase.serde.faults import is_fault
from hayase.serde.protocol import Schema

_ROW = "__row"


def call_each(
    frame: pl.DataFrame, arguments: Sequence[Sequence[object]], function: Callable[..., Any], ctx: FailureHandler
) -> tuple[pl.DataFrame, list[Any]]:
    """Call a function for each row.

    Args:
        frame: the rows.
        arguments: one list per argument, each as long as the frame.
        function: the user's.
        ctx: decides about records on which the function raises.

    Returns:
        The rows that did not fail, and the function's result for each of them.
    """
    results: list[Any] = []
    failed: list[int] = []
    for row, values in enumerate(zip(*arguments, strict=True)):
        try:
            results.append(function(*values))
        except Exception as error:  # user code may raise anything; the handler decides
            if not is_fault(error):
                raise
            ctx.processing_failed(order_of(frame, row), error)
            failed.append(row)
    return without(frame, failed), results


def without(frame: pl.DataFrame, rows: Sequence[int]) -> pl.DataFrame:
    """The frame without some rows, given by position."""
    if not rows:
        return frame
    return frame.filter(~pl.int_range(pl.len()).is_in(list(rows)))


def with_values(frame: pl.DataFrame, results: Sequence[object], schema: Schema, ctx: FailureHandler) -> pl.DataFrame:
    """The frame with results of a function as its values; what does not fit the schema fails for that record."""
    frame, (fields, null) = _fitting(frame, results, lambda some: frame_of(some, schema), ctx)
    return frame.with_columns(fields.get_columns()).with_columns(null.alias(NULL))


def with_keys(
    frame: pl.DataFrame, results: Sequence[object], schema: Schema, ctx: FailureHandler, column: str = KEY
) -> pl.DataFrame:
    """The frame with results of a function as its keys; what does not fit the schema fails for that record."""
    frame, keys = _fitting(frame, results, lambda some: keys_of(some, schema), ctx)
    return frame.with_columns(keys.alias(column))


def with_pairs(
    frame: pl.DataFrame, pairs: Sequence[tuple[object, object]], key: Schema, value: Schema, ctx: FailureHandler
) -> pl.DataFrame:
    """The frame with results of a function as its keys and values; what does not fit fails for that record."""
    rows = frame.with_columns(pl.Series(_ROW, range(len(pairs)), dtype=pl.Int64))
    keyed = with_keys(rows, [pair[0] for pair in pairs], key, ctx)
    values = [pairs[row][1] for row in keyed[_ROW].to_list()]
    return with_values(keyed.drop(_ROW), values, value, ctx)


def repeated(frame: pl.DataFrame, items: Sequence[Sequence[object]]) -> pl.DataFrame:
    """Each row as often as it has items, numbered by one more order column."""
    order = f"{ORDER}{len(order_columns(frame))}"
    positions = pl.Series(order, [list(range(len(some))) for some in items], dtype=pl.List(pl.Int64))
    return frame.with_columns(positions).explode(order, keep_nulls=False)


def _fitting(
    frame: pl.DataFrame, results: Sequence[object], convert: Callable[[Sequence[Any]], Any], ctx: FailureHandler
) -> tuple[pl.DataFrame, Any]:
    try:
        return frame, convert(results)
    except SerializationError:
        failed: list[int] = []
        for row, result in enumerate(results):
            try:
                convert([result])
            except SerializationError as error:
                ctx.processing_failed(order_of(frame, row), error)
                failed.append(row)
        gone = set(failed)
        return without(frame, failed), convert([result for row, result in enumerate(results) if row not in gone])
