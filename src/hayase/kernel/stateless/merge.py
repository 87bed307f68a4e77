"""One stream out of several."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from hayase.core.records import Record
from hayase.kernel.frame.order import MergeOrder, RecordOrder
from hayase.kernel.node.column_node import ORDER, ColumnContext, ColumnNode, CompileContext, order_columns
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.node.row_node import RowContext, RowNode
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import Merge


class MergeRows(RowNode):
    """Merge in row form."""

    def __init__(self, node: ProcessorNode, operator: Merge, ctx: RowContext) -> None:
        super().__init__(ctx)

    def process(self, record: Record) -> None:
        """Pass the record on, whichever parent it comes from."""
        self.ctx.forward(record)


class MergeColumns(ColumnNode):
    """Merge in column form."""

    def __init__(self, name: str, output: EdgeSchema, order: MergeOrder) -> None:
        super().__init__(name, output)
        self._order = order

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """All rows, in the order in which the row form would see them."""
        return merge_in_order(inputs, self._order)


def merge_in_order(frames: Sequence[pl.DataFrame], order: MergeOrder) -> pl.DataFrame:
    """One frame out of several: the order columns that they share, the frame's rank, and the rest of the longest."""
    every = [ranked(frame, rank, order) for frame, rank in zip(frames, order.ranks, strict=True)]
    present = [frame for frame in every if frame.height] or every[:1]
    if len(present) == 1:
        return present[0]
    columns = [f"{ORDER}{i}" for i in range(order.columns + 1)]
    return pl.concat(present, how="diagonal").sort(columns, maintain_order=True)


def ranked(frame: pl.DataFrame, rank: int, order: MergeOrder) -> pl.DataFrame:
    """A frame with the order columns that it has when merged with others."""
    given = order_columns(frame)
    rest = [pl.col(given[i]) if i < len(given) else pl.lit(0, pl.Int64) for i in range(order.shared, order.columns)]
    return frame.with_columns(
        pl.lit(rank, pl.Int64).alias(f"{ORDER}{order.shared}"),
        *(column.alias(f"{ORDER}{i}") for i, column in enumerate(rest, order.shared + 1)),
    )


def merge_columns(node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext) -> ColumnNode | None:
    """The column form; it needs the same fields from all parents, and a topology whose order columns tell the order."""
    first = inputs[0]
    if not all(edge == first for edge in inputs):
        return None
    order = RecordOrder(ctx.nodes, ctx.stores, caching=ctx.caching).merge(
        [(parent, node.name) for parent in node.parents]
    )
    return None if order is None else MergeColumns(node.name, first, order)
