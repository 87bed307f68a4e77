"""Look up a table for each record of a stream."""

from __future__ import annotations

from typing import Any

from hayase.core.metrics import DROPPED_RECORDS
from hayase.core.records import Record
from hayase.kernel.functions import row_joiner
from hayase.kernel.rows import RowContext, RowNode
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import StreamTableJoin


class StreamTableJoinRows(RowNode):
    """StreamTableJoin in row form."""

    def __init__(self, node: ProcessorNode, operator: StreamTableJoin) -> None:
        super().__init__(node.name)
        self._parent = node.parents[0]
        self._operator = operator

    def open(self, ctx: RowContext) -> None:
        """Start of an epoch."""
        super().open(ctx)
        operator = self._operator
        self._table = ctx.table(operator.table)
        table_edge = ctx.schemas.get(operator.table)
        right = table_edge.value if table_edge is not None else None
        self._join = row_joiner(self.name, operator.joiner, ctx.schemas.get(self._parent), right)

    def process(self, record: Record[Any, Any]) -> None:
        """Join one record with the table as it is now."""
        key, left = record.key, self._operator.left
        if record.value is None or (key is None and not left):
            self.ctx.env.metrics.add(DROPPED_RECORDS, self.name)
            return
        row = self._table.get(key) if key is not None else None
        if row is None and not left:
            return
        self.ctx.forward(record.with_value(self._join(record, None if row is None else row[0])))
