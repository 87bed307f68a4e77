"""Aggregating a grouped stream per key and time window."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Sequence

import numpy as np
import polars as pl

from hayase.core.metrics import DROPPED_RECORDS, LATE_RECORDS
from hayase.core.records import Record, Windowed
from hayase.core.windows import TimeWindows
from hayase.kernel.aggregate.aggregator_columns import RECORD, ColumnAggregator
from hayase.kernel.aggregate.stored_row import Emitter
from hayase.kernel.frame.groups import I64, combine_numbers
from hayase.kernel.frame.key_columns import key_bytes, key_numbers
from hayase.kernel.frame.stream_time import stream_times
from hayase.kernel.node.column_node import (
    KEY,
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
from hayase.kernel.node.row_node import RowContext
from hayase.kernel.window.time_window_close import ClosingTimeWindows
from hayase.kernel.window.window_close import WaitingResults
from hayase.kernel.window.window_store_rows import WindowStoreNode, closing_windows, window_bytes
from hayase.serde.protocol import ColumnCodec
from hayase.state.stores.spec import StoreSpec
from hayase.state.stores.window_bytes import WindowBytes, WindowPlaces
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import StreamWindowedAggregate


class StreamWindowedAggregateRows(WindowStoreNode[StreamWindowedAggregate]):
    """StreamWindowedAggregate in row form."""

    def emitter(self, ctx: RowContext, spec: StoreSpec) -> Emitter:
        """See AggregateNode."""
        self._closing = (
            closing_windows(self, ctx, spec, self._operator.windows.size_ms) if self._operator.on_close else None
        )
        return self._closing or super().emitter(ctx, spec)

    def process(self, record: Record) -> None:
        """Take one record into each of its windows that is not closed, by start."""
        windows = self._operator.windows
        key, timestamp_ms = record.key, record.timestamp_ms
        if key is None:
            self.ctx.env.metrics.add(DROPPED_RECORDS, self.name)
            return
        closed_ms = self.advance_clock(timestamp_ms) - windows.grace_ms
        if self._closing is not None:
            # Before the record is taken in: it cannot change them, but what it opens may expire them in the store.
            self._closing.close(closed_ms - windows.size_ms, record)
        inputs = data = None
        for window in windows.windows_for(timestamp_ms):
            if window.end_ms <= closed_ms or window.start_ms <= self._windows.hidden_until_ms:
                self.refuse(record, window)
                continue
            if data is None:
                inputs, data = self._aggregation.inputs(record), self._key_bytes(key)
            self._rows.update((data, window.start_ms), record.with_key(Windowed(key, window)), inputs)


class StreamWindowedAggregateColumns(ColumnNode):
    """StreamWindowedAggregate in column form; built-in aggregates only, and the table may not be looked up."""

    def __init__(
        self,
        name: str,
        output: EdgeSchema,
        operator: StreamWindowedAggregate,
        windows: TimeWindows,
        aggregation: ColumnAggregator,
    ) -> None:
        super().__init__(name, output)
        self._operator = operator
        self._windows = windows
        self._aggregation = aggregation

    @classmethod
    def compile(
        cls, node: ProcessorNode, edges: Sequence[EdgeSchema], ctx: CompileContext
    ) -> StreamWindowedAggregateColumns | None:
        """The node; `None` if the aggregate, or its store, has no column form."""
        operator = node.operator
        assert isinstance(operator, StreamWindowedAggregate)
        if not isinstance(operator.windows, TimeWindows) or operator.cogrouped:
            return None
        aggregation = ColumnAggregator.compile(node, edges[0], ctx)
        if aggregation is None or aggregation.read:
            return None
        if operator.on_close:  # nothing but the last state of a window is sent
            aggregation = dataclasses.replace(aggregation, caching=True)
        output = EdgeSchema(edges[0].key, aggregation.schema, windowed=True, table=True, old_values=operator.old_values)
        return cls(node.name, output, operator, operator.windows, aggregation)

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """See ColumnNode."""
        frame = inputs[0]
        refused = frame[KEY].is_null()
        ctx.metrics.add(DROPPED_RECORDS, self.name, int(refused.sum()))
        if refused.any():
            frame = frame.filter(~refused)
        clock = stream_times(ctx.clocks, self.name, frame[TS].to_numpy())
        store = window_bytes(self.name, self._operator, ctx)
        closing: ClosingTimeWindows | None = None
        if self._operator.on_close:
            waiting = WaitingResults(ctx.byte_store(self._operator.store), times=1)
            closing = ClosingTimeWindows(self.name, self._aggregation, self._windows, frame, clock, waiting)
            closing.read(store)
        rows = self._in_windows(frame, clock, ctx)
        store_keys = _WindowKeys(store, self._aggregation.key_codec, self._windows.advance_ms)
        done = self._aggregation.run(rows, store_keys, ctx)
        if closing is not None:
            return closing.results(done, store_keys.keys, ctx)
        return self._aggregation.sent(done, ctx, (WINDOW_START, WINDOW_END))

    def _in_windows(self, frame: pl.DataFrame, clock: I64, ctx: ColumnContext) -> pl.DataFrame:
        """A row for each record and window of it that is not closed, with the inputs."""
        windows = self._windows
        times = frame[TS].to_numpy()
        records, starts, numbers = self._windows_of(times)
        in_time = clock[records] < starts + windows.size_ms + windows.grace_ms
        late = int(len(in_time) - in_time.sum())
        ctx.metrics.add(DROPPED_RECORDS, self.name, late)
        ctx.metrics.add(LATE_RECORDS, self.name, late)
        if late:
            records, starts, numbers = records[in_time], starts[in_time], numbers[in_time]
        taken = np.zeros(len(times), np.bool_)
        taken[records] = True
        numbered = frame.with_columns(pl.Series(RECORD, np.arange(len(times))))
        with_inputs = self._aggregation.with_inputs(numbered.filter(pl.Series(taken)), ctx, RECORD)
        with_inputs = with_inputs.with_columns(
            pl.Series(_KEY_NUMBER, key_numbers(with_inputs[KEY], self._aggregation.key_codec)[0])
        )
        return self._exploded(with_inputs, len(times), (records, starts, numbers))

    def _windows_of(self, times: I64) -> tuple[I64, I64, I64]:
        """Record, start and number among the record's windows of every window of every record, in order."""
        size_ms, advance_ms = self._windows.size_ms, self._windows.advance_ms
        first = np.maximum(times - size_ms + advance_ms, 0) // advance_ms
        counts = times // advance_ms - first + 1
        records = np.repeat(np.arange(len(times)), counts)
        numbers = np.arange(len(records)) - np.repeat(np.cumsum(counts) - counts, counts)
        return records, (first[records] + numbers) * advance_ms, numbers

    def _exploded(self, with_inputs: pl.DataFrame, count: int, windows: tuple[I64, I64, I64]) -> pl.DataFrame:
        """Rows of records, as often as these have windows."""
        records, starts, numbers = windows
        row_of = np.full(count, -1, np.int64)
        row_of[with_inputs[RECORD].to_numpy()] = np.arange(with_inputs.height)
        rows = row_of[records]
        if (rows < 0).any():  # records on which an input failed
            kept = rows >= 0
            rows, starts, numbers = rows[kept], starts[kept], numbers[kept]
        columns = [
            pl.Series(WINDOW_START, starts),
            pl.Series(WINDOW_END, starts + self._windows.size_ms),
        ]
        hopping = self._windows.advance_ms < self._windows.size_ms
        if hopping:
            columns.append(pl.Series(f"{ORDER}{len(order_columns(with_inputs))}", numbers))
            with_inputs = with_inputs[rows]
        return with_inputs.with_columns(columns)


