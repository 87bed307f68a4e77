"""Taking records into sessions, one after the other, over numbers and stored values that were decoded before.

For the column form.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from hayase.core.windows import SessionWindows
from hayase.kernel.window.sequential_states import State, States
from hayase.serde.faults import is_fault
from hayase.state.stores.session_bytes import SessionBytes

_NONE = -1


class Session:
    """A session of a key.

    Attributes:
        key: number of its key.
        state: what is kept for it.
        at_start: what the store held under its very bounds when the epoch began; `None`: nothing.
        row: the row that changed it last, -1 if none has, or if it has been merged into another one.
    """

    __slots__ = ("at_start", "end_ms", "key", "row", "start_ms", "state", "waiting")

    def __init__(
        self, key: int, start_ms: int, end_ms: int, state: State, at_start: bytes | None, row: int = _NONE
    ) -> None:
        self.key = key
        self.start_ms = start_ms
        self.end_ms = end_ms
        self.state = state
        self.at_start = at_start
        self.row = row
        self.waiting = False
        """Its result is to be sent when it closes."""


class Update(NamedTuple):
    """What is sent on of one session.

    Attributes:
        row: the row that made it.
        new: `None`: it is deleted.
        old: what it was before.
    """

    row: int
    key: int
    start_ms: int
    end_ms: int
    new: State | None
    old: State | None


class SessionMerge:
    """The sessions of an epoch's keys while its records are taken in.

    What it does to a record is what `StreamSessionAggregateRows.process` does.

    Args:
        windows: of the operator.
        store: the sessions, of which those of the epoch's keys are added.
        states: of the aggregate.
        keys: how many keys there are.
        failed: called with each row on which the aggregate, or one of its inputs, fails.
    """

    def __init__(
        self,
        windows: SessionWindows,
        store: SessionBytes,
        states: States,
        keys: int,
        failed: Callable[[int, Exception], None],
    ) -> None:
        self._gap_ms = windows.gap_ms
        self._retention_ms = store.observed_ms - store.hidden_until_ms
        self._interval_ms = store.interval_ms
        self.observed_ms = store.observed_ms
        self._states = states
        self._ends: list[list[int]] = [[] for _ in range(keys)]
        self._sessions: list[list[Session]] = [[] for _ in range(keys)]
        self._failed = failed
        self._made: list[Session] = []
        self.removed: list[Session] = []
        """Sessions deleted from the store; `row` is the one that merged them."""
        self.late = 0
        """How many records were late."""
        self.updates: list[Update] | None = None
        """Every update, if it is set to a list."""
        self._closing: list[tuple[int, int, bytes, int, Session]] | None = None
        self.closed: list[Update] = []
        """What was sent because it closed."""
        self._key_bytes: Sequence[bytes] = ()

    def add(self, session: Session) -> None:
        """Add a session of the store; those of a key by end, then start."""
        self._ends[session.key].append(session.end_ms)
        self._sessions[session.key].append(session)

    def find(self, key: int, start_ms: int, end_ms: int) -> Session | None:
        """A session that was added."""
        first, behind = self._range(key, start_ms, end_ms)
        return self._sessions[key][first] if first < behind else None

    def send_when_closed(self, waiting: Iterable[Session], key_bytes: Sequence[bytes]) -> None:
        """Send results when sessions close.

        Args:
            waiting: sessions that had a result before.
            key_bytes: of every key, by number.
        """
        self._key_bytes = key_bytes
        self._closing = []
        for session in waiting:
            session.waiting = True
            self._closing.append((session.end_ms, session.start_ms, key_bytes[session.key], _NONE, session))
        heapify(self._closing)

    def run(
        self,
        rows: Iterable[tuple[int, int, int, Sequence[object]]],
        failures: dict[int, Exception],
    ) -> None:
        """Take records in.

        Args:
            rows: number of the key, time, the time before which sessions are closed, and inputs of each record.
            failures: rows whose inputs failed.
        """
        gap_ms, retention_ms = self._gap_ms, self._retention_ms
        closing = self._closing is not None
        for row, (key, time_ms, closed_ms, inputs) in enumerate(rows):
            if closing:
                self._close(closed_ms - 1, row)
            hidden_ms = self.observed_ms - retention_ms
            low_ms, reach_ms = time_ms - gap_ms, time_ms + gap_ms
            ends, sessions = self._ends[key], self._sessions[key]
            first = bisect_left(ends, low_ms if low_ms > hidden_ms else hidden_ms + 1)
            behind, count = first, len(ends)
            while behind < count and sessions[behind].start_ms <= reach_ms:
                behind += 1
            if behind == first and time_ms == hidden_ms:  # a session of this very instant is hidden since now
                first, behind = self._range(key, time_ms, time_ms)
            start_ms = end_ms = time_ms
            if first < behind:
                start_ms = min(time_ms, sessions[first].start_ms)
                end_ms = max(time_ms, sessions[behind - 1].end_ms)
            if end_ms < closed_ms or end_ms < hidden_ms:
                self.late += 1
                continue
            merged = sessions[first:behind]
            try:
                before = self._states.merged([session.state for session in merged]) if merged else None
                if row in failures:
                    raise failures[row]
                state = self._states.stepped(before, inputs)
            except Exception as error:  # expressions may raise anything; the handler decides
                if not is_fault(error):
                    raise
                self._failed(row, error)
                continue
            if self.updates is not None:
                self._note(row, key, merged, start_ms, end_ms, state)
            session = self._taken(row, key, merged, start_ms, end_ms, state)
            ends[first:behind] = [end_ms]
            sessions[first:behind] = [session]
            self.observed_ms = max(self.observed_ms, end_ms)

    def changed(self) -> list[Session]:
        """The sessions that records were taken into and that are still there."""
        return [session for session in self._made if session.row != _NONE]

    def _taken(
        self, row: int, key: int, merged: Sequence[Session], start_ms: int, end_ms: int, state: State
    ) -> Session:
        """The session in place of those that are merged."""
        if len(merged) == 1 and self._closing is None:
            session = merged[0]
            same = session.start_ms == start_ms and session.end_ms == end_ms
            if session.row != _NONE and (same or session.at_start is None):  # made in this epoch: it goes on
                session.start_ms, session.end_ms, session.state, session.row = start_ms, end_ms, state, row
                return session
        extended = Session(key, start_ms, end_ms, state, None, row)
        for session in merged:
            if session.at_start is not None:
                if session.start_ms == start_ms and session.end_ms == end_ms:
                    extended.at_start = session.at_start
                else:
                    self.removed.append(Session(key, session.start_ms, session.end_ms, [], session.at_start, row))
            session.row = _NONE
            session.waiting = False
        self._made.append(extended)
        if self._closing is not None:
            extended.waiting = True
            heappush(self._closing, (end_ms, start_ms, self._key_bytes[key], len(self._made), extended))
        return extended

    def _note(self, row: int, key: int, merged: Sequence[Session], start_ms: int, end_ms: int, state: State) -> None:
        """The updates of one record."""
        assert self.updates is not None
        old = None
        if start_ms == end_ms:
            old = merged[0].state if merged else None
        else:
            self.updates += [Update(row, key, each.start_ms, each.end_ms, None, each.state) for each in merged]
        self.updates.append(Update(row, key, start_ms, end_ms, state, old))

    def _range(self, key: int, start_ms: int, end_ms: int) -> tuple[int, int]:
        """The position of the session with these bounds, and the one behind it; an empty range if there is none."""
        ends, sessions = self._ends[key], self._sessions[key]
        at = bisect_left(ends, end_ms)
        while at < len(ends) and ends[at] == end_ms:
            if sessions[at].start_ms == start_ms:
                return at, at + 1
            at += 1
        return at, at

    def _close(self, until_ms: int, row: int) -> None:
        """Send the results of sessions that ended until then."""
        closing = self._closing
        assert closing is not None
        live = (self.observed_ms - self._retention_ms) // self._interval_ms
        while closing and closing[0][0] <= until_ms:
            session = heappop(closing)[4]
            if not session.waiting:
                continue
            session.waiting = False
            if session.end_ms // self._interval_ms >= live:
                self.closed.append(Update(row, session.key, session.start_ms, session.end_ms, session.state, None))
