"""Scans of tables in columns: entries of a store become rows of the answer many at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from hayase.kernel.frame.stored_columns import StoreCodec
from hayase.kernel.node.column_node import KEY, TS
from hayase.serde.protocol import BARE_FIELD
from hayase.sql.analysis.pull import PullPlan
from hayase.sql.catalog.sources import ROWTIME
from hayase.sql.formats.row_columns import unpacked
from hayase.sql.functions.registry import FunctionRegistry
from hayase.sql.plan.frame_expressions import FrameExpressions
from hayase.sql.plan.guarded import GuardedExpression
from hayase.sql.plan.kept_table import KeptTable, ViewStep

RawEntry = tuple[bytes, bytes]
"""Key and value as a store has them."""


class ColumnScan:
    """What makes rows of the answer from raw entries; equal to the row form, which answers where there is no such scan.

    Args:
        codec: of the store.
        kept: the table in it.
        steps: from its entries to rows of the table.
        predicate: what a row has to pass.
        items: columns of the answer.
    """

    def __init__(
        self,
        codec: StoreCodec,
        kept: KeptTable,
        steps: Sequence[ViewStep],
        predicate: GuardedExpression | None,
        items: Sequence[GuardedExpression],
    ) -> None:
        self._codec = codec
        self._kept = kept
        self._steps = steps
        self._predicate = None if predicate is None else FrameExpressions([predicate])
        self._items = FrameExpressions(items)
        self._packed = [item.packed for item in items]

    def rows(self, entries: Sequence[RawEntry]) -> list[tuple[Any, ...]]:
        """The rows of entries, in their order.

        Raises:
            SerializationError: an entry is not what the store's serdes write.
        """
        frame = self._table(entries)
        if self._predicate is not None:
            (passes,), _ = self._predicate(frame)
            frame = frame.filter(passes.cast(pl.Boolean))
        values, _ = self._items(frame)
        columns = [unpacked(each, packed) for each, packed in zip(values, self._packed, strict=True)]
        return list(zip(*columns, strict=True))

    def _table(self, entries: Sequence[RawEntry]) -> pl.DataFrame:
        """The rows of the table: its columns and ROWTIME."""
        frame = self._codec.read([value for _, value in entries]).with_columns(self._keys(entries))
        for step in self._steps:
            frame = step.on_frame(frame)
        is_bare = self._codec.key.schema.bare
        keys = [
            (pl.col(KEY) if is_bare else pl.col(KEY).struct.field(field)).alias(name) for name, field in self._kept.key
        ]
        return frame.with_columns(pl.col(TS).alias(ROWTIME), *keys)

    def _keys(self, entries: Sequence[RawEntry]) -> pl.Series:
        keys = self._codec.key.decode(pa.array([key for key, _ in entries], pa.binary())).checked().frame
        return (keys[BARE_FIELD] if self._codec.key.schema.bare else keys.to_struct()).alias(KEY)


def column_scan(
    plan: PullPlan, kept: KeptTable, functions: FunctionRegistry, settings: Mapping[str, object]
) -> ColumnScan | None:
    """The scan in columns of a query; `None` if the store, a step or an expression has none."""
    codec = StoreCodec.of(kept.store)
    if codec is None or kept.store.kind != "timestamped_key_value" or kept.instead_of_null:
        return None
    bare = codec.key.schema.bare
    steps = kept.steps_on_frames
    if steps is None or bare is not (len(kept.key) == 1):
        return None
    from hayase.dsl.builder import StreamsBuilder  # planning is slow to import
    from hayase.sql.plan.context import PlanContext

    context = PlanContext(StreamsBuilder(), functions, settings)
    columns = plan.rows.columns
    items = [context.compile(each, columns, "Select", "SELECT", name) for name, each in plan.items]
    predicate = None if plan.where is None else context.compile(plan.where, columns, "Predicate", "WHERE")
    used = [*items, *([] if predicate is None else [predicate])]
    return None if any(each.dtype is None for each in used) else ColumnScan(codec, kept, steps, predicate, items)
