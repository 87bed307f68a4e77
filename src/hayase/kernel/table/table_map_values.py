"""The rows of a table with new values."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import polars as pl

from hayase.core.records import Record
from hayase.kernel.frame.expressions import compile_value, visible
from hayase.kernel.frame.python_values import has_python_records, has_python_values
from hayase.kernel.frame.row_functions import row_mapper
from hayase.kernel.node.column_node import ColumnNode, CompileContext
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.node.row_node import RowContext
from hayase.kernel.table.table_step import TableStepRows, old_values_missing, table_step_columns
from hayase.kernel.table.table_step_columns import MapStep
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import TableMapValues, VectorizedFunction


class TableMapValuesRows(TableStepRows[TableMapValues]):
    """TableMapValues in row form. Every update of the parent is sent on, deletes as deletes."""

    def __init__(self, node: ProcessorNode, operator: TableMapValues, ctx: RowContext) -> None:
        super().__init__(node, operator, ctx)
        self._map = row_mapper(self.name, operator.mapper, ctx.schemas.get(operator.parent))

    def compute(self, key: object, value: object, timestamp_ms: int) -> Any:
        """What the mapper makes of the row; it is not shown deletes."""
        return None if value is None else self._map(Record(key, value, timestamp_ms))


def table_map_values_columns(
    node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext
) -> ColumnNode | None:
    """The column form; a callable has one if the schema of its results is known, a store if that of its serdes is."""
    operator, (edge,) = node.operator, inputs
    assert isinstance(operator, TableMapValues)
    if old_values_missing(operator, edge):
        return None
    if isinstance(operator.mapper, pl.Expr | tuple):
        value = compile_value(node.name, operator.mapper, visible(edge))
        step = MapStep(node.name, edge, value, value.schema)
    elif isinstance(operator.mapper, VectorizedFunction):
        step = MapStep(node.name, edge, operator.mapper, operator.mapper.schema)
    elif operator.schema is not None and has_python_values(operator.schema) and has_python_records(edge):
        step = MapStep(node.name, edge, operator.mapper, operator.schema)
    else:
        return None
    output = dataclasses.replace(edge, value=step.schema, old_values=operator.old_values)
    return table_step_columns(node, step, output, ctx, suppress=False)
