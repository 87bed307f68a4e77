"""Results of time windows that close, in column form."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

import numpy as np
import polars as pl

from hayase.core.metrics import FINAL_EMITTED
from hayase.core.windows import TimeWindows
from hayase.kernel.aggregate.aggregator_columns import Aggregated, ColumnAggregator
from hayase.kernel.aggregate.state_layout_columns import Stored
from hayase.kernel.frame.groups import I64, places_in_runs
from hayase.kernel.frame.key_columns import keys_of
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
)
from hayase.kernel.window.window_close import WaitingResults
from hayase.serde.timestamped import NO_TIME
from hayase.state.stores.window_bytes import WindowBytes


class ClosingTimeWindows:
    """The windows that an epoch's records close: those that waited for it, and those that were opened meanwhile.

    A record closes windows before it is taken in, and what comes later is late for them; so a window is sent as it is
    at the end of the epoch.

    Args:
        node: name of the aggregate.
        aggregation: of the aggregate.
        windows: of the aggregate.
        frame: the records, none of which has a null key.
        clock: stream time with each of them.
        waiting: which windows waited before.
    """

    def __init__(
        self,
        node: str,
        aggregation: ColumnAggregator,
        windows: TimeWindows,
        frame: pl.DataFrame,
        clock: I64,
        waiting: WaitingResults,
    ) -> None:
        self._node = node
        self._aggregation = aggregation
        self._windows = windows
        self._frame = frame
        self._waiting = waiting
        self._closed: I64 = clock - windows.grace_ms - windows.size_ms
        """For each record: windows that start then or before are closed."""
        self._due: list[tuple[bytes, int, bytes]] = []
        self._values: list[bytes | None] = []

    @property
    def _until_ms(self) -> int:
        return int(self._closed[-1]) if len(self._closed) else -1

    def read(self, store: WindowBytes) -> None:
        """Read what closes, before records that come later can expire it."""
        self._due = [(entry, start_ms, key) for entry, (start_ms,), key in self._waiting.until(self._until_ms)]
        starts = np.array([start_ms for _, start_ms, _ in self._due], np.int64)
        self._values = store.get_many(store.places([key for *_, key in self._due], starts))

    def results(self, done: Aggregated, keys: Sequence[bytes], ctx: ColumnContext) -> pl.DataFrame:
        """Note what waits from now on, and give what is sent.

        Args:
            done: what the epoch did to windows.
            keys: the bytes of their keys, by group.
            ctx: of the node.
        """
        touched = done.rows.select(KEY, WINDOW_START)[done.groups.last]
        starts = touched[WINDOW_START].to_numpy()
        self._note(starts, keys, done.start.absent)
        closes = np.flatnonzero(starts <= self._until_ms)
        changed = {(keys[at], int(starts[at])) for at in closes.tolist()}
        others = [
            at
            for at, ((_, start_ms, key), value) in enumerate(zip(self._due, self._values, strict=True))
            if value is not None and (key, start_ms) not in changed
        ]
        read = self._aggregation.layout.read([self._values[at] for at in others])
        other_keys = [self._due[at][2] for at in others]
        stored = _both(done.last.gather(closes), read)
        all_starts = np.concatenate([starts[closes], np.array([self._due[at][1] for at in others], np.int64)])
        decoded = keys_of(other_keys, self._aggregation.key_codec).cast(touched[KEY].dtype)
        all_keys = pl.concat([touched[KEY].gather(closes), decoded.alias(KEY)])
        data = [*(keys[at] for at in closes.tolist()), *other_keys]
        ctx.metrics.add(FINAL_EMITTED, self._node, len(data))
        return self._sent(all_keys, data, all_starts, stored)

    def _note(self, starts: I64, keys: Sequence[bytes], new: np.ndarray) -> None:
        """Strike out what has closed, and note windows that are new and have not."""
        there = [
            self._waiting.entry((int(starts[at]),), keys[at])
            for at in np.flatnonzero(new & (starts > self._until_ms)).tolist()
        ]
        entries = [*(entry for entry, *_ in self._due), *there]
        self._waiting.put_many(entries, [*repeat(None, len(self._due)), *repeat(b"", len(there))])

    def _sent(self, keys: pl.Series, data: Sequence[bytes], starts: I64, stored: Stored) -> pl.DataFrame:
        """Windows in the order of what closed them, then of their starts, then of the bytes of their keys."""
        causes = np.searchsorted(self._closed, starts, "left")
        by_key = sorted(range(len(data)), key=data.__getitem__)
        place = np.empty(len(data), np.int64)
        place[by_key] = np.arange(len(data))
        order = np.lexsort((place, starts, causes))
        rows, sent = causes[order], stored.gather(order)
        window_starts = pl.Series(WINDOW_START, starts[order], dtype=pl.Int64)
        names = order_columns(self._frame)
        carried = [*names, HEADERS] if HEADERS in self._frame.columns else names
        frame = pl.DataFrame(
            [
                keys.gather(order).alias(KEY),
                window_starts,
                (window_starts + self._windows.size_ms).alias(WINDOW_END),
                *self._aggregation.fields_of(sent),
                pl.Series(NULL, sent.absent, dtype=pl.Boolean),
                pl.Series(TS, sent.times, dtype=pl.Int64),
                *self._frame.select(pl.col(carried).gather(rows)),
                pl.Series(f"{ORDER}{len(names)}", places_in_runs(rows), dtype=pl.Int64),
            ]
        )
        if self._aggregation.old_values:
            nothing = Stored(np.full(len(data), NO_TIME), [series.clear(len(data)) for series in sent.values])
            frame = frame.with_columns(self._aggregation.old_columns(nothing))
        return frame


def _both(one: Stored, other: Stored) -> Stored:
    values = [pl.concat([left, right.cast(left.dtype)]) for left, right in zip(one.values, other.values, strict=True)]
    return Stored(np.concatenate([one.times, other.times]), values)
