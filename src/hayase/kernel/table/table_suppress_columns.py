"""Holding back updates of a table, in column form."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from hayase.core.records import Headers
from hayase.core.windows import LAST_MS
from hayase.kernel.frame.key_columns import key_bytes, keys_of
from hayase.kernel.node.column_node import (
    HEADERS,
    KEY,
    NULL,
    OLD,
    OLD_NULL,
    ORDER,
    TS,
    WINDOW_END,
    WINDOW_START,
    ColumnContext,
    ColumnNode,
    CompileContext,
    order_columns,
)
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.table.suppress_buffer_columns import SuppressBatch
from hayase.kernel.table.suppress_buffer_rows import Held
from hayase.kernel.table.table_suppress_rows import buffer_full, is_too_full, measure_buffer
from hayase.serde import TimeWindowedSerde, encode_windowed_keys
from hayase.serde.protocol import ColumnCodec, Serde
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import TableSuppress


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """Column form of the keys of a table, with windows or without.

    Attributes:
        codec: of the keys.
        size_ms: of the windows; `None`: there are none.
    """

    codec: ColumnCodec
    size_ms: int | None

    @classmethod
    def of(cls, serde: Serde[object], edge: EdgeSchema) -> KeyColumns | None:
        """The column form for the keys of an edge; `None` if there is none."""
        size_ms: int | None = None
        if isinstance(serde, TimeWindowedSerde):
            size_ms, serde = serde.window_size_ms, serde.inner
        codec = serde.columns
        if codec is None or edge.windowed != (size_ms is not None):
            return None
        return (
            cls(codec, size_ms)
            if (codec.schema.bare, codec.schema.fields) == (edge.key.bare, edge.key.fields)
            else None
        )

    def encode(self, frame: pl.DataFrame) -> list[bytes]:
        """The bytes of the keys of a frame."""
        data = key_bytes(frame[KEY], self.codec)
        return data if self.size_ms is None else encode_windowed_keys(data, frame[WINDOW_START].to_numpy())

    def decode(self, keys: Sequence[bytes]) -> list[pl.Series]:
        """The columns of keys."""
        windows: list[pl.Series] = []
        if self.size_ms is not None:
            starts = np.frombuffer(b"".join([key[-8:] for key in keys]), ">i8").astype(np.int64)
            ends = np.where(starts > LAST_MS - self.size_ms, LAST_MS, starts + self.size_ms)
            windows = [pl.Series(WINDOW_START, starts, pl.Int64), pl.Series(WINDOW_END, ends, pl.Int64)]
            keys = [key[:-8] for key in keys]
        return [keys_of(keys, self.codec).alias(KEY), *windows]


@dataclass(slots=True)
class _Sent:
    """What is sent: number of the update that set it off, key, row."""

    rows: list[int] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)


class TableSuppressColumns(ColumnNode):
    """TableSuppress in column form: row by row, but on bytes alone, with all reads before and all writes after."""

    def __init__(
        self, name: str, output: EdgeSchema, operator: TableSuppress, keys: KeyColumns, values: ColumnCodec
    ) -> None:
        super().__init__(name, output)
        self._operator = operator
        self._keys = keys
        self._values = values

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """The updates that are due."""
        frame, operator = inputs[0], self._operator
        keys, names = self._keys.encode(frame), self._values.schema.names
        news = self._values.encode(frame.select(names), frame[NULL])
        before = frame.select(pl.col(OLD + name).alias(name) for name in names)
        olds = self._values.encode(before, frame[OLD_NULL])
        times = frame[TS].to_list()
        dues = frame[WINDOW_END].to_list() if operator.until_window_closes else times
        limited = operator.max_records is not None or operator.max_bytes is not None
        exact = operator.max_bytes is not None or (limited and operator.when_full == "shutdown")
        buffer = SuppressBatch(ctx.byte_store(operator.store), keys, exact=exact)
        sent = _Sent()
        now_ms = ctx.clocks.get(self.name)
        first_ms = _never(buffer.first_ms)
        rows = zip(keys, news, olds, times, dues, ctx.headers_of(frame), strict=True)
        for row, (key, new, old, time_ms, due_ms, headers) in enumerate(rows):
            now_ms = max(now_ms, time_ms)
            buffer.put(due_ms, key, Held(time_ms, new, old, headers))
            first_ms = min(first_ms, due_ms)
            if first_ms <= now_ms - operator.wait_ms:
                self._send(sent, row, buffer.due(now_ms - operator.wait_ms))
                first_ms = _never(buffer.first_ms)
            if limited and is_too_full(operator, buffer.count, buffer.size_bytes):
                self._make_room(sent, row, buffer)
                first_ms = _never(buffer.first_ms)
        if frame.height:
            ctx.clocks.set(self.name, now_ms)
        buffer.save()
        measure_buffer(ctx.metrics, self.name, operator.store, len(sent.rows), buffer)
        return self._made(frame, sent, ctx)

    def _make_room(self, sent: _Sent, row: int, buffer: SuppressBatch) -> None:
        operator = self._operator
        if operator.when_full == "shutdown":
            raise buffer_full(self.name, operator, buffer.count, buffer.size_bytes)
        taken = buffer.oldest_while(lambda: is_too_full(operator, buffer.count, buffer.size_bytes))
        self._send(sent, row, taken)

    def _send(self, sent: _Sent, row: int, taken: Iterable[tuple[bytes, Held]]) -> None:
        for key, held in taken:
            if held.new is None and self._operator.until_window_closes:
                continue  # nothing of this window was ever sent
            sent.rows.append(row)
            sent.keys.append(key)
            sent.held.append(held)

    def _made(self, frame: pl.DataFrame, sent: _Sent, ctx: ColumnContext) -> pl.DataFrame:
        row = np.array(sent.rows, np.int64)
        begins = np.flatnonzero(np.diff(row, prepend=-1))
        sizes = np.diff(begins, append=len(row))
        number = np.arange(len(row)) - np.repeat(begins, sizes)
        columns = [
            *self._keys.decode(sent.keys),
            pl.Series(TS, [held.timestamp_ms for held in sent.held], pl.Int64),
            pl.Series(f"{ORDER}{len(order_columns(frame))}", number, pl.Int64),
            *self._fields([held.new for held in sent.held], "", NULL),
        ]
        if self._operator.old_values:
            columns += self._fields([held.prior for held in sent.held], OLD, OLD_NULL)
        headers: list[Headers] = [held.headers for held in sent.held]
        if any(headers):
            first = ctx.keep_headers(headers)
            columns.append(pl.Series(HEADERS, np.arange(first, first + len(headers)), pl.Int64))
        elif HEADERS in frame.columns:
            columns.append(pl.Series(HEADERS, [None] * len(headers), pl.Int64))
        return frame.select(order_columns(frame))[row].with_columns(columns)

    def _fields(self, data: list[bytes | None], prefix: str, null: str) -> list[pl.Series]:
        decoded = self._values.decode_list(data).checked()
        return [
            *(series.alias(prefix + series.name) for series in decoded.frame.get_columns()),
            decoded.null.alias(null),
        ]


def _never(first_ms: int | None) -> int:
    return LAST_MS if first_ms is None else first_ms


def table_suppress_columns(node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext) -> ColumnNode | None:
    """The column form; it needs one of the serdes, and old values."""
    operator, (edge,) = node.operator, inputs
    assert isinstance(operator, TableSuppress)
    if not edge.old_values:
        return None
    keys, values = KeyColumns.of(operator.serdes.key, edge), operator.serdes.value.columns
    if keys is None or values is None:
        return None
    if (values.schema.bare, dict(values.schema.fields)) != (edge.value.bare, dict(edge.value.fields)):
        return None
    output = dataclasses.replace(edge, old_values=operator.old_values)
    return TableSuppressColumns(node.name, output, operator, keys, values)
