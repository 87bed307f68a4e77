"""Aggregating a grouped stream into a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from hayase.core.metrics import DROPPED_RECORDS
from hayase.core.records import Record
from hayase.kernel.aggregate_node import AggregateNode
from hayase.kernel.aggregate_rows import Places
from hayase.kernel.column_aggregation import Aggregated, ColumnAggregation, key_bytes, key_numbers
from hayase.kernel.columns import KEY, NULL, ColumnContext, ColumnNode, CompileContext, EdgeSchema, TableColumns
from hayase.kernel.groups import I64
from hayase.serde.protocol import ColumnCodec
from hayase.state.protocol import ByteStore
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import StreamAggregate


class StreamAggregateRows(AggregateNode[StreamAggregate]):
    """StreamAggregate in row form."""

    def places(self) -> Places:
        """The store."""
        return self.ctx.env.byte_store(self._operator.store)

    def place(self, key: Any) -> tuple[Any, ...]:
        """The key's bytes."""
        return (self._key_bytes(key),)

    def process(self, record: Record[Any, Any]) -> None:
        """Take one record."""
        if record.key is None or record.value is None:
            self.ctx.env.metrics.add(DROPPED_RECORDS, self.name)
            return
        self._rows.update(self.place(record.key), record, self._aggregation.inputs(record))


class StreamAggregateColumns(ColumnNode):
    """StreamAggregate in column form; built-in aggregates only."""

    def __init__(self, name: str, output: EdgeSchema, store: str, aggregation: ColumnAggregation) -> None:
        super().__init__(name, output)
        self._store = store
        self._aggregation = aggregation
        self._table: TableColumns | None = None

    @classmethod
    def compile(
        cls, node: ProcessorNode, edges: Sequence[EdgeSchema], ctx: CompileContext
    ) -> StreamAggregateColumns | None:
        """The node; `None` if the aggregate, or its store, has no column form."""
        operator = node.operator
        assert isinstance(operator, StreamAggregate)
        if operator.cogrouped:
            return None
        aggregation = ColumnAggregation.compile(node, edges[0], ctx)
        if aggregation is None:
            return None
        output = EdgeSchema(edges[0].key, aggregation.schema, table=True, old_values=operator.old_values)
        return cls(node.name, output, operator.store, aggregation)

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """See ColumnNode."""
        frame = inputs[0]
        refused = frame[KEY].is_null() | frame[NULL]
        ctx.metrics.add(DROPPED_RECORDS, self.name, int(refused.sum()))
        rows = self._aggregation.with_inputs(frame.filter(~refused) if refused.any() else frame, ctx)
        slots = KeySlots(ctx.byte_store(self._store), self._aggregation.key_codec)
        done = self._aggregation.run(rows, slots, ctx)
        self._table = StoredAggregates(self._aggregation, slots, done) if self._aggregation.read else None
        return self._aggregation.sent(done, ctx)

    def table_columns(self) -> TableColumns | None:
        """See ColumnNode."""
        return self._table


class KeySlots:
    """The places of a key-value store (`Slots`)."""

    def __init__(self, store: ByteStore, codec: ColumnCodec) -> None:
        self.store = store
        self.codec = codec
        self.keys: list[bytes] = []
        self.before: list[bytes | None] = []

    def numbers(self, rows: pl.DataFrame) -> tuple[I64, int]:
        """See Slots."""
        return key_numbers(rows[KEY], self.codec)

    def read(self, rows: pl.DataFrame) -> list[bytes | None]:
        """See Slots."""
        self.keys = key_bytes(rows[KEY], self.codec)
        self.before = self.store.get_many(self.keys)
        return self.before

    def write(self, values: Sequence[bytes | None]) -> None:
        """See Slots."""
        self.store.put_many(self.keys, values)

    def last_read(self) -> tuple[list[bytes], list[bytes | None]]:
        """See Slots."""
        return self.keys, self.before


class StoredAggregates:
    """The table for other nodes (`TableColumns`)."""

    def __init__(self, aggregation: ColumnAggregation, slots: KeySlots, done: Aggregated) -> None:
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
