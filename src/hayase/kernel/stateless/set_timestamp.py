"""New timestamps from keys and values."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from hayase.core.metrics import DROPPED_RECORDS
from hayase.core.records import Record
from hayase.kernel.frame.row_functions import row_mapper
from hayase.kernel.frame.vectorized import results_of
from hayase.kernel.node.column_node import TS, ColumnContext, ColumnNode, CompileContext
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.node.row_node import OperatorRows, RowContext
from hayase.serde.protocol import BARE_FIELD
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import SetTimestamp, VectorizedFunction


class SetTimestampRows(OperatorRows[SetTimestamp]):
    """SetTimestamp in row form."""

    def __init__(self, node: ProcessorNode, operator: SetTimestamp, ctx: RowContext) -> None:
        super().__init__(node, operator, ctx)
        self._time = row_mapper(self.name, operator.mapper, self.edge)

    def process(self, record: Record) -> None:
        """Pass the record on with its new time."""
        time_ms = self._time(record)
        if time_ms is None:
            self.ctx.env.metrics.add(DROPPED_RECORDS, self.name)
            return
        self.ctx.forward(Record(record.key, record.value, time_ms, record.headers))


class SetTimestampVectorized(ColumnNode):
    """SetTimestamp in column form, by the column form of a function."""

    def __init__(self, name: str, output: EdgeSchema, mapper: VectorizedFunction) -> None:
        super().__init__(name, output)
        self._mapper = mapper

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """The same rows with new times."""
        times = results_of(self._mapper, self.name, ctx, inputs[0])[BARE_FIELD].cast(pl.Int64)
        frame = inputs[0].with_columns(times.alias(TS))
        missing = times.null_count()
        if not missing:
            return frame
        ctx.metrics.add(DROPPED_RECORDS, self.name, missing)
        return frame.filter(pl.col(TS).is_not_null())


def set_timestamp_columns(node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext) -> ColumnNode | None:
    """The column form of functions that have one."""
    operator, (edge,) = node.operator, inputs
    assert isinstance(operator, SetTimestamp)
    if not isinstance(operator.mapper, VectorizedFunction):
        return None
    return SetTimestampVectorized(node.name, edge, operator.mapper)
