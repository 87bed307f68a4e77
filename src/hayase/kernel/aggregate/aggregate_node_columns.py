"""What aggregates with one row a key have in common as nodes in column form."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

import polars as pl

from hayase.kernel.aggregate.aggregator_columns import Aggregated, ColumnAggregator
from hayase.kernel.frame.groups import I64
from hayase.kernel.frame.key_columns import key_bytes, key_numbers
from hayase.kernel.node.column_node import KEY, ColumnContext, ColumnNode, TableColumns
from hayase.kernel.node.edge import EdgeSchema
from hayase.serde.protocol import ColumnCodec
from hayase.state.stores.protocol import ByteStore

Aggregation = TypeVar("Aggregation", bound=ColumnAggregator)


class KeyedAggregateColumns(ColumnNode, Generic[Aggregation]):
    """Keeps the rows of an aggregate's table in a key-value store; `updated` says what records do to them."""

    def __init__(self, name: str, output: EdgeSchema, store: str, aggregation: Aggregation) -> None:
        super().__init__(name, output)
        self._store = store
        self._aggregation = aggregation
        self._table: TableColumns | None = None

    @abstractmethod
    def updated(self, frame: pl.DataFrame, store_keys: KeyValueKeys, ctx: ColumnContext) -> Aggregated:
        """Take the epoch's records in, and write the rows."""

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """See ColumnNode."""
        store_keys = KeyValueKeys(ctx.byte_store(self._store), self._aggregation.key_codec)
        done = self.updated(inputs[0], store_keys, ctx)
        self._table = StoredAggregates(self._aggregation, store_keys, done) if self._aggregation.read else None
        return self._aggregation.sent(done, ctx)

    def table_columns(self) -> TableColumns | None:
        """See ColumnNode."""
        return self._table


class KeyValueKeys:
    """The places of a key-value store (`AggregateKeys`)."""

    def __init__(self, store: ByteStore, codec: ColumnCodec) -> None:
        self.store = store
        self.codec = codec
        self.keys: list[bytes] = []
        self.before: list[bytes | None] = []

    def numbers(self, rows: pl.DataFrame) -> tuple[I64, int]:
        """See AggregateKeys."""
        return key_numbers(rows[KEY], self.codec)

    def read(self, rows: pl.DataFrame) -> list[bytes | None]:
        """See AggregateKeys."""
        self.keys = key_bytes(rows[KEY], self.codec)
        self.before = self.store.get_many(self.keys)
        return self.before

    def write(self, values: Sequence[bytes | None]) -> None:
        """See AggregateKeys."""
        self.store.put_many(self.keys, values)

    def last_read(self) -> tuple[list[bytes], list[bytes | None]]:
        """See AggregateKeys."""
        return self.keys, self.before


class StoredAggregates:
    """The table for other nodes (`TableColumns`)."""

    def __init__(self, aggregation: ColumnAggregator, store_keys: KeyValueKeys, done: Aggregated) -> None:
        self._aggregation = aggregation
        self._store_keys = store_keys
        self._before = dict(zip(store_keys.keys, store_keys.before, strict=True))
        self._done = done

    def at_start(self, keys: pl.Series) -> pl.DataFrame:
        """See TableColumns."""
        places = key_bytes(keys, self._store_keys.codec)
        raw = self._store_keys.store.get_many(places)
        raw = [self._before.get(place, row) for place, row in zip(places, raw, strict=True)]
        return self._aggregation.rows_of(self._aggregation.layout.read(raw))

    def changes(self) -> pl.DataFrame:
        """See TableColumns."""
        return self._aggregation.changes(self._done)
