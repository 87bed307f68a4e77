"""Functions with two forms, in columns: what nodes make of their results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import polars as pl

from hayase.core.metrics import ROW_BY_ROW, Metrics
from hayase.kernel.frame.expressions import struct_type
from hayase.kernel.node.column_node import KEY, NULL
from hayase.serde.protocol import BARE_FIELD, Schema
from hayase.topology.operators import VectorizedFunction


class Counting(Protocol):
    """A context with counters."""

    @property
    def metrics(self) -> Metrics:
        """The counters of the task."""
        ...


def results_of(function: VectorizedFunction, node: str, ctx: Counting, *frames: pl.DataFrame) -> pl.DataFrame:
    """The fields of the function's results and `__null`; of pairs `__key`, too."""
    result = function.columns(*frames)
    ctx.metrics.add(ROW_BY_ROW, node, result.row_by_row)
    return with_null(result.frame, function.schema)


def with_null(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """Results with `__null`, which a function may leave out."""
    if NULL in frame.columns:
        return frame
    null = pl.col(BARE_FIELD).is_null() if schema.bare else pl.lit(value=False)
    return frame.with_columns(null.alias(NULL))


def with_new_values(frame: pl.DataFrame, kept: Sequence[str], results: pl.DataFrame) -> pl.DataFrame:
    """The kept columns of the frame beside results."""
    return frame.select(kept).with_columns(results.get_columns())


def holds(function: VectorizedFunction, node: str, ctx: Counting, frame: pl.DataFrame) -> pl.Series:
    """Whether a predicate holds for each row; null counts as false."""
    return results_of(function, node, ctx, frame)[BARE_FIELD].fill_null(value=False)


def keys_of(results: pl.DataFrame, schema: Schema) -> pl.Series:
    """The results as one column of keys."""
    if schema.bare:
        return results[BARE_FIELD].alias(KEY)
    fields = pl.struct(schema.names).cast(struct_type(schema))
    return results.select(pl.when(~pl.col(NULL)).then(fields).alias(KEY)).to_series()
