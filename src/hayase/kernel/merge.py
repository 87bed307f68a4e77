"""One stream out of several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from hayase.core.records import Record
from hayase.kernel.columns import ORDER, ColumnContext, ColumnNode, CompileContext, EdgeSchema, order_columns
from hayase.kernel.compiled import known
from hayase.kernel.order import MergeOrder, RecordOrder
from hayase.kernel.rows import RowNode
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import Merge


class MergeRows(RowNode):
    """Merge in row form."""

    def __init__(self, node: ProcessorNode, operator: Merge) -> None:
        super().__init__(node.name)

    def process(self, record: Record[Any, Any]) -> None:
        """Pass the record on, whichever parent it comes from."""
        self.ctx.forward(record)


class MergeColumns(ColumnNode):
    """Merge in column form.

    The result has the order columns that the frames share, the frame's rank, and the rest of the longest.
    """

    def __init__(self, name: str, output: EdgeSchema, order: MergeOrder) -> None:
        super().__init__(name, output)
        self._order = order

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """All rows, in the order in which the row form would see them."""
        ordered = [self._ranked(frame, rank) for frame, rank in zip(inputs, self._order.ranks, strict=True)]
        present = [frame for frame in ordered if frame.height] or ordered[:1]
        if len(present) == 1:
            return present[0]
        return pl.concat(present, how="diagonal").sort(
            [f"{ORDER}{i}" for i in range(self._order.columns + 1)], maintain_order=True
        )

    def _ranked(self, frame: pl.DataFrame, rank: int) -> pl.DataFrame:
        shared, columns = self._order.shared, self._order.columns
        given = order_columns(frame)
        rest = [pl.col(given[i]) if i < len(given) else pl.lit(0, pl.Int64) for i in range(shared, columns)]
        return frame.with_columns(
            pl.lit(rank, pl.Int64).alias(f"{ORDER}{shared}"),
            *(column.alias(f"{ORDER}{i}") for i, column in enumerate(rest, shared + 1)),
        )


def merge_columns(node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext) -> ColumnNode | None:
    """The column form; it needs the same fields from all parents, and a topology whose order columns tell the order."""
    first = inputs[0]
    if not all(known(edge) and edge == first for edge in inputs):
        return None
    order = RecordOrder(ctx.nodes, ctx.stores, caching=ctx.caching).merge(node.name, node.parents)
    return None if order is None else MergeColumns(node.name, first, order)
