"""Loop of one topology in a shared runtime: plans its epochs and has the slots run them, in a thread of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import msgspec

from hayase.core.errors import HayaseError, ProcessingError
from hayase.core.logs import log_context
from hayase.log.assignments import Place
from hayase.runtime.epochs.epoch_completion import SETTLE_EVERY_S
from hayase.runtime.epochs.fair_share import FairShare
from hayase.runtime.epochs.log_watch import LogWatch, Watch
from hayase.runtime.epochs.planner import EpochPlanner
from hayase.runtime.epochs.slot_layout import SlotLayout
from hayase.runtime.epochs.slot_pool import DEATHS_MAX, SlotPool
from hayase.runtime.epochs.slot_queue import Work
from hayase.runtime.wire.failure import find_error, reason_of
from hayase.runtime.wire.row_files import RowFiles
from hayase.runtime.wire.slot_messages import TopologyRequest, TopologyResult
from hayase.runtime.wire.span_protocol import EpochReport, RowFile
from hayase.runtime.wire.topology_list import InputEnds
from hayase.state.delta.journal import EdgeRow
from hayase.task.epoch_record import EpochRecord

_LOG = logging.getLogger("hayase.runtime")

_SUSPENDED_POLL_S = 0.1
_SUSPENDED_S = 1.0
"""So often a topology that is suspended looks whether it is still so, if nothing wakes it before."""
_IDLING_POLL_S = 0.05
_BROKERS_POLL_S = 0.5
_PLAN_AGAIN_S = 60.0
"""So often a topology is planned though nothing has moved: `LogWatch` and `FolderWatch` see what comes."""
_REPORT_FILE_S = 60.0
_LAG_EVERY_S = 2.0
"""So often an epoch that takes its time says how much the log holds beyond it. Each time costs three files and a look
at the log; fifty topologies whose epochs wait for each other would do nothing else."""
_EARLY_S = 0.005
"""A loop that wakes this much before a tick begins the next epoch at the tick after it."""
_PLACE_AGAIN_S = 1.0
_FAR_BEHIND = 20
"""Epochs of backlog, of the size that they have beside others, from which a topology gets processes of its own."""
AWAY = ("BROKER_UNAVAILABLE", "S3_UNREACHABLE")
"""Conditions of errors that end when brokers or stores answer again."""


class TopologyLoop:
    """Runs until it is stopped, its input has ended (`bounded`), or the topology fails.

    Args:
        planner: of the topology; the loop alone uses it.
        options: by which slots find its program.
        pool: the slots.
        watch: tells when its input has moved.
        row_files: rows of this runtime that are too many for a message.
        bounded: to the ends of the input.
        ends: these ends; `None`: as they are when it begins.
        places: of the bundles that slots publish with their own producers.
        place: gives bundles of a topology in some slots an id to themselves, and those in others the slots' ids;
            returns their places.
    """

    def __init__(
        self,
        planner: EpochPlanner,
        options: dict[str, str],
        pool: SlotPool,
        watch: LogWatch,
        row_files: RowFiles,
        *,
        bounded: bool,
        ends: InputEnds | None = None,
        places: Mapping[str, Place],
        place: Callable[[str, frozenset[int]], Mapping[str, Place]],
    ) -> None:
        self._planner = planner
        self._options = options
        self._pool = pool
        self._log_watch = watch
        self._row_files = row_files
        self._watch: Watch = watch.add(planner.partitions)
        self._bounded, self._ends = bounded, ends
        self._stopped = threading.Event()
        planner.abandoned = self._stopped.is_set
        app = planner.app
        self._application_id = app.application_id
        self._slot_of = app.slot_of_bundles()
        self._layout = SlotLayout(app.plan, self._slot_of)
        self._places = self._by_slot(places)
        self._place = place
        self._own: frozenset[int] = frozenset()
        self._interval_s = app.commit_interval_ms / 1000
        self._idles = app.max_task_idle_ms > 0
        self._share = FairShare()
        self._settle_at = self._lag_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, name=f"hayase-{self._application_id}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether it goes on."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """End it at once; an epoch that is open is finished by the next start."""
        self._stopped.set()
        self._watch.wake()
        self._pool.cancel(self._application_id)

    def look_for_requests(self) -> None:
        """Plan if requests of the driver, or of a command, have come or gone; for the thread that watches folders."""
        if self._planner.control.requests_changed():
            self._watch.wake()

    def join(self, timeout_s: float) -> None:
        """Wait for the end."""
        self._thread.join(timeout_s)

    def _run(self) -> None:
        control = self._planner.control
        with log_context(application_id=self._application_id):
            try:
                self._run_epochs()
            except HayaseError as error:
                self._failed(f"hayase.core.errors.{type(error).__name__}: {error}")
            except BaseException as error:  # whatever it is, it is the end of this topology alone
                _LOG.exception("planning failed")
                self._failed(f"{type(error).__name__}: {error}")
            else:
                if not self._stopped.is_set():
                    control.publish_end()
            finally:
                self._log_watch.remove(self._watch)
                self._pool.cancel(self._application_id)
                control.publish_closed()

    def _failed(self, error: str) -> None:
        """Say that the topology has failed; not of a start that was stopped, since another may have its folder now."""
        if self._stopped.is_set():
            _LOG.info("failed after it was stopped: %s", error)
        else:
            self._planner.control.publish_failure(error)

    def _run_epochs(self) -> None:
        planner = self._planner
        if self._bounded:
            planner.freeze(self._ends)
        after = planner.last_done()
        while not self._stopped.is_set():
            with planner.control.reporting() as report:
                until = time.monotonic() + _REPORT_FILE_S
                while not self._stopped.is_set() and time.monotonic() < until:
                    self._watch.clear()
                    self._return_to_slots()
                    others = not self._is_separate and self._pool.others_want_slots(self._application_id)
                    planner.bound_next_epoch(self._share.records_max(others_want_slots=others))
                    epoch = planner.next_epoch(after, settle=False, wait_s=0)
                    if epoch > after:
                        began = time.monotonic()
                        self._watch.rest()
                        if not self._run_epoch(planner.record(epoch), report):
                            return
                        after = epoch
                        self._pause(began)
                    elif planner.held:  # what moves meanwhile is seen by the plan that follows
                        planner.settle_epoch()
                        self._stopped.wait(_SUSPENDED_POLL_S)  # what moves in the log would wake it all the time
                        self._watch.wait(_SUSPENDED_S)
                    elif planner.bounded:
                        planner.settle_epoch()
                        return
                    else:
                        planner.settle_epoch()
                        self._wait(after)

    def _run_epoch(self, record: EpochRecord, report: Callable[[bytes], object]) -> bool:
        """Run an epoch; whether it is complete, and the loop was not stopped meanwhile."""
        began = time.monotonic()
        data = record.to_bytes()
        busy_s = 0.0
        self._lag_at = began + _LAG_EVERY_S / 2
        rows: list[EdgeRow] = []
        files: list[RowFile] = []
        summaries: list[bytes] = []
        try:
            for level in range(len(self._layout.levels)):
                encode = partial(self._requests, data, level, rows, files)
                work = Work(self._application_id, encode())
                self._pool.run(work, partial(self._while_waiting, record, work, encode))
                if self._stopped.is_set() or work.cancelled:
                    return False
                self._check(work, record.epoch)
                self._place_slow(work)
                busy_s += work.busy_s
                for result in work.results:
                    rows += result.rows
                    files += result.files
                    summaries += result.summaries
        finally:
            for file in files:
                self._row_files.remove(file.path)
        self._share.completed(record.records, busy_s)
        planning_s = self._planner.planning_s
        total_s = planning_s + time.monotonic() - began
        report(msgspec.json.encode(EpochReport(record.epoch, total_s * 1000, planning_s * 1000, summaries)))
        self._planner.report_due(record.epoch, summaries)
        self._separate_if_far_behind(record)
        return True

    def _requests(
        self, record: bytes, level: int, rows: Iterable[EdgeRow], files: Iterable[RowFile]
    ) -> dict[int, bytes]:
        rows_of = self._layout.rows_of(level, rows)
        files_of = self._layout.files_of(level, files)
        return {
            slot: msgspec.msgpack.encode(
                TopologyRequest(
                    self._application_id,
                    self._options,
                    record,
                    level,
                    slot,
                    rows_of[slot],
                    files_of[slot],
                    self._places[slot],
                )
            )
            for slot in rows_of
        }

    def _check(self, work: Work, epoch: int) -> None:
        """Raises the error of a slot that failed."""
        for result in work.results:
            if result.error:
                raise _error_of(result)
        hung = find_error(work.hung)
        if work.died >= DEATHS_MAX and hung is not None:
            hung.context = {"application_id": self._application_id, **hung.context}
            raise hung
        if work.died >= DEATHS_MAX:
            raise ProcessingError(
                "WORKER_DIED",
                f"{work.died} worker processes died while they were at epoch {epoch} of {self._application_id}: they "
                "were killed, for lack of memory perhaps, made no progress for max.poll.interval.ms (then the log says "
                "where), or crashed in native code. Other topologies go on",
                application_id=self._application_id,
                epoch=epoch,
            )

    def _while_waiting(self, record: EpochRecord, work: Work, encode: Callable[[], dict[int, bytes]]) -> None:
        slow = frozenset(work.slow_in) - self._own
        if slow:
            self._pool.begin_to_move(work, slow)
            if self._place_bundles(self._own | slow):
                self._pool.moved(work, {slot: request for slot, request in encode().items() if slot in slow})
        self._planner.settle_epoch()
        if (now := time.monotonic()) >= self._lag_at:
            self._lag_at = now + _LAG_EVERY_S
            self._planner.publish_lag(record)

    def _place_slow(self, work: Work) -> None:
        """Move bundles of requests that have completed soon after they were found slow.

        The next ones are for processes of their own, which must not share the slots' ids.
        """
        slow = frozenset(work.slow_in) - self._own
        if slow:
            self._place_bundles(self._own | slow)

    @property
    def _is_separate(self) -> bool:
        """Whether it has processes of its own for all its slots, so that others wait for none of its epochs."""
        return self._own >= frozenset(self._slot_of.values())

    def _separate_if_far_behind(self, record: EpochRecord) -> None:
        """Between two epochs: processes of its own for a topology that would take long to catch up beside others.

        There its epochs have their full size. While more than another epoch is left to read, the processes count as
        needed; afterwards `_return_to_slots` gives them back as those of a slow topology.
        """
        lag, is_separate = self._planner.lag_when_planned, self._is_separate
        still = is_separate and lag > record.records
        if still or (self._planner.cut_by_bound and lag >= _FAR_BEHIND * record.records):
            slots = frozenset(self._slot_of.values())
            if self._pool.separate(self._application_id, slots) and not is_separate:
                _LOG.info("%d records behind: it goes on in processes of its own", lag)
                self._place_bundles(slots)

    def _return_to_slots(self) -> None:
        """Between two epochs: give processes of its own back that it has not needed lately."""
        needed = self._own & self._pool.own_slots(self._application_id)
        if needed != self._own and self._place_bundles(needed):
            self._pool.rejoin(self._application_id, needed)

    def _place_bundles(self, own: frozenset[int]) -> bool:
        """Have an id to itself in those slots and no others; tries again while the log is away, until it is stopped."""
        while not self._stopped.is_set():
            try:
                places = self._place(self._application_id, own) if any(self._places.values()) else {}
            except HayaseError as error:
                if error.condition not in AWAY:
                    raise
                _LOG.info("bundles get no other producers for now: %s", error)
                self._stopped.wait(_PLACE_AGAIN_S)
            else:
                self._own, self._places = own, self._by_slot(places)
                return True
        return False

    def _by_slot(self, places: Mapping[str, Place]) -> dict[int, dict[str, Place]]:
        found: dict[int, dict[str, Place]] = {slot: {} for slot in self._slot_of.values()}
        for bundle, place in places.items():
            found[self._slot_of[bundle]][bundle] = place
        return found

    def _pause(self, began: float) -> None:
        """The time from one epoch to the next."""
        at_once = self._planner.bounded or self._planner.cut_by_bound  # a bound costs time, not throughput
        until = began if at_once else next_tick(began, self._interval_s)
        if until > time.monotonic() or time.monotonic() >= self._settle_at:
            self._planner.settle_epoch()
            self._settle_at = time.monotonic() + SETTLE_EVERY_S
        if until > time.monotonic():
            self._watch.rest(until)
            self._stopped.wait(until - time.monotonic())

    def _wait(self, after: int) -> None:
        """Until there may be something to do."""
        due_ms = self._planner.due_ms(after)
        until = time.monotonic() + _PLAN_AGAIN_S
        if due_ms is not None:
            until = min(until, time.monotonic() + max(0.0, due_ms / 1000 - time.time()))
        if self._planner.waits_for_brokers:
            until = min(until, time.monotonic() + _BROKERS_POLL_S)
        if self._idles:
            until = min(until, time.monotonic() + _IDLING_POLL_S)
        self._watch.wait(max(0.0, until - time.monotonic()))


def next_tick(began: float, interval_s: float) -> float:
    """When the epoch behind one that began then is to begin: an interval later, or up to an interval sooner.

    Topologies of equal intervals have the same ticks, so that a slot publishes in one transaction what it has of many.
    """
    if interval_s <= 0:
        return began
    return (began + interval_s + _EARLY_S) // interval_s * interval_s


def _error_of(result: TopologyResult) -> HayaseError:
    return find_error(result.error) or ProcessingError("PROCESSING_FAILED", f"a slot failed: {reason_of(result.error)}")
