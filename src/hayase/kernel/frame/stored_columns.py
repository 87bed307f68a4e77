"""Tables in column form: rows in a timestamped key-value store, and what a table's node sends on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa

from hayase.kernel.frame.exact_keys import are_rows_by_key
from hayase.kernel.frame.expressions import struct_type
from hayase.kernel.frame.key_columns import key_bytes
from hayase.kernel.node.column_node import (
    HEADERS,
    KEY,
    NULL,
    OLD,
    OLD_NULL,
    ORDER,
    TS,
    ColumnContext,
    CompileContext,
    order_columns,
)
from hayase.kernel.node.edge import EdgeSchema
from hayase.serde.protocol import ColumnCodec, Schema
from hayase.state.stores.protocol import ByteStore
from hayase.state.stores.spec import StoreSpec

_AT = "__at"

RawRows = list[bytes | None]
"""Rows as stored: 8 bytes of timestamp (big-endian), then the value as its serde writes it; `None`: no row."""


@dataclass(frozen=True, slots=True)
class StoreCodec:
    """Both codecs of a timestamped key-value store."""

    key: ColumnCodec
    value: ColumnCodec

    @classmethod
    def of(cls, spec: StoreSpec) -> StoreCodec | None:
        """The codecs; `None` if a serde has no column form."""
        key, value = spec.key_serde.columns, spec.value_serde.columns
        return None if key is None or value is None else cls(key, value)

    def fits(self, edge: EdgeSchema) -> bool:
        """Whether what an edge carries can be stored and read back as it is."""
        key, value = self.key.schema, self.value.schema
        return alike(edge.key, key) and alike(edge.value, value)

    def key_bytes(self, keys: pl.Series) -> list[bytes]:
        """The bytes of keys that are not null."""
        return key_bytes(keys, self.key)

    def read(self, raw: RawRows) -> pl.DataFrame:
        """The value's fields, `__null` (no row) and `__ts` (null where there is no row).

        Raises:
            SerializationError: a stored value is none of the serde.
        """
        present = [row for row in raw if row is not None]
        times = np.frombuffer(b"".join([row[:8] for row in present]), ">i8").astype(np.int64)
        decoded = self.value.decode(pa.array([row[8:] for row in present], pa.binary())).checked()
        frame = decoded.frame.with_columns(decoded.null.alias(NULL), pl.Series(TS, times, pl.Int64))
        if len(present) == len(raw):
            return frame
        there = pl.Series([row is not None for row in raw], dtype=pl.Boolean)
        at = pl.select(pl.when(there).then(there.cast(pl.Int64).cum_sum() - 1)).to_series()
        return frame.select(pl.all().gather(at)).with_columns(pl.col(NULL).fill_null(value=True))

    def write(self, frame: pl.DataFrame) -> RawRows:
        """The stored form of each row of an edge's frame."""
        values = self.value.encode(frame.select(self.value.schema.names), frame[NULL])
        times = frame[TS].to_numpy().astype(">i8").tobytes()
        return [
            None if value is None else times[at : at + 8] + value
            for value, at in zip(values, range(0, len(times), 8), strict=True)
        ]


