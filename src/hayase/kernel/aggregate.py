"""Aggregating a grouped stream into a table."""

from __future__ import annotations

from typing import Any

from hayase.core.metrics import DROPPED_RECORDS
from hayase.core.records import Record
from hayase.kernel.aggregate_rows import AggregateRows
from hayase.kernel.row_aggregation import row_aggregation
from hayase.kernel.rows import RowContext, RowNode, TableEmitter, TableRows
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import StreamAggregate


class StreamAggregateRows(RowNode):
    """StreamAggregate in row form."""

    def __init__(self, node: ProcessorNode, operator: StreamAggregate) -> None:
        super().__init__(node.name)
        self._parent = node.parents[0]
        self._operator = operator

    def open(self, ctx: RowContext) -> None:
        """Start of an epoch."""
        super().open(ctx)
        operator = self._operator
        spec = ctx.env.store_spec(operator.store)
        self._key_bytes = spec.key_serde.to_bytes
        self._emitter = TableEmitter(ctx, caching=spec.caching, key_bytes=self._key_bytes)
        aggregation = row_aggregation(self.name, operator.aggregation, spec.value_serde, ctx.schemas.get(self._parent))
        self._aggregation = aggregation
        self._rows = AggregateRows(
            ctx.env.byte_store(operator.store),
            aggregation,
            self._emitter,
            caching=spec.caching,
            old_values=operator.old_values,
        )

    def process(self, record: Record[Any, Any]) -> None:
        """Take one record."""
        if record.key is None or record.value is None:
            self.ctx.env.metrics.add(DROPPED_RECORDS, self.name)
            return
        inputs = self._aggregation.inputs(record)
        self._rows.update((self._key_bytes(record.key),), record, inputs)

    def flush(self) -> None:
        """Send on what the cache holds."""
        self._emitter.flush()

    def table_rows(self) -> TableRows:
        """The rows of the store."""
        return self

    def get(self, key: Any) -> tuple[Any, int] | None:
        """Value and timestamp of the row of a key; see TableRows."""
        return None if key is None else self._rows.get((self._key_bytes(key),))
