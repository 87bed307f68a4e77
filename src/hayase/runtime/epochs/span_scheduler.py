"""Scheduler of spans: plans one epoch after the other while the Spark job of the first one goes on.

A Spark job costs more than a small epoch, and tasks that go on keep their connections, producers and open state. So the
tasks of a job do not end with its epoch, but get the next one from here (docs/decisions/20261122-spans.md).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial

import msgspec

from hayase.runtime.epochs.epoch_completion import SETTLE_EVERY_S
from hayase.runtime.epochs.planner import EpochPlanner
from hayase.runtime.epochs.span_backoff import SPAN_BACKOFF_S, SpanBackoff
from hayase.runtime.epochs.span_server import WAIT_POLL_S, IncompleteReason, SpanServer
from hayase.runtime.wire.span_protocol import EpochReport
from hayase.task.epoch_record import EpochRecord

_LOG = logging.getLogger("hayase.runtime")

SHUFFLED_RECORDS_MAX = 20_000
"""On a cluster a larger epoch with a shuffle is a job of its own, so that its rows are shuffled by Spark."""
_JOIN_POLL_S = 0.05
_POLL_S = 0.02


class SpanScheduler:
    """The scheduler of one planner. Between `begin` and `finish` it alone uses the planner.

    Args:
        planner: plans the epochs.
        monotonic: the clock for intervals, in seconds.
    """

    def __init__(self, planner: EpochPlanner, monotonic: Callable[[], float] = time.monotonic) -> None:
        app = planner.app
        self._epoch_planner = planner
        self._control = planner.control
        self._monotonic = monotonic
        self._span_s = app.span_max_ms / 1000
        self._interval_s = app.commit_interval_ms / 1000
        self._shuffles = app.cluster and app.plan.levels > 1
        self._server: SpanServer | None = None
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._backoff = SpanBackoff(monotonic)
        self._first_epoch = -1
        self._reached = -1
        self._is_span = False
        self._settle_every_s = SETTLE_EVERY_S
        if app.topology.internal_topics:  # which are purged then, and that may be wanted more often
            self._settle_every_s = min(SETTLE_EVERY_S, app.purge_interval_ms / 1000)
        self._settle_at = monotonic()

    def begin(self, record: EpochRecord) -> str | None:
        """Begin a span with the epoch of the next Spark job.

        The address that its tasks join at, `None` if there is no span.
        """
        if self._server is not None and self._thread is not None and self._first_epoch == record.epoch:
            return self._server.address  # Spark asked for the tasks of one job a second time
        self._is_span = False
        if self._control.yield_requested():  # others, or new executors: what was learnt about cores no longer holds
            self._backoff.reset()
        if self._span_s <= 0 or not self._backoff.is_over or self._must_end() or not self._fits(record):
            return None
        if self._server is None:
            app = self._epoch_planner.app
            self._server = SpanServer(app.plan, app.slot_of_bundles(), app.endpoints)
        self._first_epoch = record.epoch
        self._server.begin(record.epoch)
        self._thread = threading.Thread(
            target=self._run, args=(self._server, record), name=f"hayase-span-{record.epoch}", daemon=True
        )
        self._thread.start()
        return self._server.address

    def last_completed(self, job_epoch: int) -> int:
        """The last completed epoch after the job that began with `job_epoch`.

        A span may leave that one incomplete, or go beyond it.
        """
        return self._reached if self._is_span else job_epoch

    def finish(self) -> None:
        """Finish the span, whose job has ended.

        Raises:
            HayaseError: the reason why no more epochs can be planned.
        """
        if self._thread is not None:
            assert self._server is not None
            self._server.end()
            self._thread.join()
            self._thread = None
        self._epoch_planner.settle_epoch()
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def close(self) -> None:
        """End the span and disconnect its tasks, whatever they do."""
        if self._server is not None:
            self._server.close()
            if self._thread is not None:
                self._thread.join(timeout=1)
            self._server = None

    def _fits(self, record: EpochRecord) -> bool:
        return not self._shuffles or record.records <= SHUFFLED_RECORDS_MAX

    def _run(self, server: SpanServer, first: EpochRecord) -> None:
        try:
            if self._wait_for_tasks(server, first.epoch):
                self._reached, self._is_span = first.epoch - 1, True
                self._run_epochs(server, first)
        except BaseException as error:  # raised where Spark asks for the next epoch
            self._error = error
        finally:
            server.end()

    def _wait_for_tasks(self, server: SpanServer, epoch: int) -> bool:
        self._backoff.await_tasks()
        while not server.wait_for_tasks(_JOIN_POLL_S):
            if self._must_end():
                return False
            if server.over or self._backoff.is_too_late:
                _LOG.debug("no span for epoch %d: not all tasks of its slots joined", epoch)
                self._backoff.begin()
                return False
        self._backoff.succeeded()
        return True

    def _must_end(self) -> bool:
        return self._control.suspend_requested() or self._control.yield_requested()

    def _run_epochs(self, server: SpanServer, first: EpochRecord) -> None:
        began = self._monotonic()
        record: EpochRecord | None = first
        with self._control.reporting() as report:
            while record is not None:
                epoch_began = self._monotonic()
                summaries = server.run(record, partial(self._while_waiting, record, epoch_began))
                planning_s = self._epoch_planner.planning_s
                total_s = planning_s + self._monotonic() - epoch_began
                report(msgspec.json.encode(EpochReport(record.epoch, total_s * 1000, planning_s * 1000, summaries)))
                if server.incomplete is not None:
                    self._log_incomplete(record, server.incomplete)
                    return
                self._reached = record.epoch
                self._epoch_planner.report_due(record.epoch, summaries)
                if server.task_rejoined:
                    return
                wait_s = 0.0 if self._epoch_planner.bounded else pause_s(self._interval_s, total_s)
                record = self._next(
                    record, until_s=began + self._span_s, not_before_s=epoch_began - planning_s + wait_s
                )

    def _log_incomplete(self, record: EpochRecord, why: IncompleteReason) -> None:
        _LOG.debug("another job completes epoch %d: %s", record.epoch, why.value)
        if why is not IncompleteReason.ENDED:
            self._backoff.pause(SPAN_BACKOFF_S)

    def _while_waiting(self, record: EpochRecord, began: float) -> None:
        if self._monotonic() >= self._settle_at:
            self._settle()
        if self._monotonic() - began > WAIT_POLL_S / 2:
            self._epoch_planner.publish_lag(record)

    def _settle(self) -> None:
        self._epoch_planner.settle_epoch()
        self._settle_at = self._monotonic() + self._settle_every_s

    def _next(self, record: EpochRecord, *, until_s: float, not_before_s: float) -> EpochRecord | None:
        """The next epoch of the span; `None`: the span ends.

        Where the pause would go beyond the end, the span ends now: Spark's next job takes longer than a pause to begin.
        """
        while not self._must_end() and max(self._monotonic(), not_before_s) < until_s:
            wait_s = not_before_s - self._monotonic()
            if wait_s > 0:
                time.sleep(min(wait_s, _POLL_S))
                continue
            epoch = self._epoch_planner.next_epoch(record.epoch, settle=False)
            if epoch > record.epoch:
                next_record = self._epoch_planner.record(epoch)
                return next_record if self._fits(next_record) else None
            self._settle()  # there is time
            if self._epoch_planner.bounded:
                return None
        return None


def pause_s(interval_s: float, epoch_s: float) -> float:
    """How long after an epoch's beginning the next one begins.

    A record waits for that long at most, and for the epoch that reads it: for the commit interval in all, where an
    epoch takes no more than a quarter of it. Longer epochs are not begun more often for that: they would be busy
    longer, the more the busier the machine is.

    Args:
        interval_s: the commit interval.
        epoch_s: how long the last epoch took, planning included.
    """
    return max(interval_s - epoch_s, 0.75 * interval_s)
