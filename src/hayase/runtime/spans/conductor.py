"""Runs spans: plans one epoch after the other while the Spark job of the first one goes on.

A job of Spark's costs more than a small epoch, and workers that stay keep their connections, producers and open state. So the
tasks of a job do not end with its epoch, but take the next from here (docs/decisions/20261122-spans.md).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial

import msgspec

from hayase.runtime.coordinator import EpochCoordinator
from hayase.runtime.spans.hub import MEANWHILE_S, Hub, LeftOpen
from hayase.runtime.spans.messages import Told
from hayase.task.epoch_record import EpochRecord

_LOG = logging.getLogger("hayase.runtime")

SEAT_S = 15.0
"""How long the tasks of all slots may take to come: at a start, each is a process that has to begin."""
SHUFFLED_RECORDS_MAX = 20_000
"""A larger epoch with a shuffle is a job of its own, so that its rows are shuffled by Spark."""
APART_S = 60.0
"""After an epoch that a span could not finish there are no spans for so long. Nor where the tasks did not come: Spark has fewer cores than
slots for us, or they can not reach us. That costs the time that they are waited for, so each time in a row the pause is twice as long."""
APART_S_MAX = 900.0
_SEAT_POLL_S = 0.05
_POLL_S = 0.005


class Conductor:
    """One per planner. Between `begin` and `settle` the coordinator belongs to it.

    Args:
        coordinator: plans the epochs.
        monotonic: the clock for intervals, in seconds.
    """

    def __init__(self, coordinator: EpochCoordinator, monotonic: Callable[[], float] = time.monotonic) -> None:
        app = coordinator.app
        self._coordinator = coordinator
        self._control = coordinator.control
        self._monotonic = monotonic
        self._span_s = app.span_max_ms / 1000
        self._interval_s = app.commit_interval_ms / 1000
        self._shuffles = app.plan.levels > 1
        self._hub: Hub | None = None
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._not_before = monotonic()
        self._apart_s = APART_S
        self._first_epoch = -1
        self._reached = -1
        self._is_span = False

    def begin(self, record: EpochRecord) -> str | None:
        """Begin a span with an epoch that is about to become a job; where its tasks find it, `None` if there is none."""
        if self._hub is not None and self._thread is not None and self._first_epoch == record.epoch:
            return self._hub.address  # Spark asked for the tasks of one job a second time
        self._is_span = False
        if self._control.yield_asked():  # others came, or machines, so what was true of the cores may not be any more
            self._not_before, self._apart_s = self._monotonic(), APART_S
        if self._span_s <= 0 or self._monotonic() < self._not_before or self._must_end() or not self._fits(record):
            return None
        if self._hub is None:
            app = self._coordinator.app
            self._hub = Hub(app.plan, app.slot_of_bundles(), app.place)
        self._first_epoch = record.epoch
        self._hub.begin(record.epoch)
        self._thread = threading.Thread(
            target=self._run, args=(self._hub, record), name=f"hayase-span-{record.epoch}", daemon=True
        )
        self._thread.start()
        return self._hub.address

    def through(self, job_epoch: int) -> int:
        """The last epoch that is through, after the job that began with that one; a span may end with it open, or go beyond it."""
        return self._reached if self._is_span else job_epoch

    def settle(self) -> None:
        """The job has ended, so the span has.

        Raises:
            HayaseError: why no more epochs can be planned.
        """
        if self._thread is not None:
            assert self._hub is not None
            self._hub.end()
            self._thread.join()
            self._thread = None
        self._coordinator.settle_epoch()
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def close(self) -> None:
        """End the span; tasks are let go in the middle of what they do."""
        if self._hub is not None:
            self._hub.close()
            if self._thread is not None:
                self._thread.join(timeout=1)
            self._hub = None

    def _fits(self, record: EpochRecord) -> bool:
        return not self._shuffles or record.records <= SHUFFLED_RECORDS_MAX

    def _run(self, hub: Hub, first: EpochRecord) -> None:
        try:
            if self._seated(hub, first.epoch):
                self._reached, self._is_span = first.epoch - 1, True
                self._run_epochs(hub, first)
        except BaseException as error:  # raised where Spark asks for the next epoch
            self._error = error
        finally:
            hub.end()

    def _seated(self, hub: Hub, epoch: int) -> bool:
        until = self._monotonic() + SEAT_S
        while not hub.seated(_SEAT_POLL_S):
            if self._must_end():
                return False
            if hub.over or self._monotonic() > until:
                _LOG.debug("no span for epoch %d: the tasks of its slots did not come together", epoch)
                self._not_before = self._monotonic() + self._apart_s
                self._apart_s = min(2 * self._apart_s, APART_S_MAX)
                return False
        self._apart_s = APART_S
        return True

    def _must_end(self) -> bool:
        return self._control.hold_asked() or self._control.yield_asked()

    def _run_epochs(self, hub: Hub, first: EpochRecord) -> None:
        began = self._monotonic()
        record: EpochRecord | None = first
        with self._control.telling() as tell:
            while record is not None:
                epoch_began = self._monotonic()
                summaries = hub.run(record, partial(self._meanwhile, record, epoch_began))
                planning_s = self._coordinator.planning_s
                total_s = planning_s + self._monotonic() - epoch_began
                tell(msgspec.json.encode(Told(record.epoch, total_s * 1000, planning_s * 1000, summaries)))
                if hub.left_open is not None:
                    self._leave(record, hub.left_open)
                    return
                self._reached = record.epoch
                self._coordinator.tell_due(record.epoch, summaries)
                if hub.disturbed:
                    return
                record = self._next(record, until_s=began + self._span_s, not_before_s=epoch_began + self._interval_s)

    def _leave(self, record: EpochRecord, why: LeftOpen) -> None:
        _LOG.debug("epoch %d is finished by another job: %s", record.epoch, why.value)
        if why is not LeftOpen.ENDED:
            self._not_before = self._monotonic() + APART_S

    def _meanwhile(self, record: EpochRecord, began: float) -> None:
        self._coordinator.settle_epoch()
        if self._monotonic() - began > MEANWHILE_S / 2:
            self._coordinator.say_lag(record)

    def _next(self, record: EpochRecord, *, until_s: float, not_before_s: float) -> EpochRecord | None:
        """The next epoch of the span; `None` ends it."""
        while not self._must_end() and self._monotonic() < until_s:
            wait_s = 0.0 if self._coordinator.bounded else not_before_s - self._monotonic()
            if wait_s > 0:
                time.sleep(min(wait_s, _POLL_S))
                continue
            epoch = self._coordinator.next_epoch(record.epoch, settle=False)
            if epoch > record.epoch:
                found = self._coordinator.record(epoch)
                return found if self._fits(found) else None
            self._coordinator.settle_epoch()  # there is time
            if self._coordinator.bounded:
                return None
        return None
