"""A table's updates become a stream."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import polars as pl

from hayase.core.records import Record
from hayase.kernel.node.column_node import OLD, OLD_NULL, ColumnContext, ColumnNode, CompileContext
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.node.row_node import RowContext, RowNode
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import TableToStream


class TableToStreamRows(RowNode):
    """TableToStream in row form."""

    def __init__(self, node: ProcessorNode, operator: TableToStream, ctx: RowContext) -> None:
        super().__init__(ctx)

    def process(self, record: Record) -> None:
        """Pass on the new value, null for a delete."""
        self.ctx.forward(record.with_value(record.value.new))


class TableToStreamColumns(ColumnNode):
    """TableToStream in column form."""

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """The new values."""
        frame = inputs[0]
        return frame.drop([name for name in frame.columns if name == OLD_NULL or name.startswith(OLD)])


def table_to_stream_columns(
    node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext
) -> ColumnNode | None:
    """The column form."""
    (edge,) = inputs
    return TableToStreamColumns(node.name, dataclasses.replace(edge, table=False, old_values=False))
