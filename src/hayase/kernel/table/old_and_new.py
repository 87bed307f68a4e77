"""Doing something to the new and to the old rows of a table's updates, in column form."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from hayase.kernel.node.column_node import NULL, OLD, OLD_NULL

ROW = "__row"
"""Column with the number of an update."""

Made = Callable[[pl.DataFrame], pl.DataFrame]
"""From rows that are there (`__row`, `__key`, fields, `__ts`, order columns) to what is made of them, by `__row`.

Rows that fail are left out.
"""


def both_sides(frame: pl.DataFrame, names: list[str], make: Made) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Make something of new rows, then of old ones.

    Args:
        frame: updates with old values.
        names: fields of the values.
        make: what is done.

    Returns:
        The updates, numbered, without those that failed; and, aligned with these, what was made of the new and of the
        old rows, nulls where there is none.
    """
    frame = frame.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias(ROW))
    new = make(frame.filter(~frame[NULL]))
    frame = _without_failed(frame, frame[NULL], new)
    before = frame.filter(~frame[OLD_NULL]).drop(names).rename({OLD + name: name for name in names})
    old = make(before.with_columns(pl.lit(value=False).alias(NULL)))
    frame = _without_failed(frame, frame[OLD_NULL], old)
    return frame, _aligned(frame, new), _aligned(frame, old)


def _without_failed(frame: pl.DataFrame, null: pl.Series, done: pl.DataFrame) -> pl.DataFrame:
    """The updates without those that are there but have not been done."""
    if done.height + int(null.sum()) == frame.height:
        return frame
    return frame.filter(null | frame[ROW].is_in(done[ROW].implode()))


def _aligned(frame: pl.DataFrame, done: pl.DataFrame) -> pl.DataFrame:
    if done[ROW].equals(frame[ROW]):
        return done
    return frame.select(ROW).join(done, on=ROW, how="left", maintain_order="left")
