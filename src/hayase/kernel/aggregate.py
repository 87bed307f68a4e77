"""Aggregating a grouped stream into a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from hayase.core.metrics import DROPPED_RECORDS
from hayase.core.records import Record
from hayase.kernel.aggregate_rows import AggregateRows
from hayase.kernel.column_aggregation import Aggregated, ColumnAggregation, key_bytes, key_numbers
from hayase.kernel.columns import KEY, NULL, ColumnContext, ColumnNode, CompileContext, EdgeSchema, TableColumns
from hayase.kernel.groups import I64
from hayase.kernel.row_aggregation import row_aggregation
from hayase.kernel.rows import RowContext, RowNode, TableEmitter, TableRows
from hayase.serde.protocol import ColumnCodec
from hayase.state.protocol import ByteStore
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


class StreamAggregateColumns(ColumnNode):
    """StreamAggregate in column form; built-in aggregates only."""

    def __init__(
        self, name: str, output: EdgeSchema, store: str, key_codec: ColumnCodec, aggregation: ColumnAggregation
    ) -> None:
        super().__init__(name, output)
        self._store = store
        self._key_codec = key_codec
        self._aggregation = aggregation
        self._table: TableColumns | None = None

    @classmethod
    def compile(
        cls, node: ProcessorNode, edges: Sequence[EdgeSchema], ctx: CompileContext
    ) -> StreamAggregateColumns | None:
        """The node; `None` if the aggregate, or its store, has no column form."""
        operator = node.operator
        assert isinstance(operator, StreamAggregate)
        spec = ctx.stores[operator.store]
        aggregation = ColumnAggregation.compile(node, edges[0], spec, ctx)
        if aggregation is None:
            return None
        output = EdgeSchema(edges[0].key, aggregation.schema, table=True, old_values=operator.old_values)
        key_codec = spec.key_serde.columns
        assert key_codec is not None
        return cls(node.name, output, operator.store, key_codec, aggregation)

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """See ColumnNode."""
        frame = inputs[0]
        refused = frame[KEY].is_null() | frame[NULL]
        ctx.metrics.add(DROPPED_RECORDS, self.name, int(refused.sum()))
        rows = self._aggregation.with_inputs(frame.filter(~refused) if refused.any() else frame, ctx)
        slots = _KeySlots(ctx.byte_store(self._store), self._key_codec)
        done = self._aggregation.run(rows, slots, ctx)
        self._table = _Rows(self._aggregation, slots, done) if self._aggregation.read else None
        return self._aggregation.sent(done, ctx)

    def table_columns(self) -> TableColumns | None:
        """See ColumnNode."""
        return self._table


class _KeySlots:
    """The places of a key-value store (`Slots`)."""

    def __init__(self, store: ByteStore, codec: ColumnCodec) -> None:
        self.store = store
        self.codec = codec
        self.keys: list[bytes] = []
        self.before: list[bytes | None] = []

    def numbers(self, rows: pl.DataFrame) -> tuple[I64, int]:
        return key_numbers(rows[KEY], self.codec)

    def read(self, rows: pl.DataFrame) -> list[bytes | None]:
        self.keys = key_bytes(rows[KEY], self.codec)
        self.before = self.store.get_many(self.keys)
        return self.before

    def write(self, values: Sequence[bytes | None]) -> None:
        self.store.put_many(self.keys, values)


class _Rows:
    """The table for other nodes (`TableColumns`)."""

    def __init__(self, aggregation: ColumnAggregation, slots: _KeySlots, done: Aggregated) -> None:
        self._aggregation = aggregation
        self._slots = slots
        self._before = dict(zip(slots.keys, slots.before, strict=True))
        self._done = done

    def at_start(self, keys: pl.Series) -> pl.DataFrame:
        """See TableColumns."""
        places = key_bytes(keys, self._slots.codec)
        raw = self._slots.store.get_many(places)
        raw = [self._before.get(place, row) for place, row in zip(places, raw, strict=True)]
        return self._aggregation.rows_of(self._aggregation.layout.read(raw))

    def changes(self) -> pl.DataFrame:
        """See TableColumns."""
        return self._aggregation.changes(self._done)
