"""Decides what each epoch reads, publishes it, and marks completed epochs. Knows nothing of Spark."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec import UNSET

from hayase.core.decoding import decode_json
from hayase.core.errors import CheckpointError, LogError, SourceRangeLostError, StateError
from hayase.core.failpoints import reach
from hayase.core.records import TopicPartition
from hayase.core.time import Clock, SystemClock
from hayase.log.open import open_log
from hayase.log.protocol import Log
from hayase.runtime.epochs.epoch_completion import EpochCompletion
from hayase.runtime.epochs.epoch_input import EpochInput
from hayase.runtime.epochs.log_watch import LogWatch
from hayase.runtime.epochs.open_epoch import check_program
from hayase.runtime.epochs.poll_pace import BUSY_POLL_S, PollPace, idle_poll_s
from hayase.runtime.epochs.record_retention import Floor, superseded
from hayase.runtime.epochs.source_log import SourceLog
from hayase.runtime.epochs.start_offsets import former_positions
from hayase.runtime.epochs.status_reports import StatusReports
from hayase.runtime.epochs.terms import newest_term
from hayase.runtime.epochs.wall_clock import PunctuationTrigger, WallClock
from hayase.runtime.wire.app_spec import AppSpec, load_app_spec
from hayase.runtime.wire.patient import patience_of
from hayase.runtime.wire.planner_control import LostOffsets, PlannerControl, PlannerStatus
from hayase.runtime.wire.topology_list import InputEnds
from hayase.storage.blobs import BlobStore
from hayase.storage.open import open_blobs
from hayase.task.epoch_record import EpochRecord, Epochs, Program, done_name, record_name

_LOG = logging.getLogger("hayase.runtime")

IDLE_WAIT_S = 0.1
"""How long `next_epoch` waits for data before it says that there is none."""
BROKER_POLL_S = 0.2


@dataclass(slots=True)
class _Open:
    epoch: int
    record: EpochRecord


class EpochPlanner:
    """One per running application.

    Epochs are planned one after the other; each is complete before the next is requested.
    """

    def __init__(
        self,
        app: AppSpec,
        blobs: BlobStore,
        log: Log,
        clock: Clock,
        control: PlannerControl,
        watch: LogWatch | None = None,
    ) -> None:
        self.app = app
        self._blobs = blobs
        self._log = log
        self._sources = SourceLog(log, watch)
        self._wall = WallClock(clock)
        self.control = control
        self._last: _Open | None = None
        self._first = True
        self._said_waiting = ""
        self._reports = StatusReports(control)
        self._lag = 0
        self._lag_when_planned = 0
        self._epochs = Epochs(blobs)
        self._floor = Floor(blobs, app.checkpoint_id)
        self._input = EpochInput(app, blobs, log, self._sources, clock)
        self._completion = EpochCompletion(app, blobs, log, clock, self._floor, self._input.internal)
        self._drained = not app.drains
        self.planning_s = 0.0
        """How long it took to complete the epoch before and to plan the last one, without waiting for input."""
        self.held = False
        """Whether the last `next_epoch` began none because planning is suspended."""
        self.abandoned: Callable[[], bool] = lambda: False
        """Whether who called `next_epoch` is not to go on: set by others than the driver, it ends all waiting there."""
        self._lost = self._lost_so_far()
        self._program = Program.of(app.plan, app.term)
        self._due = PunctuationTrigger(app.topology, control, self._wall)
        self._pace = PollPace(idle_poll_s(app.commit_interval_ms / 1000))

    @classmethod
    def open(cls, options: Mapping[str, str]) -> EpochPlanner:
        """From the options of the source."""
        patience = patience_of(options, f"planner-{os.getpid()}")
        blobs = open_blobs(options["checkpoint"], fsync=options["fsync"] == "true", patience=patience)
        app = load_app_spec(blobs, options["digest"])
        app.log_to_driver()
        return cls(app, blobs, open_log(app.log), SystemClock(), PlannerControl(Path(app.endpoints.control_dir)))

    @property
    def slots(self) -> int:
        """Number of Python tasks that run at once."""
        return self.app.slots

    @property
    def bounded(self) -> bool:
        """Whether it reads to the ends that `freeze` found, and no further."""
        return self._input.bounded

    @property
    def partitions(self) -> list[TopicPartition]:
        """All that are read."""
        return self._input.partitions

    def due_ms(self, after: int) -> int | None:
        """When an epoch is due by the wall clock, as of the summaries of that one; `None` if none is known to be."""
        return self._due.due_ms(after)

    def bound_next_epoch(self, records: int | None) -> None:
        """Let the epochs that are planned from now on read no more records than that; `None`: no such bound."""
        self._input.share = records

    @property
    def cut_by_bound(self) -> bool:
        """Whether the last epoch that was planned would have had more records without `bound_next_epoch`."""
        return self._input.cut_by_share

    @property
    def lag_when_planned(self) -> int:
        """What the log held beyond the last epoch when that was planned."""
        return self._lag_when_planned

    @property
    def waits_for_brokers(self) -> bool:
        """Whether the last `next_epoch` got no answer from the brokers."""
        return bool(self._said_waiting)

    def report_due(self, epoch: int, summaries: Sequence[bytes]) -> None:
        """What the bundles of an epoch say, if that is known here (see `PunctuationTrigger.note_completed`)."""
        self._due.note_completed(epoch, summaries)

    def last_done(self) -> int:
        """The last epoch that every bundle has completed; -1 before the first."""
        return self._completion.last_done

    def freeze(self, known: InputEnds | None = None) -> None:
        """Read to the ends as they are now, or were; see `EpochInput.freeze`."""
        self._input.freeze(known)

    def record(self, epoch: int) -> EpochRecord:
        """The record of an epoch.

        Raises:
            CheckpointError: it is missing.
        """
        if self._last is None or self._last.epoch != epoch:
            record = self._epochs.checked_record(epoch)
            if record is None:
                raise CheckpointError(
                    "EPOCH_RECORD_MISSING",
                    f"the record of epoch {epoch} is not in the checkpoint; restore it from a copy, or start over with "
                    "`hayase app reset`",
                )
            self._check_follows(record)
            self._last = _Open(epoch, record)
        return self._last.record

    def next_epoch(self, after: int, *, settle: bool = True, wait_s: float = IDLE_WAIT_S) -> int:
        """The epoch to run after that one, which is complete; `after` itself if there is nothing to do.

        Args:
            after: the epoch.
            settle: call `settle_epoch`, too; else the caller does that when the next epoch is on its way.
            wait_s: how long to wait for data before it says that there is none.

        Raises:
            SourceRangeLostError: records that were to be read are gone, or a topic is not the same any more.
            TopologyError: a topic has grown.
            CheckpointError: an epoch that was begun does not fit this application.
        """
        began = time.monotonic()
        if after > self._completion.last_done:
            self._completion.mark_done(self.record(after))
            if settle:
                self.settle_epoch()
        marking_s = time.monotonic() - began
        self.control.publish_ready()
        self.held = not self._is_left_to_it(after) and self._holds()
        if self.held:
            return after
        begun = self._epochs.record(after + 1)
        if begun is not None:
            return self._adopt(begun)
        if self.app.hands_over and self._drained:  # all else is for the program that takes this one's place
            self.held = True
            time.sleep(BUSY_POLL_S)
            return after
        deadline, waited = time.monotonic() + wait_s, False
        while True:
            began = time.monotonic()
            try:
                # asked first: what becomes visible after the ends were read must not be taken for nothing
                more = (self.bounded or bool(self.app.drains)) and self._input.unfinished()
                record = self._plan(after, waited=waited)
            except SourceRangeLostError as error:
                if newest_term(self._blobs) > self.app.term:  # what is gone, the other run has read and purged
                    raise superseded("records that were to be read were removed by a later run") from error
                raise
            except LogError as error:
                if error.condition != "BROKER_UNAVAILABLE":
                    raise
                self._wait_for_brokers(after, error)
                if not self.bounded or self.abandoned() or self._holds():
                    return after
                continue
            if record is not None:
                epoch = self._publish(record, self._positions(after))
                self.planning_s = marking_s + time.monotonic() - began
                self._pace.looked(came=True)
                return epoch
            ending = self.control.stop_requested() or self.abandoned()
            if more and not ending:
                time.sleep(BUSY_POLL_S)
                continue
            if self.app.drains and not more:
                self._drained = self.held = True
                self._holds()
                return after
            self._pace.looked(came=False)
            if self.bounded or time.monotonic() > deadline or self.control.suspend_requested():
                return after
            time.sleep(self._pace.pause_s)
            waited = True

    def close(self) -> None:
        """Let go of the log."""
        with contextlib.suppress(OSError, StateError):  # the folder of the run may be gone, or full
            self._reports.flush()
        self.control.publish_closed()
        self._log.close()

    def _is_left_to_it(self, after: int) -> bool:
        """Whether it has to go on though another program is waiting, until it is paused or stopped."""
        finishes = self.app.finishes
        if finishes is not None and after < finishes:
            return True
        return not self._drained and not self.control.stop_requested() and not self.control.pause_requested()

    def _holds(self) -> bool:
        """Whether new epochs are held back.

        In a run to the end Spark would take "nothing new" for the end of the input, so a pause is sat out here.
        """
        if not self.control.suspend_requested():
            return False
        self.settle_epoch()  # before another program takes this one's place: it begins a new term
        self.control.publish_suspended()
        time.sleep(BUSY_POLL_S)
        while self.bounded and not self.control.stop_requested() and not self.abandoned():
            if not self.control.suspend_requested():
                return False
            time.sleep(BUSY_POLL_S)
        return True

    def _wait_for_brokers(self, after: int, error: LogError) -> None:
        """As a consumer does, however long it takes: nothing is lost by waiting."""
        if not self._said_waiting:
            _LOG.warning("no epoch can be planned, waiting: %s", error)
        self._said_waiting = error.message
        self._publish_status(after, self._lag)
        time.sleep(BROKER_POLL_S)

    def settle_epoch(self) -> None:
        """What can wait once an epoch is marked as done: the group's offsets, and what is not needed any more.

        Raises:
            LeaseHeldError: `LEASE_LOST`: a later run has begun.
        """
        self._reports.flush()
        self._completion.settle()

    def _adopt(self, record: EpochRecord) -> int:
        """Go on with an epoch that was begun, here or by an earlier run."""
        self._check_plan(record)
        if record.term > self.app.term or self._blobs.exists(done_name(record.epoch)):
            raise superseded(
                f"epoch {record.epoch} was run by another copy (term {record.term}, this one is {self.app.term})"
            )
        previous, gone = self._check_follows(record), 0
        if record.term < self.app.term:
            app = self.app
            self._sources.topic_ids(app.plan.topics, record)
            check_program(record, app.plan, app.topology, self._blobs, self._log, app.application_id)
            gone = self._input.ranges.open_epoch(record)
        self._begin(record, previous, gone)
        return record.epoch

    def _check_plan(self, record: EpochRecord) -> None:
        begun = record.checkpoint_id, record.plan_number, record.plan
        if begun != (self.app.checkpoint_id, self.app.plan_number, self.app.plan.digest):
            raise CheckpointError(
                "OPEN_EPOCH_OF_ANOTHER_PLAN",
                f"epoch {record.epoch} was begun with another topology (plan {record.plan_number}, {record.plan}; now "
                f"{self.app.plan_number}, {self.app.plan.digest}). Start the old topology once more to finish it, or "
                "start over with `hayase app reset`",
                epoch=record.epoch,
            )

    def _check_follows(self, record: EpochRecord) -> EpochRecord | None:
        """The record before, which that one follows; `None` if it is forgotten."""
        known = self._last is not None and self._last.epoch == record.epoch - 1
        previous = self._last.record if known and self._last else self._epochs.record(record.epoch - 1)
        record.check_follows(previous)
        return self._as_read(previous)

    def _positions(self, epoch: int) -> EpochRecord | None:
        """The record of an epoch that is complete, with ranges that end where the next one goes on."""
        return self._as_read(self.record(epoch)) if epoch >= 0 else None

    def _as_read(self, record: EpochRecord | None) -> EpochRecord | None:
        """The record, with empty ranges where the next epoch reads them again; an epoch of this run is none such."""
        if record is None or record.term == self.app.term or not self._epochs.is_redone(record.epoch):
            return record
        return record.unread()

    def _publish(self, record: EpochRecord, previous: EpochRecord | None) -> int:
        reach("before_epoch_record", epoch=record.epoch)
        if not self._blobs.put_if_absent(record_name(record.epoch), record.to_bytes()):
            begun = self._epochs.record(record.epoch)
            if begun is None:
                raise superseded(f"epoch {record.epoch} was done, and forgotten, by another run")
            return self._adopt(begun)
        self._floor.check(record.epoch)
        reach("after_epoch_record", epoch=record.epoch)
        self._begin(record, previous)
        return record.epoch

    def _begin(self, record: EpochRecord, previous: EpochRecord | None, gone: int = 0) -> None:
        known = self._lost.offsets
        self._lost.adopted(record.epoch, gone)
        self._lost.begun(record, previous)
        self._input.ranges.recorded(record)
        self._last, self._first = _Open(record.epoch, record), False
        if self._lost.offsets != known:
            self._publish_status(record.epoch, self._lag, record.records)

    def _lost_so_far(self) -> LostOffsets:
        """What the planner before counted, of this run; the first one counts what is recorded from now on."""
        said = self.control.status()
        if said is not None:
            return decode_json(said, as_type=PlannerStatus).lost
        return LostOffsets(through=max(self._epochs.recorded(), default=-1))

    def _plan(self, after: int, *, waited: bool) -> EpochRecord | None:
        """The next epoch's record; `None` if there is nothing new.

        While it waits for data it asks only for the ends.
        """
        before = self.record(after) if after >= 0 else None
        previous = self._as_read(before)
        if previous is not None:
            self._wall.at_least(previous.wall_clock_ms)
        topic_ids = {} if waited else self._sources.topic_ids(self.app.plan.topics, previous)
        available = self._input.behind(previous)
        answered, self._said_waiting = bool(self._said_waiting), ""
        if available.records <= 0 and not self._wanted_without_input(previous):
            if not waited or answered:
                self._publish_status(after, 0)
            return None
        if waited:
            topic_ids = self._sources.topic_ids(self.app.plan.topics, previous)
        ends = self._input.ends_of_epoch(available, first=self._first)
        ranges, former_ids = former_positions(previous, self.app.former_topics)
        ranges |= {topic: {} for topic in self.app.plan.topics}
        for partition in self._input.partitions:
            ranges[partition.topic][partition.partition] = (available.starts[partition], ends[partition])
        record = EpochRecord(
            after + 1,
            self.app.checkpoint_id,
            self.app.plan.digest,
            self._wall.now_ms(),
            ranges,
            former_ids | topic_ids,
            before.digest if before is not None else "",
            self._program,
            self.app.plan_number or UNSET,
        )
        self._lag_when_planned = sum(available.ends[p] - end for p, end in ends.items())
        self._lag = self._lag_when_planned
        publish = self._reports.publish if answered else self._reports.publish_soon
        publish(self._status(record.epoch, record.records))
        return record

    def publish_lag(self, record: EpochRecord) -> None:
        """Say how much the log holds beyond an epoch that takes its time."""
        try:
            lag = self._input.lag(record)
        except LogError as error:  # planning the next epoch waits for the brokers
            _LOG.debug("the lag is not known: %s", error)
            return
        self._publish_status(record.epoch, lag, record.records)

    def _wanted_without_input(self, previous: EpochRecord | None) -> bool:
        """The first epoch with a topic records its start offset, so that no record written from now on is skipped."""
        if self.app.drains:
            return False
        if self._input.unrecorded(previous):
            return True
        if previous is not None and previous.plan_number != self.app.plan_number:
            return True  # by the record readers and followers know the plan
        after = previous.epoch if previous is not None else -1
        return not self.bounded and self._due.wanted(after, first=self._first)

    def _publish_status(self, epoch: int, lag: int, records: int = 0) -> None:
        self._lag = lag
        self._reports.publish(self._status(epoch, records))

    def _status(self, epoch: int, records: int) -> PlannerStatus:
        skipped = self._lost.offsets + self._input.ranges.passed_over
        return PlannerStatus(epoch, self._lag, self._said_waiting, skipped, self._lost, records)
