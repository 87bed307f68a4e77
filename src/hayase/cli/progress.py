"""How far an application is, in one line."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from hayase.app.report import ProgressReport
from hayase.app.states import State

_RATE_OVER_S = 3.0


class ProgressLine:
    """Turns progress reports into a line with a rate over the last seconds.

    Args:
        monotonic: the clock, in seconds.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._samples: deque[tuple[float, int]] = deque()

    def text(self, report: ProgressReport) -> str:
        """The line for the newest report."""
        now = self._monotonic()
        self._samples.append((now, report.consumed))
        while now - self._samples[0][0] > _RATE_OVER_S:
            self._samples.popleft()
        (first, before), (last, after) = self._samples[0], self._samples[-1]
        return progress_text(report, (after - before) / (last - first) if last > first else 0.0)


class PlainProgress:
    """Prints the line when it has changed, at most every few seconds.

    Args:
        write: takes a line.
        every_s: least time between two lines, in seconds.
        monotonic: the clock, in seconds.
    """

    def __init__(
        self, write: Callable[[str], None], every_s: float, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._write = write
        self._every_s = every_s
        self._monotonic = monotonic
        self._line = ProgressLine(monotonic)
        self._when = -every_s
        self._written: tuple[ProgressReport | None, str] = (None, "")

    def tick(self, report: ProgressReport) -> None:
        """Take the newest report."""
        text = self._line.text(report)
        now = self._monotonic()
        last_report, last_text = self._written
        if report.state in (State.PENDING_ERROR, State.ERROR):  # the error itself says more
            return
        if now - self._when >= self._every_s and report != last_report and text != last_text:
            self._write(text)
            self._when, self._written = now, (report, text)


def progress_text(report: ProgressReport, rate: float) -> str:
    """One line.

    Example:
        >>> report = ProgressReport(State.RUNNING, 3, 2, 1200, 900, 7, 9, 2, 40)
        >>> progress_text(report, 1000.0)
        'running: 1,200 records, 1,000 records/s, lag 40, late 7, dead letters 2'
    """
    if report.state in (State.CREATED, State.REBALANCING):
        return "starting Spark"
    lag = "unknown" if report.lag_records is None else f"{report.lag_records:,}"
    name = "paused" if report.paused else report.state.value.lower().replace("_", " ")
    waiting = f"; waiting: {report.waiting}" if report.waiting else ""
    return (
        f"{name}: {report.consumed:,} records, {rate:,.0f} records/s, lag {lag}, late {report.late:,}, "
        f"dead letters {report.dead_letters:,}{waiting}"
    )


def run_text(report: ProgressReport) -> str:
    """What a run that has ended did.

    Example:
        >>> run_text(ProgressReport(State.NOT_RUNNING, 3, 2, 1200, 900, 7, 9, 2, 0))
        '1,200 records read, 900 written, 9 dropped (7 late, counted once for each window; 2 as dead letters)'
    """
    dropped = dropped_text(report.dropped, report.late, report.dead_letters)
    return f"{report.consumed:,} records read, {report.produced:,} written, {dropped}"


def dropped_text(dropped: int, late: int, dead_letters: int) -> str:
    """How many records were dropped, and what is counted among them.

    Example:
        >>> dropped_text(0, 0, 0), dropped_text(4, 2, 1)
        ('0 dropped', '4 dropped (2 late, counted once for each window; 1 as dead letters)')
    """
    among = [f"{late:,} late, counted once for each window"] if late else []
    among += [f"{dead_letters:,} as dead letters"] if dead_letters else []
    return f"{dropped:,} dropped" + (f" ({'; '.join(among)})" if among else "")
