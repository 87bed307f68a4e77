"""When the punctuations of a task are due (Kafka Streams' `PunctuationQueue`).

When each is due next is state: see `Clocks`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from hayase.processor.api import PunctuationType, Punctuator

_TASK = "punctuation"
_TURN = "/turn"
_LAST_TURN = "task/punctuation-turn"
NEVER = 1 << 62
"""Also the time kept of one that was cancelled: it stays so in later epochs."""


class Times(Protocol):
    """Where the times of the next calls are kept: the task's clocks."""

    def get(self, name: str) -> int:
        """The time kept under a name, -1 if there is none."""
        ...

    def set(self, name: str, time_ms: int) -> None:
        """Keep a time."""
        ...


class Punctuation:
    """One function and when it is due next; `name` is that of the clock which keeps it, `None` if it is not kept."""

    __slots__ = ("_times", "callback", "cancelled", "due_ms", "interval_ms", "name", "turn", "type")

    def __init__(
        self,
        kind: PunctuationType,
        callback: Punctuator,
        due_ms: int,
        interval_ms: int,
        name: str | None,
        times: Times,
    ) -> None:
        self.type = kind
        self.callback = callback
        self.due_ms = due_ms
        self.interval_ms = interval_ms
        self.name = name
        self.turn = 0
        self.cancelled = due_ms == NEVER
        self._times = times

    def cancel(self) -> None:
        """End it, in later epochs as well."""
        self.cancelled = True
        if self.name is not None:
            self._times.set(self.name, NEVER)

    def keep_in(self, times: Times) -> None:
        """Keep it there from now on: the clocks of the next epoch."""
        self._times = times

    def move_on(self, now_ms: int) -> None:
        """After a call: the next multiple of the interval behind now, counted from when it was due."""
        self.due_ms += max((now_ms - self.due_ms) // self.interval_ms + 1, 1) * self.interval_ms


class Punctuations:
    """Those of one task in one epoch.

    Args:
        times: the task's clocks.
        wall_clock_ms: of the epoch.
        call: runs a function of a node: `(node, function, time)`.
        before: those of the epoch before in this process: what was scheduled goes on.
    """

    def __init__(
        self,
        times: Times,
        wall_clock_ms: int,
        call: Callable[[str, Punctuator, int], None],
        before: Punctuations | None = None,
    ) -> None:
        self._times = times
        self._wall_clock_ms = wall_clock_ms
        self._call = call
        self._scheduled: list[tuple[str, Punctuation]] = []
        self._numbers: dict[str, int] = {}
        self._stream_due_ms: int = NEVER
        if before is not None:
            self._scheduled = [(node, each) for node, each in before._scheduled if not each.cancelled]
            self._numbers = before._numbers
            self._stream_due_ms = before._stream_due_ms
        for _, each in self._scheduled:
            each.keep_in(times)

    def schedule(
        self, node: str, kind: PunctuationType, callback: Punctuator, interval_ms: int, start_ms: int | None, keep: bool
    ) -> Punctuation:
        """Add one. With `keep`, the n-th of a node goes on where the n-th of its last epoch was."""
        first_ms = start_ms or 0
        if kind is PunctuationType.WALL_CLOCK_TIME:
            now_ms = self._wall_clock_ms
            first_ms = now_ms + interval_ms if start_ms is None else _grid(start_ms, interval_ms, now_ms)
        name = None
        if keep:
            number = self._numbers[node] = self._numbers.get(node, -1) + 1
            name = f"{node}/{_TASK}/{number}"
        kept_ms = self._times.get(name) if name is not None else -1
        punctuation = Punctuation(kind, callback, kept_ms if kept_ms >= 0 else first_ms, interval_ms, name, self._times)
        if kept_ms >= 0:
            punctuation.turn = self._times.get(f"{name}{_TURN}")
        else:
            self._queue(punctuation)
        self._scheduled.append((node, punctuation))
        if kind is PunctuationType.STREAM_TIME:
            self._stream_due_ms = min(self._stream_due_ms, punctuation.due_ms)
        return punctuation

    def stream_time(self, now_ms: int) -> None:
        """Call what is due by stream time."""
        if now_ms >= self._stream_due_ms:
            self._run(PunctuationType.STREAM_TIME, now_ms)
            self._stream_due_ms = self._next(PunctuationType.STREAM_TIME)

    def wall_clock(self) -> None:
        """Call what is due by the wall clock of the epoch."""
        self._run(PunctuationType.WALL_CLOCK_TIME, self._wall_clock_ms)

    def next_wall_clock_ms(self) -> int:
        """When something is due by the wall clock; `NEVER` if nothing will be."""
        return self._next(PunctuationType.WALL_CLOCK_TIME)

    def _next(self, kind: PunctuationType) -> int:
        return min((each.due_ms for _, each in self._live(kind)), default=NEVER)

    def _live(self, kind: PunctuationType) -> list[tuple[str, Punctuation]]:
        return [(node, each) for node, each in self._scheduled if each.type is kind and not each.cancelled]

    def _run(self, kind: PunctuationType, now_ms: int) -> None:
        """By due time, those of one time in the order in which they were queued.

        What they schedule has its turn too.
        """
        while True:
            node, first = min(self._live(kind), key=lambda e: (e[1].due_ms, e[1].turn), default=("", None))
            if first is None or first.due_ms > now_ms:
                return
            self._call(node, first.callback, now_ms)
            if not first.cancelled:
                first.move_on(now_ms)
                self._queue(first)

    def _queue(self, punctuation: Punctuation) -> None:
        """At the end of those that are due at one time, as in a queue.

        Also if the others were queued in an earlier epoch.
        """
        punctuation.turn = self._times.get(_LAST_TURN) + 1
        self._times.set(_LAST_TURN, punctuation.turn)
        if punctuation.name is not None:
            self._times.set(punctuation.name, punctuation.due_ms)
            self._times.set(f"{punctuation.name}{_TURN}", punctuation.turn)


def _grid(start_ms: int, interval_ms: int, now_ms: int) -> int:
    """The first of `start, start + interval, …` that is not before now."""
    return start_ms if start_ms >= now_ms else start_ms + -((start_ms - now_ms) // interval_ms) * interval_ms
