"""Sliding windows of one epoch in column form.

Read from the store and decoded, taken from rows, encoded and written back.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import repeat

import numpy as np
import polars as pl

from hayase.core.windows import SlidingWindows
from hayase.kernel.aggregate.aggregator_columns import ColumnAggregator
from hayase.kernel.frame.groups import I64, places_in_runs
from hayase.kernel.node.column_node import (
    HEADERS,
    KEY,
    NULL,
    ORDER,
    TS,
    WINDOW_END,
    WINDOW_START,
    ColumnContext,
    order_columns,
    order_of,
)
from hayase.kernel.window.sequential_records import EpochRecords
from hayase.kernel.window.sequential_states import States
from hayase.kernel.window.sliding_merge import SlidingMerge, SlidingWindow, WindowUpdate
from hayase.kernel.window.window_close import WaitingResults
from hayase.state.stores.window_bytes import WindowBytes

_START = struct.Struct(">q")


class EpochSlidingWindows:
    """The sliding windows that an epoch's records touch.

    Args:
        aggregation: of the operator.
        states: of the aggregate.
        frame: the records, none of which has a null key or a null value.
        store: the windows.
        windows: of the operator.
    """

    def __init__(
        self,
        aggregation: ColumnAggregator,
        states: States,
        frame: pl.DataFrame,
        store: WindowBytes,
        windows: SlidingWindows,
    ) -> None:
        self._aggregation = aggregation
        self._states = states
        self._frame = frame
        self._records = EpochRecords(aggregation, frame)
        self._store = store
        self._windows = windows
        self._due: list[tuple[bytes, int]] = []
        """Entries and starts of what waits for its window to close, which it may do now."""

    def take_in(self, closed: I64, waiting: WaitingResults | None, ctx: ColumnContext) -> SlidingMerge:
        """Take the records into their windows.

        Args:
            closed: for each record, the time before which windows are closed.
            waiting: what waits to be sent when it closes, if results are sent then.
            ctx: of the node.
        """
        merge = SlidingMerge(
            self._windows,
            self._store,
            self._states,
            len(self._records.data),
            lambda row, error: ctx.processing_failed(order_of(self._frame, row), error),
        )
        self._load(merge)
        if waiting is not None:
            due = waiting.until(int(closed[-1]) - self._windows.difference_ms - 1) if len(closed) else []
            self._due = [(entry, start_ms) for entry, (start_ms,), _ in due]
            self._load_waiting(merge, [(key, start_ms) for _, (start_ms,), key in due])
        elif not self._aggregation.caching:
            merge.updates = []
        inputs, failures = self._records.inputs()
        columns = self._records.of_row.tolist(), self._records.times.tolist(), closed.tolist()
        merge.run(zip(*columns, inputs, strict=False), failures)
        return merge

    def _load(self, merge: SlidingMerge) -> None:
        """The windows that records may reach."""
        records, count = self._records, len(self._records.data)
        first, last = np.full(count, np.iinfo(np.int64).max), np.full(count, -1)
        np.minimum.at(first, records.of_row, records.times)
        np.maximum.at(last, records.of_row, records.times)
        windows_of_keys = self._store.fetch_many(
            records.data, (first - 2 * self._windows.difference_ms).tolist(), (last + 1).tolist()
        )
        self._decoded(merge, [(key, *window) for key, windows in enumerate(windows_of_keys) for window in windows])

    def _decoded(self, merge: SlidingMerge | None, every: Sequence[tuple[int, int, bytes]]) -> list[SlidingWindow]:
        """Windows of number of the key, start and value."""
        stored = self._aggregation.layout.decode([value for *_, value in every])
        windows = [
            SlidingWindow(key, start_ms, time_ms, state, value)
            for (key, start_ms, value), time_ms, state in zip(
                every, stored.times.tolist(), self._states.of(stored), strict=True
            )
        ]
        if merge is not None:
            for window in windows:
                merge.add(window)
        return windows

    def _load_waiting(self, merge: SlidingMerge, due: Sequence[tuple[bytes, int]]) -> None:
        """Windows, given by key and start, whose results will be sent unless records change them."""
        numbers = {data: number for number, data in enumerate(self._records.data)}
        known = len(numbers)
        waiting: list[SlidingWindow] = []
        others: list[tuple[bytes, int]] = []
        for key, start_ms in due:
            number = numbers.get(key)
            window = None if number is None else merge.find(number, start_ms)
            if window is None:
                others.append((key, start_ms))
            else:
                waiting.append(window)
        places = self._store.places([key for key, _ in others], np.array([start for _, start in others], np.int64))
        values = self._store.get_many(places)
        there = [(*other, value) for other, value in zip(others, values, strict=True) if value is not None]
        for key, _, _ in there:
            numbers.setdefault(key, len(numbers))
        waiting += self._decoded(None, [(numbers[key], start_ms, value) for key, start_ms, value in there])
        self._records.add_keys(list(numbers)[known:])
        merge.send_when_closed(waiting, self._records.data)

    # what is written

    def write(self, merge: SlidingMerge) -> None:
        """Write what has changed: by start, so that nothing is taken for expired that was written in time."""
        changed = sorted(merge.changed, key=lambda window: window.start_ms)
        starts = np.array([window.start_ms for window in changed], np.int64)
        times = np.array([window.time_ms for window in changed], np.int64)
        data = self._records.data
        places = self._store.places([data[window.key] for window in changed], starts)
        states = self._states.stored([window.state for window in changed], times)
        self._store.put_many(places, self._aggregation.layout.encode(states))

    def write_waiting(self, merge: SlidingMerge, waiting: WaitingResults) -> None:
        """Write what waits now."""
        data = self._records.data
        gone = [entry for entry, start_ms in self._due if start_ms <= merge.closed_until_ms]
        there = [waiting.entry((each.start_ms,), data[each.key]) for each in merge.changed if each.waiting]
        waiting.put_many([*gone, *there], [*repeat(None, len(gone)), *repeat(b"", len(there))])

    # what is sent

    def updates(self, updates: Sequence[WindowUpdate]) -> pl.DataFrame:
        """Updates in order, with the headers of the records that made them."""
        rows = np.array([update.row for update in updates], np.int64)
        sent = self._sent(updates, rows).with_columns(
            [
                *self._frame.select(pl.col(order_columns(self._frame)).gather(rows)),
                pl.Series(f"{ORDER}{len(order_columns(self._frame))}", places_in_runs(rows)),
            ]
        )
        if self._aggregation.old_values:
            old = self._states.stored([update.old for update in updates])
            sent = sent.with_columns(self._aggregation.old_columns(old))
        return sent

    def last_updates(self, merge: SlidingMerge, ctx: ColumnContext) -> pl.DataFrame:
        """What a cache sends at the end of the epoch."""
        touched = sorted(merge.changed, key=lambda window: window.change)
        numbers = np.array([window.row for window in touched], np.int64)
        rows = self._sent(touched, numbers)
        start = [window.at_start for window in touched]
        origins = self._frame.select(order_columns(self._frame))[numbers]
        if ctx.spill is not None:
            places = [_START.pack(window.start_ms) + self._records.data[window.key] for window in touched]
            ctx.spill.add(places, rows, start, self._held_back, origins)
            return self._aggregation.ended(rows.clear(), self._aggregation.layout.read([]), ctx)
        ctx.sends_at_end(origins)
        return self._held_back(rows, start, ctx)

    def _held_back(self, rows: pl.DataFrame, start: list[bytes | None], ctx: ColumnContext) -> pl.DataFrame:
        return self._aggregation.ended(rows, self._aggregation.layout.read(start), ctx)

    def _sent(self, windows: Sequence[SlidingWindow | WindowUpdate], rows: I64) -> pl.DataFrame:
        """Key, window, value and time of windows, with the headers of rows."""
        starts = pl.Series(WINDOW_START, [window.start_ms for window in windows], dtype=pl.Int64)
        stored = self._states.stored([window.state for window in windows])
        headers = [self._frame[HEADERS].gather(rows)] if HEADERS in self._frame.columns else []
        return pl.DataFrame(
            [
                self._records.keys.gather([window.key for window in windows]).alias(KEY),
                starts,
                (starts + self._windows.difference_ms).alias(WINDOW_END),
                *self._aggregation.fields_of(stored),
                pl.Series(NULL, stored.absent, dtype=pl.Boolean),
                pl.Series(TS, [window.time_ms for window in windows], dtype=pl.Int64),
                *headers,
            ]
        )