def alike(this: Schema, other: Schema) -> bool:
    """Whether the schemas have the same fields, types and Python type; the order of fields does not matter."""
    return (this.bare, this.python_type, dict(this.fields)) == (other.bare, other.python_type, dict(other.fields))


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table with a store: how its node writes it and what it sends.

    Attributes:
        caching: the last update of each key is sent at the end of the epoch, instead of every update at once.
        old_values: the old value travels along.
        suppress: a delete of what is not there is neither written nor sent.
        read: another node looks the table up.
    """

    store: str
    codec: StoreCodec
    caching: bool
    old_values: bool
    suppress: bool
    read: bool

    @classmethod
    def compile(
        cls, name: str, store: str, edge: EdgeSchema, ctx: CompileContext, *, old_values: bool, suppress: bool = False
    ) -> StoredTable | None:
        """The table of a node; `None` if its store has no column form, or not that of what is to be stored.

        Nor if keys that are equal in columns, as both zeros are, may be two in the store.
        """
        spec = ctx.stores[store]
        codec = StoreCodec.of(spec)
        if spec.versioned or codec is None or not codec.fits(edge) or edge.windowed:
            return None
        if not are_rows_by_key(struct_type(codec.key.schema)):
            return None
        return cls(store, codec, ctx.caching and spec.caching, old_values, suppress, name in ctx.read_tables)

    def run(self, updates: pl.DataFrame, ctx: ColumnContext) -> tuple[pl.DataFrame, StoredRowsColumns]:
        """Write the updates.

        Args:
            updates: `__key` (never null), the value's fields, `__null`, `__ts`, order columns and perhaps `__h`.
            ctx: of the table's node.

        Returns:
            What the node sends, and the rows for readers.
        """
        store = ctx.byte_store(self.store)
        keys = updates.select(KEY).unique(maintain_order=True)
        key_bytes = self.codec.key_bytes(keys[KEY])
        start = store.get_many(key_bytes) if self.caching or self.old_values or self.suppress or self.read else None
        if start is not None and (self.suppress or (self.old_values and not self.caching)):
            updates = self._with_old(updates, keys, start)
            if self.suppress:
                updates = updates.filter(~(pl.col(NULL) & pl.col(OLD_NULL)))
        rows = StoredRowsColumns(self.codec, store, updates, {})
        if self.read and start is not None:
            rows.before.update(zip(key_bytes, start, strict=True))
        last = updates.unique(KEY, keep="last", maintain_order=True)
        numbers = last.join(keys.with_row_index(_AT), on=KEY, how="left", maintain_order="left")[_AT].to_list()
        store.put_many([key_bytes[number] for number in numbers], self.codec.write(last))
        if not self.caching:
            return updates if self.old_values else _without_old(updates), rows
        assert start is not None
        origins = last.select(order_columns(last))
        last, before = _without_old(last).drop(order_columns(last)), [start[number] for number in numbers]
        if ctx.spill is not None:
            ctx.spill.add([key_bytes[number] for number in numbers], last, before, self._held, origins)
            last, before, origins = last.clear(), [], origins.clear()
        return self._held(last, before, ctx, origins), rows

    def _with_old(self, updates: pl.DataFrame, keys: pl.DataFrame, start: RawRows) -> pl.DataFrame:
        """Each update with the row before it: of this epoch, else of the epoch's start."""
        names = [*self.codec.value.schema.names, NULL]
        before = keys.with_columns(self.codec.read(start).select(pl.col(names).name.map(_old_name)))
        numbered = updates.with_row_index(_AT)
        previous = numbered.select(pl.col(_AT).shift(1).over(KEY)).to_series()
        first = numbered.select(KEY).join(before, on=KEY, how="left", maintain_order="left").drop(KEY)
        earlier = updates.select(pl.col(names).gather(previous).name.map(_old_name))
        old = [
            pl.when(previous.is_null()).then(first[name]).otherwise(earlier[name]).alias(name) for name in first.columns
        ]
        return updates.with_columns(old)

    def _held(
        self, last: pl.DataFrame, start: RawRows, ctx: ColumnContext, origins: pl.DataFrame | None = None
    ) -> pl.DataFrame:
        """What a cache sends at the end: the last value of each key, unless it was made and removed in the epoch.

        `origins` are the order columns of `last`.
        """
        there = pl.Series([row is not None for row in start], dtype=pl.Boolean)
        kept = ~last[NULL] | there
        if self.old_values:
            names = [*self.codec.value.schema.names, NULL]
            last = last.with_columns(self.codec.read(start).select(pl.col(names).name.map(_old_name)))
        if origins is not None:
            ctx.sends_at_end(origins.filter(kept))
        sent = last.filter(kept)
        return sent.with_columns(
            pl.lit(ctx.input_count, pl.Int64).alias(f"{ORDER}0"),
            pl.lit(ctx.position, pl.Int64).alias(f"{ORDER}1"),
            pl.int_range(pl.len(), dtype=pl.Int64).alias(f"{ORDER}2"),
        )


def _old_name(name: str) -> str:
    return OLD_NULL if name == NULL else OLD + name


def _without_old(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.drop([name for name in frame.columns if name == OLD_NULL or name.startswith(OLD)])


def update_columns(schema: Schema, frame: pl.DataFrame) -> Sequence[str]:
    """The columns of a table's update: key, value, time, order, headers."""
    headers = [HEADERS] if HEADERS in frame.columns else []
    return [KEY, *schema.names, NULL, TS, *headers, *order_columns(frame)]


class StoredRowsColumns:
    """The rows of a stored table for readers (`TableColumns`).

    Args:
        codec: of the store.
        store: as it is now, this epoch's updates included.
        updates: of this epoch, in order.
        before: the rows at the epoch's start of all keys that this epoch updates, by key bytes.
    """

    def __init__(
        self, codec: StoreCodec, store: ByteStore, updates: pl.DataFrame, before: dict[bytes, bytes | None]
    ) -> None:
        self._codec = codec
        self._store = store
        self._updates = updates
        self.before = before

    def at_start(self, keys: pl.Series) -> pl.DataFrame:
        """See TableColumns."""
        key_bytes = self._codec.key_bytes(keys)
        raw = self._store.get_many(key_bytes)
        if self.before:
            before = self.before
            raw = [before.get(key, row) for key, row in zip(key_bytes, raw, strict=True)]
        return self._codec.read(raw)

    def changes(self) -> pl.DataFrame:
        """See TableColumns."""
        return _without_old(self._updates)
