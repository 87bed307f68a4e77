"""Taking records into sliding windows, one after the other, over numbers and stored values that were decoded before.

For the column form.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from hayase.core.windows import SlidingWindows
from hayase.kernel.window.sequential_states import State, States
from hayase.serde.faults import is_fault
from hayase.state.stores.window_bytes import WindowBytes

_NONE = -1


class SlidingWindow:
    """A window of a key.

    Attributes:
        key: number of its key.
        time_ms: of the latest record in it.
        state: what is kept for it.
        at_start: what the store held for it when the epoch began; `None`: nothing.
        row: the row that changed it last, -1 if none has.
        change: number of that change among those of all windows.
    """

    __slots__ = ("at_start", "change", "key", "row", "start_ms", "state", "time_ms", "waiting")

    def __init__(self, key: int, start_ms: int, time_ms: int, state: State, at_start: bytes | None) -> None:
        self.key = key
        self.start_ms = start_ms
        self.time_ms = time_ms
        self.state = state
        self.at_start = at_start
        self.row = _NONE
        self.change = _NONE
        self.waiting = False
        """Its result is to be sent when it closes."""


class WindowUpdate(NamedTuple):
    """What is sent on of one window.

    Attributes:
        row: the row that made it.
        time_ms: of the latest record in the window.
        old: what it was before; `None`: nothing.
    """

    row: int
    key: int
    start_ms: int
    time_ms: int
    state: State
    old: State | None


class _Record(NamedTuple):
    """A record that is taken in: the number of its key, and the time before which windows are closed."""

    row: int
    key: int
    time_ms: int
    closed_ms: int
    inputs: Sequence[object]


class SlidingMerge:
    """The sliding windows of an epoch's keys while its records are taken in.

    What it does to a record is what `StreamSlidingAggregateRows.process` does, in the same order.

    Args:
        windows: of the operator.
        store: the windows, of which those of the epoch's keys that its records may reach are added.
        states: of the aggregate.
        keys: how many keys there are.
        failed: called with each row on which the aggregate, or one of its inputs, fails.
    """

    def __init__(
        self,
        windows: SlidingWindows,
        store: WindowBytes,
        states: States,
        keys: int,
        failed: Callable[[int, Exception], None],
    ) -> None:
        self._difference_ms = windows.difference_ms
        self._retention_ms = store.observed_ms - store.hidden_until_ms
        self._observed_ms = store.observed_ms
        self._stepped = states.stepped
        self._starts: list[list[int]] = [[] for _ in range(keys)]
        self._windows: list[list[SlidingWindow]] = [[] for _ in range(keys)]
        self._failed = failed
        self._changes = 0
        self.changed: list[SlidingWindow] = []
        """The windows that records were taken into."""
        self.late = 0
        """How many records were late, each of them as often as there were windows for which it was."""
        self.updates: list[WindowUpdate] | None = None
        """Every update, if it is set to a list."""
        self._closing: list[tuple[int, bytes, SlidingWindow]] | None = None
        self.closed: list[WindowUpdate] = []
        """What was sent because it closed."""
        self.closed_until_ms = _NONE
        """Windows that began until then have closed."""
        self._key_bytes: Sequence[bytes] = ()

    def add(self, window: SlidingWindow) -> None:
        """Add a window of the store; those of a key by start."""
        self._starts[window.key].append(window.start_ms)
        self._windows[window.key].append(window)

    def find(self, key: int, start_ms: int) -> SlidingWindow | None:
        """A window that was added."""
        starts = self._starts[key]
        at = bisect_left(starts, start_ms)
        return self._windows[key][at] if at < len(starts) and starts[at] == start_ms else None

    def send_when_closed(self, waiting: Iterable[SlidingWindow], key_bytes: Sequence[bytes]) -> None:
        """Send results when windows close.

        Args:
            waiting: windows that had a result before.
            key_bytes: of every key, by number.
        """
        self._key_bytes = key_bytes
        self._closing = []
        for window in waiting:
            window.waiting = True
            self._closing.append((window.start_ms, key_bytes[window.key], window))
        heapify(self._closing)

    def run(self, rows: Iterable[tuple[int, int, int, Sequence[object]]], failures: dict[int, Exception]) -> None:
        """Take records in.

        Args:
            rows: number of the key, time, the time before which windows are closed, and inputs of each record.
            failures: rows whose inputs failed.
        """
        difference_ms, closing = self._difference_ms, self._closing is not None
        for row, (key, time_ms, closed_ms, inputs) in enumerate(rows):
            if time_ms + 1 + difference_ms <= closed_ms:
                self.late += 1
                continue
            try:
                if row in failures:
                    raise failures[row]
                record = _Record(row, key, time_ms, closed_ms, inputs)
                if time_ms < difference_ms:
                    self._take_early(record)
                    continue
                if closing:
                    self._close(closed_ms - difference_ms - 1, row)
                self._take(record)
            except Exception as error:  # expressions may raise anything; the handler decides
                if not is_fault(error):
                    raise
                self._failed(row, error)

    def _take(self, record: _Record) -> None:
        time_ms, difference_ms = record.time_ms, self._difference_ms
        starts, windows = self._starts[record.key], self._windows[record.key]
        low_ms = max(0, time_ms - 2 * difference_ms, self._observed_ms - self._retention_ms + 1)
        has_left = has_right = False
        right: tuple[State, int] | None = None
        left: State | None = None
        previous_ms = _NONE
        at = bisect_right(starts, time_ms + 1) - 1
        while at >= 0 and starts[at] >= low_ms:
            start_ms, window = starts[at], windows[at]
            at -= 1
            end_ms = start_ms + difference_ms
            if start_ms > time_ms:
                has_right = True
            elif end_ms > time_ms:
                if right is None:
                    right = window.state, window.time_ms
                self._update(window, record)
            elif end_ms == time_ms:
                has_left, previous_ms = True, window.time_ms
                self._update(window, record)
                if previous_ms == time_ms:
                    return
            else:
                left, previous_ms = window.state, window.time_ms
                break
        behind_ms = previous_ms + 1
        if behind_ms and behind_ms + difference_ms >= time_ms and self.find(record.key, behind_ms) is None:
            self._make(behind_ms, None, record)
        if not has_left:
            self._make(time_ms - difference_ms, left if behind_ms > time_ms - difference_ms else None, record)
        if not has_right:
            self._make_right(right, record)

    def _take_early(self, record: _Record) -> None:
        time_ms = record.time_ms
        starts, windows = self._starts[record.key], self._windows[record.key]
        at = bisect_left(starts, max(0, self._observed_ms - self._retention_ms + 1))
        shared: SlidingWindow | None = None
        shared_ms = _NONE
        right: tuple[State, int] | None = None
        has_right = False
        while at < len(starts) and starts[at] <= time_ms + 1:
            window = windows[at]
            at += 1
            if window.start_ms == 0:
                shared, shared_ms = window, window.time_ms
            elif window.start_ms <= time_ms:
                right = window.state, window.time_ms
                self._update(window, record)
            else:
                has_right = True
        if shared is not None and right is None and shared_ms > time_ms:
            right = shared.state, shared_ms
        if not has_right:
            self._make_right(right, record)
        if 0 <= shared_ms < time_ms and self.find(record.key, shared_ms + 1) is None:
            self._make(shared_ms + 1, None, record)
        if shared is None:
            self._make(0, None, record)
        else:
            self._update(shared, record)

    def _make_right(self, right: tuple[State, int] | None, record: _Record) -> None:
        """The window right behind the record, if there is a record in it for which it was not made yet."""
        if right is not None and right[1] > record.time_ms:
            self._put(record.time_ms + 1, right[1], right[0], record)

    def _update(self, window: SlidingWindow, record: _Record) -> None:
        """Take the record into a window that is there, which the store does not hide."""
        if window.start_ms + self._difference_ms < record.closed_ms:
            self.late += 1
            return
        old = window.state
        window.state = self._stepped(old, record.inputs)
        window.time_ms = max(window.time_ms, record.time_ms)
        self._note(window, old, record)

    def _make(self, start_ms: int, begin_with: State | None, record: _Record) -> None:
        """Make a window of the record and of what it begins with."""
        if (
            start_ms + self._difference_ms < record.closed_ms or start_ms <= self._observed_ms - self._retention_ms
        ):  # too late, or the store would hide it
            self.late += 1
            return
        self._put(start_ms, record.time_ms, self._stepped(begin_with, record.inputs), record)

    def _put(self, start_ms: int, time_ms: int, state: State, record: _Record) -> None:
        starts, windows = self._starts[record.key], self._windows[record.key]
        at = bisect_left(starts, start_ms)
        if at < len(starts) and starts[at] == start_ms:  # made just now, for the record before it
            window = windows[at]
            window.time_ms, window.state = time_ms, state
        else:
            window = SlidingWindow(record.key, start_ms, time_ms, state, None)
            starts.insert(at, start_ms)
            windows.insert(at, window)
        self._observed_ms = max(self._observed_ms, start_ms)
        self._note(window, None, record)

    def _note(self, window: SlidingWindow, old: State | None, record: _Record) -> None:
        """The window has changed."""
        if window.change == _NONE:
            self.changed.append(window)
        window.row, window.change = record.row, self._changes
        self._changes += 1
        if self.updates is not None:
            self.updates.append(
                WindowUpdate(record.row, window.key, window.start_ms, window.time_ms, window.state, old)
            )
        elif self._closing is not None and not window.waiting:
            window.waiting = True
            heappush(self._closing, (window.start_ms, self._key_bytes[window.key], window))

    def _close(self, until_ms: int, row: int) -> None:
        """Send the results of windows that began until then, unless the store hides them."""
        closing = self._closing
        assert closing is not None
        self.closed_until_ms = max(self.closed_until_ms, until_ms)
        hidden_ms = self._observed_ms - self._retention_ms
        while closing and closing[0][0] <= until_ms:
            window = heappop(closing)[2]
            window.waiting = False
            if window.start_ms > hidden_ms:
                self.closed.append(WindowUpdate(row, window.key, window.start_ms, window.time_ms, window.state, None))
