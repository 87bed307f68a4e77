"""Aggregating a grouped stream per key and session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from hayase.core.metrics import DROPPED_RECORDS
from hayase.core.records import Change, Record, Window, Windowed
from hayase.kernel.aggregate.aggregate_node_rows import WindowedNode
from hayase.kernel.aggregate.stored_row import Emitter, RowStore
from hayase.kernel.frame.stream_time import stream_times
from hayase.kernel.node.column_node import KEY, TS, ColumnContext
from hayase.kernel.node.row_node import RowContext, RowEnvironment
from hayase.kernel.window.sequential_columns import LoopedAggregateColumns
from hayase.kernel.window.session_columns import EpochSessions
from hayase.kernel.window.window_close import ClosingResults, WaitingResults
from hayase.state.stores.session_bytes import SessionBytes
from hayase.state.stores.spec import StoreSpec
from hayase.topology.operators import StreamSessionAggregate


class StreamSessionAggregateRows(WindowedNode[StreamSessionAggregate]):
    """StreamSessionAggregate in row form. Rows have no timestamp: that of a session is its end."""

    _sessions: SessionBytes

    def places(self) -> RowStore:
        """The session store."""
        env, operator = self.ctx.env, self._operator
        self._caching = env.store_spec(operator.store).caching
        other = self.shared()
        self._sessions = _session_bytes(self.name, operator, env) if other is None else other._sessions
        return self._sessions

    def place(self, key: Windowed) -> tuple[Any, ...]:
        """The record key's bytes, the session's start and end."""
        return self._key_bytes(key.key), *key.window

    def stored(self, place: tuple[Any, ...]) -> tuple[Any, int] | None:
        """Value and end of the session at a place; `None` if there is none."""
        session = self._sessions.get_hidden(*place)
        return None if session is None else (self._aggregation.visible(self._aggregation.load(session)), place[2])

    def get(self, key: Any) -> tuple[Any, int] | None:
        """See TableRows."""
        if key is None or self._sessions.get(*(place := self.place(key))) is None:
            return None
        return self.stored(place)

    def emitter(self, ctx: RowContext, spec: StoreSpec) -> Emitter:
        """See AggregateNode."""
        self._closing = self._closing_sessions(ctx, spec) if self._operator.on_close else None
        return self._closing or super().emitter(ctx, spec)

    def _closing_sessions(self, ctx: RowContext, spec: StoreSpec) -> ClosingResults:
        """By end, then start, then the bytes of the key."""

        def result(key: bytes, rank: tuple[int, ...]) -> tuple[Any, Any, int] | None:
            end_ms, start_ms = rank
            stored = self.stored((key, start_ms, end_ms))
            return (
                None
                if stored is None
                else (Windowed(spec.key_serde.from_bytes(key), Window(start_ms, end_ms)), *stored)
            )

        store = ctx.env.byte_store(spec.name)
        return ClosingResults(ctx, store, lambda place: (place[2], place[1]), result, times=2)

    def process(self, record: Record) -> None:
        """Take one record into its session, which may be new, or made of several."""
        key, timestamp_ms, windows = record.key, record.timestamp_ms, self._operator.windows
        if key is None:
            self.ctx.env.metrics.add(DROPPED_RECORDS, self.name)
            return
        closed_ms = self.advance_clock(timestamp_ms) - windows.grace_ms - windows.gap_ms
        if self._closing is not None:  # before the record is taken in: see StreamWindowedAggregateRows
            self._closing.close(closed_ms - 1, record)
        data, aggregation = self._key_bytes(key), self._aggregation
        gap_ms = windows.gap_ms
        merged = [
            (Window(start_ms, end_ms), stored)
            for start_ms, end_ms, stored in self._sessions.find(data, timestamp_ms - gap_ms, timestamp_ms + gap_ms)
        ] or self._at_limit(data, timestamp_ms)
        session = Window(
            min([timestamp_ms, *(window.start_ms for window, _ in merged)]),
            max([timestamp_ms, *(window.end_ms for window, _ in merged)]),
        )
        if session.end_ms < max(closed_ms, self._sessions.hidden_until_ms):
            self.refuse(record, session)
            return
        state = aggregation.start()
        for _, stored in merged:
            state = aggregation.merge(key, state, aggregation.load(stored))
        new = aggregation.step(state, aggregation.inputs(record))
        dumped = None if new is None else aggregation.dump(new)
        old = None
        if session.start_ms == session.end_ms:  # a session of one instant can only be replaced by itself
            old = self._old(merged[0][1]) if merged else None
        else:
            for window, stored in merged:
                self._sessions.put(data, *window, None)
                self._send(data, record, window, Change(None, self._old(stored)))
        self._sessions.put(data, *session, dumped)
        self._send(data, record, session, Change(None if new is None else aggregation.visible(new), old))

    def _at_limit(self, data: bytes, time_ms: int) -> list[tuple[Window, bytes]]:
        """A session of this very instant that is hidden since now, although the record is in time.

        It must not be overwritten.
        """
        stored = (
            self._sessions.get_hidden(data, time_ms, time_ms) if time_ms == self._sessions.hidden_until_ms else None
        )
        return [] if stored is None else [(Window(time_ms, time_ms), stored)]

    def _old(self, stored: bytes) -> Any:
        """The value that a session had, if it is sent with the new one."""
        if not (self._caching or self._operator.old_values):
            return None
        return self._aggregation.visible(self._aggregation.load(stored))

    def _send(self, data: bytes, record: Record, window: Window, change: Change) -> None:
        place = (data, *window)
        self._emitter.emit(Record(Windowed(record.key, window), change, window.end_ms), place)


def _session_bytes(node: str, operator: StreamSessionAggregate, env: RowEnvironment | ColumnContext) -> SessionBytes:
    """The operator's session store."""
    spec = env.store_spec(operator.store)
    retention_ms = spec.retention_ms if spec.retention_ms is not None else operator.windows.retention_ms
    return SessionBytes(
        env.byte_store(operator.store), retention_ms, lambda count: env.metrics.add(DROPPED_RECORDS, node, count)
    )


class StreamSessionAggregateColumns(LoopedAggregateColumns[StreamSessionAggregate]):
    """StreamSessionAggregate in column form."""

    sessions = True

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """See ColumnNode."""
        frame, operator = inputs[0], self._operator
        refused = frame[KEY].is_null()
        frame = self._without(refused, frame, ctx)
        clock = stream_times(ctx.clocks, self.name, frame[TS].to_numpy())
        closed = clock - operator.windows.grace_ms - operator.windows.gap_ms
        store = ctx.byte_store(operator.store)
        waiting = WaitingResults(store, times=2) if operator.on_close else None
        sessions = _session_bytes(self.name, operator, ctx)
        epoch = EpochSessions(self._aggregation, self._states, frame, sessions, operator.windows)
        merge = epoch.take_in(closed, waiting, ctx)
        self._count_late(merge.late, ctx)
        epoch.write(merge)
        if waiting is not None:
            epoch.write_waiting(merge, waiting)
            return self._count_final(epoch.updates(merge.closed, headers=True), ctx)
        if merge.updates is not None:
            return epoch.updates(merge.updates, headers=False)
        return epoch.last_updates(merge, ctx)
