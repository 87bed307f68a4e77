"""Sessions of one epoch in column form: read from the store and decoded, taken from rows, encoded and written back."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import repeat

import numpy as np
import polars as pl

from hayase.core.windows import SessionWindows
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
from hayase.kernel.window.sequential_states import State, States
from hayase.kernel.window.session_merge import Session, SessionMerge, Update
from hayase.kernel.window.window_close import WaitingResults
from hayase.state.stores.session_bytes import SessionBytes

_SESSION = struct.Struct(">qq")


class EpochSessions:
    """The sessions that an epoch's records touch.

    Args:
        aggregation: of the operator.
        states: of the aggregate.
        frame: the records, none of which has a null key.
        store: the sessions.
        windows: of the operator.
    """

    def __init__(
        self,
        aggregation: ColumnAggregator,
        states: States,
        frame: pl.DataFrame,
        store: SessionBytes,
        windows: SessionWindows,
    ) -> None:
        self._aggregation = aggregation
        self._states = states
        self._frame = frame
        self._records = EpochRecords(aggregation, frame)
        self._store = store
        self._windows = windows
        self._due: list[bytes] = []
        """What waited for its session to close, which it has done now, or which was merged into another one."""

    def take_in(self, closed: I64, waiting: WaitingResults | None, ctx: ColumnContext) -> SessionMerge:
        """Take the records into their sessions.

        Args:
            closed: for each record, the time before which sessions are closed.
            waiting: what waits to be sent when it closes, if results are sent then.
            ctx: of the node.
        """
        merge = SessionMerge(
            self._windows,
            self._store,
            self._states,
            len(self._records.data),
            lambda row, error: ctx.processing_failed(order_of(self._frame, row), error),
        )
        self._load(merge)
        if waiting is not None:
            due = waiting.until(int(closed[-1]) - 1) if len(closed) else []
            self._due = [entry for entry, *_ in due]
            self._load_waiting(merge, [(key, rank[1], rank[0]) for _, rank, key in due])
        elif not self._aggregation.caching:
            merge.updates = []
        inputs, failures = self._records.inputs()
        merge.run(
            zip(self._records.of_row.tolist(), self._records.times.tolist(), closed.tolist(), inputs, strict=False),
            failures,
        )
        return merge

    def _load(self, merge: SessionMerge) -> None:
        """The sessions that records may reach."""
        first = np.full(len(self._records.data), np.iinfo(np.int64).max)
        np.minimum.at(first, self._records.of_row, self._records.times)
        sessions_of_keys = self._store.find_many(self._records.data, (first - self._windows.gap_ms).tolist())
        every = [(key, *session) for key, sessions in enumerate(sessions_of_keys) for session in sessions]
        states = self._states.of(self._aggregation.layout.decode([value for *_, value in every]))
        for (key, start_ms, end_ms, value), state in zip(every, states, strict=True):
            merge.add(Session(key, start_ms, end_ms, state, value))

    def _load_waiting(self, merge: SessionMerge, due: Sequence[tuple[bytes, int, int]]) -> None:
        """Sessions, given by key, start and end, whose results will be sent unless records change them."""
        numbers = {data: number for number, data in enumerate(self._records.data)}
        waiting: list[Session] = []
        others: list[tuple[bytes, int, int]] = []
        for key, start_ms, end_ms in due:
            number = numbers.get(key)
            held = None if number is None else merge.find(number, start_ms, end_ms)
            if held is None:
                others.append((key, start_ms, end_ms))
            else:
                waiting.append(held)
        values = self._store.get_hidden_many(others)
        others = [session for session, value in zip(others, values, strict=True) if value is not None]
        states = self._states.of(self._aggregation.layout.decode([value for value in values if value is not None]))
        more: list[bytes] = []
        for (key, start_ms, end_ms), state in zip(others, states, strict=True):
            number = numbers.setdefault(key, len(numbers))
            if number == len(self._records.data) + len(more):
                more.append(key)
            waiting.append(Session(number, start_ms, end_ms, state, None))
        self._records.add_keys(more)
        merge.send_when_closed(waiting, self._records.data)

    # what is written

    def write(self, merge: SessionMerge) -> None:
        """Write what has changed."""
        changed = merge.changed()
        places = [(self._records.data[each.key], each.start_ms, each.end_ms) for each in (*merge.removed, *changed)]
        encoded = self._aggregation.layout.encode(self._states.stored([session.state for session in changed]))
        self._store.put_many(places, [*repeat(None, len(merge.removed)), *encoded], merge.observed_ms)

    def write_waiting(self, merge: SessionMerge, waiting: WaitingResults) -> None:
        """Write what waits now."""
        changed = merge.changed()
        gone = [waiting.entry((each.end_ms, each.start_ms), self._records.data[each.key]) for each in merge.removed]
        there = [waiting.entry((each.end_ms, each.start_ms), self._records.data[each.key]) for each in changed]
        values = [*repeat(None, len(self._due) + len(gone)), *(b"" if each.waiting else None for each in changed)]
        waiting.put_many([*self._due, *gone, *there], values)

    # what is sent

    def updates(self, updates: Sequence[Update], *, headers: bool) -> pl.DataFrame:
        """Updates in order, perhaps with the headers of the records that made them."""
        rows = np.array([update.row for update in updates], np.int64)
        order = order_columns(self._frame)
        carried = [*order, HEADERS] if headers and HEADERS in self._frame.columns else order
        sent = self._sent(updates, [update.new for update in updates])
        sent = sent.with_columns(
            [
                *self._frame.select(pl.col(carried).gather(rows)),
                pl.Series(f"{ORDER}{len(order)}", places_in_runs(rows)),
            ]
        )
        if self._aggregation.old_values:
            old = self._states.stored([update.old for update in updates])
            sent = sent.with_columns(self._aggregation.old_columns(old))
        return sent

    def last_updates(self, merge: SessionMerge, ctx: ColumnContext) -> pl.DataFrame:
        """What a cache sends at the end of the epoch."""
        gone = [(session.row, 0, session) for session in merge.removed]
        there = [(session.row, 1, session) for session in merge.changed()]
        touched = sorted([*gone, *there], key=lambda each: each[:2])
        sessions = [session for *_, session in touched]
        rows = self._sent(sessions, [session.state if there else None for _, there, session in touched])
        start = [session.at_start for session in sessions]
        origins = self._frame.select(order_columns(self._frame))[np.array([row for row, *_ in touched], np.int64)]
        if ctx.spill is not None:
            places = [_SESSION.pack(each.end_ms, each.start_ms) + self._records.data[each.key] for each in sessions]
            ctx.spill.add(places, rows, start, self._held_back, origins)
            return self._aggregation.ended(rows.clear(), self._aggregation.layout.read([]), ctx)
        ctx.sends_at_end(origins)
        return self._held_back(rows, start, ctx)

    def _held_back(self, rows: pl.DataFrame, start: list[bytes | None], ctx: ColumnContext) -> pl.DataFrame:
        """Sessions that were made and removed within the epoch are left out."""
        there = np.array([row is not None for row in start], np.bool_)
        kept = ~rows[NULL] | pl.Series(there)
        if not kept.all():
            rows = rows.filter(kept)
            start = [row for row, keep in zip(start, kept.to_list(), strict=True) if keep]
        return self._aggregation.ended(rows, self._aggregation.layout.read(start), ctx)

    def _sent(self, sessions: Sequence[Session | Update], states: Sequence[State | None]) -> pl.DataFrame:
        """Key, window, value and time of sessions."""
        keys = self._records.keys.gather([session.key for session in sessions]).alias(KEY)
        ends = pl.Series(WINDOW_END, [session.end_ms for session in sessions], dtype=pl.Int64)
        stored = self._states.stored(states)
        return pl.DataFrame(
            [
                keys,
                pl.Series(WINDOW_START, [session.start_ms for session in sessions], dtype=pl.Int64),
                ends,
                *self._aggregation.fields_of(stored),
                pl.Series(NULL, stored.absent, dtype=pl.Boolean),
                ends.alias(TS),
            ]
        )
