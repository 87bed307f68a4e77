"""The rows of a table for which a predicate holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import polars as pl

from hayase.core.records import Record
from hayase.kernel.frame.expressions import predicate_of, visible
from hayase.kernel.frame.python_values import has_python_records
from hayase.kernel.frame.row_functions import row_predicate
from hayase.kernel.node.column_node import ColumnNode, CompileContext
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.node.row_node import RowContext
from hayase.kernel.table.table_step import TableStepRows, old_values_missing, table_step_columns
from hayase.kernel.table.table_step_columns import FilterStep
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import TableFilter, VectorizedFunction


class TableFilterRows(TableStepRows[TableFilter]):
    """TableFilter in row form.

    A row for which the predicate does not hold is a delete. Where old values are known, a delete of what was not there
    is not sent, unless the parent is versioned: then it may be one of another time.
    """

    def __init__(self, node: ProcessorNode, operator: TableFilter, ctx: RowContext) -> None:
        super().__init__(node, operator, ctx)
        self.suppress = not operator.versioned
        self._holds = row_predicate(self.name, operator.predicate, ctx.schemas.get(operator.parent))

    def compute(self, key: object, value: object, timestamp_ms: int) -> Any:
        """The value, if it passes."""
        if value is None:
            return None
        return value if self._holds(Record(key, value, timestamp_ms)) != self._operator.negate else None


def table_filter_columns(node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext) -> ColumnNode | None:
    """The column form; a store needs serdes that have one."""
    operator, (edge,) = node.operator, inputs
    assert isinstance(operator, TableFilter)
    if old_values_missing(operator, edge):
        return None
    if isinstance(operator.predicate, pl.Expr):
        step = FilterStep(
            node.name, edge, predicate_of(node.name, operator.predicate, visible(edge)), negate=operator.negate
        )
    elif isinstance(operator.predicate, VectorizedFunction) or has_python_records(edge):
        step = FilterStep(node.name, edge, operator.predicate, negate=operator.negate)
    else:
        return None
    output = dataclasses.replace(edge, old_values=operator.old_values)
    return table_step_columns(node, step, output, ctx, suppress=operator.old_values)
