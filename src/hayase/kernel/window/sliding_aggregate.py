"""Aggregating a grouped stream per key and sliding window (KIP-450)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import polars as pl

from hayase.core.metrics import DROPPED_RECORDS
from hayase.core.records import Record, Window, Windowed
from hayase.kernel.aggregate.stored_row import Emitter, timestamp_of
from hayase.kernel.frame.stream_time import stream_times
from hayase.kernel.node.column_node import KEY, NULL, TS, ColumnContext
from hayase.kernel.node.row_node import RowContext
from hayase.kernel.window.sequential_columns import LoopedAggregateColumns
from hayase.kernel.window.sliding_columns import EpochSlidingWindows
from hayase.kernel.window.window_close import WaitingResults
from hayase.kernel.window.window_store_rows import WindowStoreNode, closing_windows, window_bytes
from hayase.state.stores.spec import StoreSpec
from hayase.topology.operators import StreamSlidingAggregate


@dataclass
class _Around:
    """What is known of the windows around a record.

    Attributes:
        starts: of the windows that are there.
        left: the row of the last window that ended before the record.
        right: the row of the latest window that contains the record and goes on behind it.
        has_left: whether the window that ends with the record is there.
        has_right: whether the window that starts right behind the record is there.
        previous_ms: timestamp of the last record before this one, where that matters.
    """

    starts: set[int] = field(default_factory=set)
    left: bytes | None = None
    right: bytes | None = None
    has_left: bool = False
    has_right: bool = False
    previous_ms: int | None = None


class StreamSlidingAggregateRows(WindowStoreNode[StreamSlidingAggregate]):
    """StreamSlidingAggregate in row form.

    A record updates the windows that contain it, from the latest to the earliest; then come the windows that it makes
    necessary: the one behind the record before it, the one that ends with it, the one behind it. Kafka Streams'
    algorithm and order. The timestamp of a row is that of the latest record in its window, so rows say where records
    are.
    """

    def emitter(self, ctx: RowContext, spec: StoreSpec) -> Emitter:
        """See AggregateNode."""
        self._difference_ms = self._operator.windows.difference_ms
        self._closing = closing_windows(self, ctx, spec, self._difference_ms) if self._operator.on_close else None
        return self._closing or super().emitter(ctx, spec)

    def process(self, record: Record) -> None:
        """Take one record into its windows, those that it makes included."""
        if record.key is None or record.value is None:
            self.ctx.env.metrics.add(DROPPED_RECORDS, self.name)
            return
        timestamp_ms, difference_ms = record.timestamp_ms, self._difference_ms
        self._closed_ms = self.advance_clock(timestamp_ms) - self._operator.windows.grace_ms
        if timestamp_ms + 1 + difference_ms <= self._closed_ms:
            self.refuse(record, Window(max(timestamp_ms - difference_ms, 0), max(timestamp_ms, difference_ms)))
            return
        self._inputs = self._aggregation.inputs(record)
        self._data = self._key_bytes(record.key)
        if timestamp_ms < difference_ms:
            self._process_early(record)
            return
        if self._closing is not None:  # before the record is taken in: see StreamWindowedAggregateRows
            self._closing.close(self._closed_ms - difference_ms - 1, record)
        self._process(record)

    def _process(self, record: Record) -> None:
        time_ms = record.timestamp_ms
        around = _Around()
        for start_ms, row in self._fetch(max(0, time_ms - 2 * self._difference_ms), time_ms + 1, reverse=True):
            around.starts.add(start_ms)
            end_ms = start_ms + self._difference_ms
            if start_ms == time_ms + 1:
                around.has_right = True
            elif end_ms > time_ms:
                around.right = around.right or row
                self._update(start_ms, row, record)
            elif end_ms == time_ms:
                around.has_left = True
                self._update(start_ms, row, record)
                if timestamp_of(row) == time_ms:
                    return  # there was a record at this time, which made all the windows that this one needs
                around.previous_ms = timestamp_of(row)
            else:
                around.left, around.previous_ms = row, timestamp_of(row)
                break
        self._make_windows(record, around)

    def _make_windows(self, record: Record, around: _Around) -> None:
        time_ms, previous_ms = record.timestamp_ms, around.previous_ms
        if (
            previous_ms is not None
            and previous_ms + 1 not in around.starts
            and previous_ms + 1 + self._difference_ms >= time_ms
        ):
            self._update(previous_ms + 1, None, record)
        if not around.has_left:
            near = previous_ms is not None and previous_ms >= time_ms - self._difference_ms
            self._update(time_ms - self._difference_ms, None, record, around.left if near else None)
        self._make_right(record, around)

    def _process_early(self, record: Record) -> None:
        """A record whose own window would start before 0.

        It goes into the one from 0, with all others that are so early.
        """
        time_ms = record.timestamp_ms
        around, shared = _Around(), None
        for start_ms, row in self._fetch(0, time_ms + 1, reverse=False):
            around.starts.add(start_ms)
            if start_ms == 0:
                shared = row
                if timestamp_of(row) < time_ms:
                    around.previous_ms = timestamp_of(row)
            elif start_ms <= time_ms:
                around.right = row
                self._update(start_ms, row, record)
            else:
                around.has_right = True
        if around.right is None and shared is not None and timestamp_of(shared) > time_ms:
            around.right = shared
        self._make_right(record, around)
        if around.previous_ms is not None and around.previous_ms + 1 not in around.starts:
            self._update(around.previous_ms + 1, None, record)
        self._update(0, shared, record)

    def _make_right(self, record: Record, around: _Around) -> None:
        """The window right behind the record, if there is a record in it for which it was not made yet."""
        row, start_ms = around.right, record.timestamp_ms + 1
        if around.has_right or row is None or timestamp_of(row) <= record.timestamp_ms:
            return
        self._rows.begin((self._data, start_ms), row, record.with_key(Windowed(record.key, self._window(start_ms))))

    def _update(self, start_ms: int, row: bytes | None, record: Record, begin_with: bytes | None = None) -> None:
        """Take the record into a window, which is as given; a new one begins with what is in `begin_with`."""
        window = self._window(start_ms)
        if window.end_ms < self._closed_ms or start_ms <= self._windows.hidden_until_ms:
            self.refuse(record, window)
            return
        keyed = record.with_key(Windowed(record.key, window))
        self._rows.advance((self._data, start_ms), row, keyed, self._inputs, begin_with)

    def _fetch(self, from_ms: int, to_ms: int, *, reverse: bool) -> Iterator[tuple[int, bytes]]:
        return self._windows.fetch(self._data, from_ms, to_ms, reverse=reverse)

    def _window(self, start_ms: int) -> Window:
        return Window(start_ms, start_ms + self._difference_ms)


class StreamSlidingAggregateColumns(LoopedAggregateColumns[StreamSlidingAggregate]):
    """StreamSlidingAggregate in column form."""

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """See ColumnNode."""
        frame, windows = inputs[0], self._operator.windows
        refused = frame[KEY].is_null() | frame[NULL]
        frame = self._without(refused, frame, ctx)
        clock = stream_times(ctx.clocks, self.name, frame[TS].to_numpy())
        store = window_bytes(self.name, self._operator, ctx)
        waiting = WaitingResults(ctx.byte_store(self._operator.store), times=1) if self._operator.on_close else None
        epoch = EpochSlidingWindows(self._aggregation, self._states, frame, store, windows)
        merge = epoch.take_in(clock - windows.grace_ms, waiting, ctx)
        self._count_late(merge.late, ctx)
        epoch.write(merge)
        if waiting is not None:
            epoch.write_waiting(merge, waiting)
            return self._count_final(epoch.updates(merge.closed), ctx)
        if merge.updates is not None:
            return epoch.updates(merge.updates)
        return epoch.last_updates(merge, ctx)
