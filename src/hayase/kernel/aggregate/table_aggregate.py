"""Aggregating a grouped table into a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from hayase.core.records import Change, Record
from hayase.kernel.aggregate.aggregate_node_columns import KeyedAggregateColumns, KeyValueKeys
from hayase.kernel.aggregate.aggregator_columns import Aggregated
from hayase.kernel.aggregate.stored_row import row_writer, timestamp_of
from hayase.kernel.aggregate.table_aggregator_columns import ColumnTableAggregator
from hayase.kernel.aggregate.table_aggregator_rows import inputs_of, row_table_aggregator
from hayase.kernel.node.column_node import ColumnContext, CompileContext
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.node.row_node import OperatorRows, RowContext, TableEmitter, TableRows
from hayase.kernel.table.versioned_rows import VersionedRowStore, key_places
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import TableAggregate


class TableAggregateRows(OperatorRows[TableAggregate]):
    """TableAggregate in row form. Rows are stored as those of StreamAggregate: 8 bytes of timestamp, then the state."""

    def __init__(self, node: ProcessorNode, operator: TableAggregate, ctx: RowContext) -> None:
        super().__init__(node, operator, ctx)
        spec = ctx.env.store_spec(operator.store)
        self._key_bytes = spec.key_serde.to_bytes
        self._store = key_places(ctx.env, operator.store, self.name)
        self._put_row = row_writer(self._store)
        self._emitter = TableEmitter(ctx, caching=spec.caching, key_bytes=self._key_bytes)
        self._aggregation = row_table_aggregator(self.name, operator.aggregation, spec.value_serde, self.edge)
        self._reads_old = spec.caching or operator.old_values

    def process(self, record: Record) -> None:
        """Subtract the old value, add the new one, send the group's row on, whether it changed or not."""
        place = self._key_bytes(record.key)
        stored = self._store.get(place)
        state, timestamp_ms = None, record.timestamp_ms
        if stored is not None:
            timestamp_ms = max(timestamp_ms, timestamp_of(stored))
            state = self._aggregation.load(stored[8:])
        new = self._stepped(state, record)
        data = None if new is None else self._aggregation.dump(new)
        is_latest = self._put_row((place,), timestamp_ms, data)
        if is_latest is None:
            return
        old = self._shown(stored) if self._reads_old else None
        change = Change(None if new is None else self._aggregation.visible(new), old, is_latest)
        self._emitter.emit(Record(record.key, change, timestamp_ms, record.headers), place)

    def _stepped(self, state: object, record: Record) -> Any:
        change, aggregation = record.value, self._aggregation
        if change.old is not None and state is not None:
            state = aggregation.undo(state, inputs_of(aggregation, record, change.old))
        if change.new is None:
            return state
        return aggregation.step(
            aggregation.start() if state is None else state, inputs_of(aggregation, record, change.new)
        )

    def flush(self) -> None:
        """Send on what the cache holds."""
        self._emitter.flush()

    def table_rows(self) -> TableRows:
        """The rows of the store."""
        return self

    def get(self, key: Any) -> tuple[Any, int] | None:
        """Value and timestamp of the row of a key; see TableRows."""
        return self._row(None if key is None else self._store.get(self._key_bytes(key)))

    def get_as_of(self, key: object, as_of_ms: int) -> tuple[object, int] | None:
        """See VersionedTableRows; the table must be versioned."""
        assert isinstance(self._store, VersionedRowStore)
        return self._row(self._store.get_as_of(self._key_bytes(key), as_of_ms))

    def _row(self, stored: bytes | None) -> tuple[object, int] | None:
        return None if stored is None else (self._shown(stored), timestamp_of(stored))

    def _shown(self, stored: bytes | None) -> Any:
        """The value of a stored row, read again: user code may have changed the object that was given to it."""
        return None if stored is None else self._aggregation.visible(self._aggregation.load(stored[8:]))


class TableAggregateColumns(KeyedAggregateColumns[ColumnTableAggregator]):
    """TableAggregate in column form; built-in aggregates only."""

    @classmethod
    def compile(
        cls, node: ProcessorNode, edges: Sequence[EdgeSchema], ctx: CompileContext
    ) -> TableAggregateColumns | None:
        """The node; `None` if the aggregate, or its store, has no column form."""
        operator, (edge,) = node.operator, edges
        assert isinstance(operator, TableAggregate)
        aggregation = ColumnTableAggregator.compile(node, edge, ctx) if edge.old_values else None
        if aggregation is None or not all(part.invertible for part in aggregation.parts):
            return None
        output = EdgeSchema(edge.key, aggregation.schema, table=True, old_values=operator.old_values)
        return cls(node.name, output, operator.store, aggregation)

    def updated(self, frame: pl.DataFrame, store_keys: KeyValueKeys, ctx: ColumnContext) -> Aggregated:
        """See KeyedAggregateColumns."""
        return self._aggregation.updated(frame, store_keys, ctx)