_KEY_NUMBER = "__key_number"
_START = struct.Struct(">q")


class _WindowKeys:
    """The places of a window store (`AggregateKeys`).

    Args:
        store: the windows.
        codec: of the keys.
        advance_ms: windows start at multiples of it.
    """

    def __init__(self, store: WindowBytes, codec: ColumnCodec, advance_ms: int) -> None:
        self._store = store
        self._codec = codec
        self._advance_ms = advance_ms
        self._places: WindowPlaces
        self.keys: list[bytes] = []
        self._before: list[bytes | None]

    def numbers(self, rows: pl.DataFrame) -> tuple[I64, int]:
        keys = rows[_KEY_NUMBER].to_numpy()
        count = int(keys.max()) + 1 if len(keys) else 0
        # By number, not by time: small numbers are put into a table instead of being hashed.
        return combine_numbers(keys, count, rows[WINDOW_START].to_numpy() // self._advance_ms)

    def read(self, rows: pl.DataFrame) -> list[bytes | None]:
        self.keys = key_bytes(rows[KEY], self._codec)
        self._places = self._store.places(self.keys, rows[WINDOW_START].to_numpy())
        self._before = self._store.get_many(self._places)
        return self._before

    def last_read(self) -> tuple[list[bytes], list[bytes | None]]:
        starts = self._places.starts_ms.tolist()
        return [_START.pack(start) + key for key, start in zip(self.keys, starts, strict=True)], self._before

    def write(self, values: Sequence[bytes | None]) -> None:
        self._store.put_many(self._places, values)
