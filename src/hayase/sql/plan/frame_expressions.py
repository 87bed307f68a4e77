"""Expressions over frames of rows: in columns where they have a column form, else in a loop over the columns they need.

The row form is the meaning. Where the column form is not sure of a row, the row form decides that row, and only that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from hayase.kernel.node.column_node import NULL
from hayase.sql.formats.packing import PackedForm
from hayase.sql.formats.row_columns import FROM_ROWS, packed_series, unpacked
from hayase.sql.plan.guarded import GuardedExpression

NOTHING_PACKED: Mapping[str, PackedForm] = {}
Values = tuple[list[pl.Series], int]
"""A series for each expression, and how many values of the column forms the row form has decided."""


class FrameExpressions:
    """Expressions over the same columns.

    Args:
        parts: the expressions; each has a type with columns.
    """

    def __init__(self, parts: Sequence[GuardedExpression]) -> None:
        self._parts = list(parts)

    def __call__(self, frame: pl.DataFrame, present: pl.Series | None = None) -> Values:
        """The values for the rows of a frame.

        Args:
            frame: has the columns that the expressions read, and `__null`.
            present: the rows that have values; the others have null. `None`: those that are not null.
        """
        if present is None and frame[NULL].any():
            present = ~frame[NULL]
        values, masks = self._in_columns(frame)
        decided = 0
        for index, part in enumerate(self._parts):
            mask = masks.get(index)
            if index not in values:
                values[index] = _by_rows(part, frame, present)
                continue
            if present is not None:
                values[index] = _where(present, values[index], None)
                mask = None if mask is None else mask & present
            if mask is not None and mask.any():
                decided += int(mask.sum())
                values[index] = _where(mask, _by_rows(part, frame, mask), values[index])
        return [values[index] for index in range(len(self._parts))], decided

    def _in_columns(self, frame: pl.DataFrame) -> tuple[dict[int, pl.Series], dict[int, pl.Series]]:
        """Values and masks of the expressions with a column form, by position."""
        selected: list[pl.Expr] = []
        for index, part in enumerate(self._parts):
            if part.form is not None:
                selected.append(part.form.value.alias(f"__value{index}"))
                if not part.is_sure:
                    selected.append(part.form.unsure.alias(f"__mask{index}"))
        if not selected:
            return {}, {}
        try:
            made = frame.with_columns(selected)
        except pl.exceptions.PolarsError:  # no form is known to raise; if one does, the rows are as right as ever
            return {}, {}
        columns = {index for index, part in enumerate(self._parts) if part.form is not None}
        values = {index: made[f"__value{index}"] for index in columns}
        masks = {index: made[f"__mask{index}"] for index in columns if not self._parts[index].is_sure}
        return values, masks


def _by_rows(part: GuardedExpression, frame: pl.DataFrame, chosen: pl.Series | None) -> pl.Series:
    """The row form's value of the chosen rows, null for the others."""
    rows = frame if chosen is None else frame.filter(chosen)
    values = _series([part(row) for row in rows_of(rows, part.reads, part.packed_reads)], part)
    if chosen is None:
        return values
    if not len(values):
        return pl.Series([None] * frame.height, dtype=part.dtype)
    return values.gather(pl.select(pl.when(chosen).then(chosen.cast(pl.Int64).cum_sum() - 1)).to_series())


def rows_of(
    frame: pl.DataFrame, names: Sequence[str], packed: Mapping[str, PackedForm] = NOTHING_PACKED
) -> list[dict[str, Any]]:
    """The rows of a frame as the row form takes them, with some columns only.

    Args:
        frame: the rows.
        names: of the columns.
        packed: those of them whose values are packed.
    """
    if not names:
        return [{}] * frame.height
    columns = [unpacked(frame[name], packed.get(name)) for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _series(values: list[Any], part: GuardedExpression) -> pl.Series:
    assert part.dtype is not None
    try:
        return packed_series("", values, part.dtype, part.packed)
    except FROM_ROWS:
        fitting = [_fitting(value, part) for value in values]
        return pl.Series(fitting, dtype=part.dtype, strict=True)


def _fitting(value: Any, part: GuardedExpression) -> Any:
    """The value as it is in columns, or null if it is none of the type, as a function of a user may give it."""
    assert part.dtype is not None
    try:
        return packed_series("", [value], part.dtype, part.packed).item()
    except FROM_ROWS as error:
        part.failed(error)
        return None


def _where(condition: pl.Series, this: pl.Series, other: pl.Series | None) -> pl.Series:
    """This where the condition is true, else the other one, or null."""
    return pl.select(pl.when(condition).then(this).otherwise(other)).to_series()
