"""Look up a table for each record of a stream."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import polars as pl

from hayase.core.metrics import DROPPED_RECORDS
from hayase.core.records import Record
from hayase.kernel.frame.row_functions import row_joiner
from hayase.kernel.join.buffered_join import BufferedJoin
from hayase.kernel.join.joiner_columns import JoinedValues, compile_joiner
from hayase.kernel.join.lookup_columns import matched, without_nulls
from hayase.kernel.join.lookup_rows import LookupRows
from hayase.kernel.join.table_reader_columns import TableReader, table_reader
from hayase.kernel.node.column_node import ColumnContext, ColumnNode, CompileContext
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.node.row_node import RowContext
from hayase.kernel.table.table_rows import as_versioned
from hayase.serde.faults import is_fault
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import StreamTableJoin


class StreamTableJoinRows(LookupRows[StreamTableJoin]):
    """StreamTableJoin in row form."""

    def __init__(self, node: ProcessorNode, operator: StreamTableJoin, ctx: RowContext) -> None:
        table_edge = ctx.schemas.get(operator.table)
        right = table_edge.value if table_edge is not None else None
        join = row_joiner(ctx.name, operator.joiner, ctx.schemas.get(node.parents[0]), right)
        super().__init__(node, operator, ctx, ctx.table(operator.table), join)
        self._versions = as_versioned(self._table) if operator.as_of else None
        self._buffered: BufferedJoin | None = None
        if operator.buffer is not None and operator.serdes is not None:
            store = ctx.env.byte_store(operator.buffer)
            self._buffered = BufferedJoin(store, ctx.env.clocks, operator.buffer, operator.serdes, operator.grace_ms)

    def process(self, record: Record) -> None:
        """Join one record with the table as it is now, or was at its time.

        Or let it wait, and join those that are due.
        """
        buffered = self._buffered
        if buffered is None or record.key is None or record.value is None:
            self.look_up(record, record.key)
            return
        if not buffered.put(record):
            self.look_up(record, record.key)
            return
        for due in buffered.due():
            try:
                self.look_up(due, due.key)
            except Exception as error:  # the joiner may raise anything; the current record must not suffer for it
                if not is_fault(error):
                    raise
                self.ctx.env.processing_failed(self.name, error)

    def row(self, record: Record, key: object) -> tuple[object, int] | None:
        """The row for a record; see LookupRows."""
        if self._versions is not None:
            return self._versions.get_as_of(key, record.timestamp_ms)
        return super().row(record, key)


class StreamTableJoinColumns(ColumnNode):
    """StreamTableJoin in column form.

    Args:
        reader: reads the table.
        values: makes the results.
    """

    def __init__(
        self,
        name: str,
        output: EdgeSchema,
        operator: StreamTableJoin,
        reader: TableReader,
        values: JoinedValues,
    ) -> None:
        super().__init__(name, output)
        self._operator = operator
        self._reader = reader
        self._values = values

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """The joined rows; null values, and for inner joins null keys, are dropped and counted."""
        frame = inputs[0]
        stream = without_nulls(frame, keys=not self._operator.left)
        ctx.metrics.add(DROPPED_RECORDS, self.name, frame.height - stream.height)
        stream, rows = self._reader.read(stream, ctx)
        if not self._operator.left:
            stream, rows = matched(stream, rows)
        return self._values.join(stream, rows, ctx)


def stream_table_join_columns(
    node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext
) -> ColumnNode | None:
    """The column form; it needs one for the table too, and a topology whose order columns tell what a record sees."""
    operator, (edge,) = node.operator, inputs
    assert isinstance(operator, StreamTableJoin)
    if operator.as_of:
        return None
    table = ctx.tables.get(operator.table)
    reader = table_reader(node.name, node.parents[0], operator.table, ctx)
    if table is None or reader is None or edge.windowed:
        return None
    if dict(edge.key.fields) != dict(table.key.fields):
        return None
    values = compile_joiner(node.name, operator.joiner, edge, table.value, operator.schema)
    if values is None:
        return None
    output = dataclasses.replace(edge, value=values.schema)
    return StreamTableJoinColumns(node.name, output, operator, reader, values)
