"""Updates of a captured table that lack large values get those of the row before, in column form."""

from __future__ import annotations

from typing import Any

import polars as pl

from hayase.core.errors import SerializationError
from hayase.kernel.frame.callables import without
from hayase.kernel.frame.stored_columns import StoredTable
from hayase.kernel.node.column_node import KEY, NULL, ColumnContext, order_of
from hayase.serde.protocol import Schema
from hayase.serde.unavailable import UNAVAILABLE

_MARKS: dict[object, Any] = {pl.String(): UNAVAILABLE, pl.Binary(): UNAVAILABLE.encode()}


def no_row_before() -> SerializationError:
    """The error for an update that lacks a value, of a row that is not there."""
    return SerializationError(
        "VALUE_NOT_DESERIALIZABLE",
        f"the event has {UNAVAILABLE} instead of a large value that the update left as it was, and the table has no "
        "row of that key to take it from: read the topic from its beginning, or run ALTER TABLE … REPLICA IDENTITY "
        "FULL in the database, so that it sends such values",
    )


def completed(updates: pl.DataFrame, schema: Schema, table: StoredTable | None, ctx: ColumnContext) -> pl.DataFrame:
    """The updates with the values of the rows before them; those without such a row go to the processing handler.

    The rows of the table are read only where a value is missing.

    Args:
        updates: of the table, in order, with keys that are not null.
        schema: of the values.
        table: where the rows are; `None`: they are not kept.
        ctx: of the table's node.
    """
    marks = {name: mark for name, kind in schema.fields if (mark := _marked(name, kind)) is not None}
    if not marks:
        return updates
    found = updates.select(**{name: mark.fill_null(value=False) & ~pl.col(NULL) for name, mark in marks.items()})
    missing = [name for name in marks if found[name].any()]
    if not missing:
        return updates
    incomplete = found.select(pl.any_horizontal(missing)).to_series()
    # All updates of keys that have an incomplete one, in order: each may be the row before of the next.
    keys = updates.filter(incomplete).select(KEY).unique(maintain_order=True).with_row_index("__key_at")
    numbered = updates.select(KEY).with_row_index("__row").join(keys, on=KEY, how="inner", maintain_order="left")
    before = _rows_before(keys[KEY], missing, table, ctx)
    values = {name: updates[name].to_list() for name in missing}
    absent = {name: found[name].to_list() for name in missing}
    null, failed = updates[NULL].to_list(), []
    for row, key in zip(numbered["__row"].to_list(), numbered["__key_at"].to_list(), strict=True):
        if null[row]:
            before[key] = None
            continue
        lacks = [name for name in missing if absent[name][row]]
        old = before[key]
        if lacks and old is None:
            ctx.processing_failed(order_of(updates, row), no_row_before())
            failed.append(row)
            continue
        for name in lacks:
            assert old is not None
            values[name][row] = old[name]
        before[key] = {name: values[name][row] for name in missing}
    columns = [pl.Series(name, values[name], dtype=updates.schema[name]) for name in missing]
    return without(updates.with_columns(columns), failed)


def _marked(name: str, kind: pl.DataType) -> pl.Expr | None:
    """Whether a column holds the placeholder; `None`: columns of that type cannot."""
    column = pl.col(name)
    if kind in _MARKS:
        return column == pl.lit(_MARKS[kind])
    if isinstance(kind, pl.List) and (mark := _MARKS.get(kind.inner)) is not None:
        return (column.list.len() == 1) & (column.list.get(0, null_on_oob=True) == pl.lit(mark))
    return None


def _rows_before(
    keys: pl.Series, names: list[str], table: StoredTable | None, ctx: ColumnContext
) -> list[dict[str, Any] | None]:
    """Some fields of the stored row of each key; `None`: there is no row."""
    if table is None:
        return [None] * len(keys)
    raw = ctx.byte_store(table.store).get_many(table.codec.key_bytes(keys))
    rows = table.codec.read(raw).select(*names, NULL).to_dicts()
    return [None if row[NULL] else row for row in rows]
