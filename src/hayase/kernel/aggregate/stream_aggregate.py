"""Aggregating a grouped stream into a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from hayase.core.metrics import DROPPED_RECORDS
from hayase.core.records import Record
from hayase.kernel.aggregate.aggregate_node_columns import KeyedAggregateColumns, KeyValueKeys
from hayase.kernel.aggregate.aggregate_node_rows import AggregateNode
from hayase.kernel.aggregate.aggregator_columns import Aggregated, ColumnAggregator
from hayase.kernel.aggregate.stored_row import RowStore
from hayase.kernel.node.column_node import KEY, NULL, ColumnContext, CompileContext
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.table.versioned_rows import VersionedRowStore, key_places
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import StreamAggregate


class StreamAggregateRows(AggregateNode[StreamAggregate]):
    """StreamAggregate in row form."""

    def places(self) -> RowStore | VersionedRowStore:
        """The store."""
        self._store = key_places(self.ctx.env, self._operator.store, self.name)
        return self._store

    def get_as_of(self, key: object, as_of_ms: int) -> tuple[object, int] | None:
        """See VersionedTableRows; the table must be versioned."""
        assert isinstance(self._store, VersionedRowStore)
        stored = self._store.get_as_of(self._key_bytes(key), as_of_ms)
        return None if stored is None else self._rows.read(stored)

    def place(self, key: Any) -> tuple[Any, ...]:
        """The key's bytes."""
        return (self._key_bytes(key),)

    def process(self, record: Record) -> None:
        """Take one record."""
        if record.key is None or record.value is None:
            self.ctx.env.metrics.add(DROPPED_RECORDS, self.name)
            return
        self._rows.update(self.place(record.key), record, self._aggregation.inputs(record))


class StreamAggregateColumns(KeyedAggregateColumns[ColumnAggregator]):
    """StreamAggregate in column form; built-in aggregates only."""

    @classmethod
    def compile(
        cls, node: ProcessorNode, edges: Sequence[EdgeSchema], ctx: CompileContext
    ) -> StreamAggregateColumns | None:
        """The node; `None` if the aggregate, or its store, has no column form."""
        operator = node.operator
        assert isinstance(operator, StreamAggregate)
        if operator.cogrouped:
            return None
        aggregation = ColumnAggregator.compile(node, edges[0], ctx)
        if aggregation is None:
            return None
        output = EdgeSchema(edges[0].key, aggregation.schema, table=True, old_values=operator.old_values)
        return cls(node.name, output, operator.store, aggregation)

    def updated(self, frame: pl.DataFrame, store_keys: KeyValueKeys, ctx: ColumnContext) -> Aggregated:
        """See KeyedAggregateColumns."""
        refused = frame[KEY].is_null() | frame[NULL]
        ctx.metrics.add(DROPPED_RECORDS, self.name, int(refused.sum()))
        rows = self._aggregation.with_inputs(frame.filter(~refused) if refused.any() else frame, ctx)
        return self._aggregation.run(rows, store_keys, ctx)
