"""Call something for its side effect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from hayase.core.records import Record
from hayase.kernel.frame.callables import call_each
from hayase.kernel.frame.python_values import has_python_records, record_keys, record_values
from hayase.kernel.node.column_node import ColumnContext, ColumnNode, CompileContext
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.node.row_node import RowContext, RowNode
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import Peek


class PeekRows(RowNode):
    """Peek in row form."""

    def __init__(self, node: ProcessorNode, operator: Peek, ctx: RowContext) -> None:
        super().__init__(ctx)
        self._action = operator.action

    def process(self, record: Record) -> None:
        """Call the action, then pass the record on."""
        self._action(record.key, record.value)
        self.ctx.forward(record)


class PeekCalls(ColumnNode):
    """Peek in column form."""

    def __init__(self, name: str, output: EdgeSchema, action: Callable[[Any, Any], None]) -> None:
        super().__init__(name, output)
        self._action = action

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """The same rows, without those on which the action raised."""
        frame = inputs[0]
        arguments = record_keys(frame, self.output), record_values(frame, self.output)
        return call_each(frame, arguments, self._action, ctx)[0]


def peek_columns(node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext) -> ColumnNode | None:
    """The column form."""
    operator, (edge,) = node.operator, inputs
    assert isinstance(operator, Peek)
    return PeekCalls(node.name, edge, operator.action) if has_python_records(edge) else None
