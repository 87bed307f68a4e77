"""Call something for its side effect, at the end of a stream."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from hayase.core.records import Record
from hayase.kernel.frame.python_values import has_python_records
from hayase.kernel.node.column_node import ColumnContext, ColumnNode, CompileContext
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.node.row_node import RowContext, RowNode
from hayase.kernel.stateless.peek import PeekCalls
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import Foreach


class ForeachRows(RowNode):
    """Foreach in row form."""

    def __init__(self, node: ProcessorNode, operator: Foreach, ctx: RowContext) -> None:
        super().__init__(ctx)
        self._action = operator.action

    def process(self, record: Record) -> None:
        """Call the action."""
        self._action(record.key, record.value)


class ForeachCalls(PeekCalls):
    """Foreach in column form."""

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """No rows: the action has been called for each."""
        return super().run(inputs, ctx).clear()


def foreach_columns(node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext) -> ColumnNode | None:
    """The column form."""
    operator, (edge,) = node.operator, inputs
    assert isinstance(operator, Foreach)
    return ForeachCalls(node.name, edge, operator.action) if has_python_records(edge) else None
