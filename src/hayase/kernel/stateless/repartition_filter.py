"""Drop null keys before a repartition."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from hayase.core.records import Record
from hayase.kernel.node.column_node import KEY, ColumnContext, ColumnNode, CompileContext
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.node.row_node import RowContext, RowNode
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import RepartitionFilter


class RepartitionFilterRows(RowNode):
    """RepartitionFilter in row form."""

    def __init__(self, node: ProcessorNode, operator: RepartitionFilter, ctx: RowContext) -> None:
        super().__init__(ctx)
        self._keep_null_keys = operator.keep_null_keys

    def process(self, record: Record) -> None:
        """Pass the record on unless its key is null."""
        if record.key is not None or self._keep_null_keys:
            self.ctx.forward(record)


class RepartitionFilterColumns(ColumnNode):
    """RepartitionFilter in column form."""

    def __init__(self, name: str, output: EdgeSchema, *, keep_null_keys: bool) -> None:
        super().__init__(name, output)
        self._keep_null_keys = keep_null_keys

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """The rows with a key."""
        frame = inputs[0]
        return frame if self._keep_null_keys or not frame[KEY].null_count() else frame.filter(pl.col(KEY).is_not_null())


def repartition_filter_columns(
    node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext
) -> ColumnNode | None:
    """The column form."""
    operator, (edge,) = node.operator, inputs
    assert isinstance(operator, RepartitionFilter)
    return RepartitionFilterColumns(node.name, edge, keep_null_keys=operator.keep_null_keys)
