"""Look up a global table, under a key made of the stream's record."""

from __future__ import annotations

from typing import Any

from hayase.core.metrics import DROPPED_RECORDS
from hayase.core.records import Record
from hayase.kernel.functions import row_joiner, row_mapper
from hayase.kernel.rows import RowContext, RowNode
from hayase.kernel.table import StoredRows
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import StreamGlobalTableJoin


class GlobalJoinRows(RowNode):
    """StreamGlobalTableJoin in row form. The key mapper is not called for null values, which are dropped anyway."""

    def __init__(self, node: ProcessorNode, operator: StreamGlobalTableJoin) -> None:
        super().__init__(node.name)
        self._parent = node.parents[0]
        self._operator = operator

    def open(self, ctx: RowContext) -> None:
        """Start of an epoch."""
        super().open(ctx)
        operator, edge = self._operator, ctx.schemas.get(self._parent)
        codec = ctx.env.store_spec(operator.store).value_serde.columns
        self._table = StoredRows.of(ctx.env, operator.store)
        self._map_key = row_mapper(self.name, operator.key_mapper, edge)
        self._join = row_joiner(self.name, operator.joiner, edge, codec.schema if codec is not None else None)

    def process(self, record: Record[Any, Any]) -> None:
        """Join one record with the global table as it is now."""
        left = self._operator.left
        key = self._map_key(record) if record.value is not None else None
        if record.value is None or (key is None and not left):
            self.ctx.env.metrics.add(DROPPED_RECORDS, self.name)
            return
        row = self._table.get(key) if key is not None else None
        if row is None and not left:
            return
        self.ctx.forward(record.with_value(self._join(record, None if row is None else row[0])))
