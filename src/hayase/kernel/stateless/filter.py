"""Keep the records for which a predicate holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from hayase.core.records import Record
from hayase.kernel.frame.callables import call_each
from hayase.kernel.frame.expressions import predicate_of, visible
from hayase.kernel.frame.python_values import has_python_records, record_keys, record_values
from hayase.kernel.frame.row_functions import row_predicate
from hayase.kernel.frame.vectorized import holds
from hayase.kernel.node.column_node import ColumnContext, ColumnNode, CompileContext, evaluate
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.node.row_node import OperatorRows, RowContext
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import Filter, VectorizedFunction


class FilterRows(OperatorRows[Filter]):
    """Filter in row form. `negate` keeps exactly what would be dropped without, null results included."""

    def __init__(self, node: ProcessorNode, operator: Filter, ctx: RowContext) -> None:
        super().__init__(node, operator, ctx)
        self._holds = row_predicate(self.name, self._operator.predicate, self.edge)

    def process(self, record: Record) -> None:
        """Pass the record on if the predicate holds."""
        if self._holds(record) != self._operator.negate:
            self.ctx.forward(record)


class FilterExpression(ColumnNode):
    """Filter in column form, by an expression."""

    def __init__(self, name: str, output: EdgeSchema, keep: pl.Expr) -> None:
        super().__init__(name, output)
        self._keep = keep

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """The rows that pass."""
        return evaluate(inputs[0], lambda frame: frame.filter(self._keep), ctx)


class FilterCalls(ColumnNode):
    """Filter in column form, by a callable."""

    def __init__(self, name: str, output: EdgeSchema, predicate: Callable[[Any, Any], bool], *, negate: bool) -> None:
        super().__init__(name, output)
        self._predicate = predicate
        self._negate = negate

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """The rows that pass."""
        frame = inputs[0]
        arguments = record_keys(frame, self.output), record_values(frame, self.output)
        frame, results = call_each(frame, arguments, self._predicate, ctx)
        return frame.filter(pl.Series([bool(result) != self._negate for result in results], dtype=pl.Boolean))


class FilterVectorized(ColumnNode):
    """Filter in column form, by the column form of a function."""

    def __init__(self, name: str, output: EdgeSchema, predicate: VectorizedFunction, *, negate: bool) -> None:
        super().__init__(name, output)
        self._predicate = predicate
        self._negate = negate

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """The rows that pass."""
        passes = holds(self._predicate, self.name, ctx, inputs[0])
        return inputs[0].filter(~passes if self._negate else passes)


def filter_columns(node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext) -> ColumnNode | None:
    """The column form."""
    operator, (edge,) = node.operator, inputs
    assert isinstance(operator, Filter)
    if isinstance(operator.predicate, pl.Expr):
        holds = predicate_of(node.name, operator.predicate, visible(edge))
        return FilterExpression(node.name, edge, ~holds if operator.negate else holds)
    if isinstance(operator.predicate, VectorizedFunction):
        return FilterVectorized(node.name, edge, operator.predicate, negate=operator.negate)
    if not has_python_records(edge):
        return None
    return FilterCalls(node.name, edge, operator.predicate, negate=operator.negate)
