"""Looking up a table's rows for the rows of a stream, in column form."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from hayase.kernel.frame.order import LookupOrder
from hayase.kernel.node.column_node import KEY, NULL, ORDER, TS, ColumnContext, TableColumns, order_columns
from hayase.kernel.table.view_columns import TableView

_NUMBER = "__number"
_CHANGE = "__change"
_WHEN = "__when"


def without_nulls(stream: pl.DataFrame, *, keys: bool) -> pl.DataFrame:
    """The rows whose value, and with `keys` whose key, is not null."""
    gone = stream[NULL] | stream[KEY].is_null() if keys else stream[NULL]
    return stream.filter(~gone) if gone.any() else stream


def matched(stream: pl.DataFrame, rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows of the stream for which there is a row of the table, and these."""
    if not rows[NULL].any():
        return stream, rows
    there = ~rows[NULL]
    return stream.filter(there), rows.filter(there)


def numbered(keys: pl.Series) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Number the different keys.

    Returns:
        The different keys, null not among them, each with its `__number`; and the number of each given key, null for
        null.
    """
    given = keys.alias(KEY).to_frame()
    distinct = (
        given.drop_nulls()
        .unique(maintain_order=True)
        .with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias(_NUMBER))
    )
    return distinct, given.join(distinct, on=KEY, how="left", maintain_order="left").select(_NUMBER)


def look_up(stream: pl.DataFrame, table: TableColumns, names: Sequence[str], order: LookupOrder) -> pl.DataFrame:
    """The row of the table for each row of the stream, as it is when that row is processed.

    Args:
        stream: has `__key` and order columns.
        table: the table; if it is a view, what its steps are yet to be done on.
        names: fields of the table's value.
        order: which updates a row of the stream sees.

    Returns:
        Fields, `__null` (no row) and `__ts`, aligned with `stream`.
    """
    distinct, numbers = numbered(stream[KEY])
    wanted = [*names, NULL, TS]
    rows = table.at_start(distinct[KEY]).select(wanted)
    at = numbers[_NUMBER]
    changes = table.changes()
    if changes.height:
        changes = changes.join(distinct, on=KEY, how="inner", maintain_order="left")
    if changes.height:
        last = _last_change(stream, numbers, changes, order)
        rows = pl.concat([rows, changes.select(wanted)], how="vertical")
        at = pl.select(pl.coalesce(last + distinct.height, at)).to_series()
    return rows.select(pl.all().gather(at)).with_columns(pl.col(NULL).fill_null(value=True))


def _last_change(stream: pl.DataFrame, numbers: pl.DataFrame, changes: pl.DataFrame, order: LookupOrder) -> pl.Series:
    """Position of the last change that each row of the stream sees, null if none."""
    left, right = comparable_orders(stream, changes, order.shared)
    asked = numbers.with_columns(left)
    latest = changes.select(_NUMBER, right, pl.int_range(pl.len(), dtype=pl.Int64).alias(_CHANGE))
    latest = latest.unique([_NUMBER, _WHEN], keep="last", maintain_order=True)
    return asked.join_asof(
        latest,
        on=_WHEN,
        by=_NUMBER,
        strategy="backward",
        allow_exact_matches=order.table_first,
        check_sortedness=False,  # both ascend: frames do
    )[_CHANGE]


def comparable_orders(stream: pl.DataFrame, changes: pl.DataFrame, shared: int) -> tuple[pl.Series, pl.Series]:
    """The shared order columns of both frames as one number for each row."""
    columns = [f"{ORDER}{i}" for i in range(shared)]
    if shared == 1:
        return stream[columns[0]].alias(_WHEN), changes[columns[0]].alias(_WHEN)
    both = pl.concat([stream.select(columns), changes.select(columns)])
    rank = both.select(pl.struct(columns).rank("dense").cast(pl.Int64).alias(_WHEN))[_WHEN]
    return rank[: stream.height], rank[stream.height :]


def view_rows(
    stream: pl.DataFrame, rows: pl.DataFrame, table: TableColumns, ctx: ColumnContext
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Do the steps of a view on the rows that were looked up.

    Returns:
        The stream and the rows, without those on which a step fails.
    """
    if not isinstance(table, TableView):
        return stream, rows
    order = order_columns(stream)
    frame = rows.with_columns(stream.select(KEY, *order).get_columns())
    frame = frame.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias(_NUMBER))
    for step in table.steps:
        frame = step(frame, ctx)
    kept = stream if frame.height == stream.height else stream.select(pl.all().gather(frame[_NUMBER]))
    return kept, frame.drop(KEY, *order, _NUMBER)
