"""What becomes of an epoch that every bundle has completed: its done mark, its group offsets, and what follows."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from hayase.core.errors import LogError
from hayase.core.failpoints import reach
from hayase.core.records import TopicPartition
from hayase.core.time import Clock
from hayase.log.protocol import Log
from hayase.runtime.epochs.open_epoch import forget_amendments
from hayase.runtime.epochs.record_retention import EpochRecordRetention, Floor, superseded
from hayase.runtime.epochs.removed_bundles import delete_removed_bundles
from hayase.runtime.epochs.terms import newest_term
from hayase.runtime.wire.app_spec import AppSpec
from hayase.storage.blobs import BlobStore
from hayase.task.epoch_record import EpochRecord, Epochs, done_name

_LOG = logging.getLogger("hayase.runtime")


SETTLE_EVERY_S = 0.5
"""Interval of `EpochCompletion.settle` while epochs follow each other. By the group's offsets other tools see how far
the application is, and each commit is a request. An epoch that none follows is settled at once."""
_LOOK_AGAIN_S = 1.0
_ALL_AGAIN_S = 60.0


class EpochCompletion:
    """Marks epochs as done; then commits the group's offsets and deletes what is not needed any more.

    Args:
        app: the application.
        blobs: its checkpoint.
        log: the log.
        clock: by which old records expire.
        floor: below which no epoch may be begun any more.
        internal: partitions of topics that the application writes for itself.

    Attributes:
        last_done: the last epoch that every bundle has completed; -1 before the first.
    """

    def __init__(
        self,
        app: AppSpec,
        blobs: BlobStore,
        log: Log,
        clock: Clock,
        floor: Floor,
        internal: Sequence[TopicPartition],
    ) -> None:
        self._app = app
        self._blobs = blobs
        self._log = log
        self._floor = floor
        self._internal = internal
        self._epochs = Epochs(blobs)
        self.last_done = self._epochs.last_done()
        self._old = EpochRecordRetention(blobs, clock, app.history_retention_ms, floor)
        self._group_offsets = GroupOffsets(log, blobs, app.application_id, app.term, time.monotonic)
        self._purge_interval_s = app.purge_interval_ms / 1000
        self._purge_at = time.monotonic() + self._purge_interval_s
        self._unsettled: EpochRecord | None = None
        self._settled_none = True

    def mark_done(self, record: EpochRecord) -> None:
        """Mark an epoch as done.

        Raises:
            CheckpointError: another run has marked it with another record.
            LeaseHeldError: `LEASE_LOST`: another run does it again.
        """
        epoch = record.epoch
        reach("before_done", epoch=epoch)
        self._floor.check_checkpoint()
        if not self._blobs.put_if_absent(done_name(epoch), record.digest.encode()):
            self._epochs.checked_record(epoch)
            if self._epochs.is_redone(epoch):
                raise superseded(f"epoch {epoch} is done again by another program")
        reach("after_done", epoch=epoch)
        self.last_done = epoch
        self._unsettled = record

    def settle(self) -> None:
        """Do what can wait once an epoch is marked as done: commit the group's offsets, delete processed records.

        Raises:
            LeaseHeldError: `LEASE_LOST`: a later run has begun.
        """
        record, self._unsettled = self._unsettled, None
        if record is None:
            return
        self._floor.check_checkpoint()
        self._group_offsets.commit(record)
        self._purge(record)
        self._old.forget(record.epoch)
        if self._settled_none:
            self._settled_none = False
            forget_amendments(self._blobs, record.epoch)
            if record.plan_number == self._app.plan_number:
                delete_removed_bundles(self._app, self._blobs, record)

    def _purge(self, record: EpochRecord) -> None:
        """Delete processed records from internal topics: they are not read again, and time does not remove them."""
        if not self._internal or time.monotonic() < self._purge_at:
            return
        self._purge_at = time.monotonic() + self._purge_interval_s
        try:
            reach("before_purge", epoch=record.epoch)
            self._log.delete_records({p: record.ranges[p.topic][p.partition][1] for p in self._internal})
            reach("after_purge", epoch=record.epoch)
        except LogError as error:  # the next purge deletes it
            _LOG.warning("internal topics were not purged: %s", error)


class GroupOffsets:
    """Commits the ends of completed epochs.

    No log fences such commits: a planner that was stopped while another run took over would set the offsets back when
    it wakes. So it looks for a higher term before it commits, unless it has looked a moment ago. A request that was on
    its way when its sender was stopped may still arrive late. Therefore all partitions are committed now and then, not
    only those that moved.

    Args:
        log: the log.
        blobs: the checkpoint.
        group: the application's id.
        term: of this run.
        monotonic: the clock for intervals, in seconds.
    """

    def __init__(self, log: Log, blobs: BlobStore, group: str, term: int, monotonic: Callable[[], float]) -> None:
        self._log = log
        self._blobs = blobs
        self._group = group
        self._term = term
        self._monotonic = monotonic
        self._looked_s: float | None = None
        self._all_s: float | None = None
        self._committed: dict[TopicPartition, int] = {}

    def commit(self, record: EpochRecord) -> None:
        """Commit the ends of an epoch, and of those before it that were not committed.

        Where the log refuses, a warning says so: the next epoch commits again.

        Raises:
            LeaseHeldError: `LEASE_LOST`: a later run has begun. Nothing is committed.
        """
        self._check_term(record.epoch)
        began = self._monotonic()
        everything = self._all_s is None or began - self._all_s >= _ALL_AGAIN_S
        ends = {
            TopicPartition(topic, partition): end
            for topic, partitions in record.ranges.items()
            for partition, (_, end) in partitions.items()
            if end > 0
        }
        offsets = {p: end for p, end in ends.items() if everything or self._committed.get(p) != end}
        try:
            self._log.commit_group_offsets(self._group, offsets)
        except LogError as error:  # only other tools look at these
            _LOG.warning("offsets of epoch %d were not committed to group %s: %s", record.epoch, self._group, error)
        else:
            self._committed |= offsets
            self._all_s = began if everything else self._all_s

    def _check_term(self, epoch: int) -> None:
        now = self._monotonic()
        if self._looked_s is not None and now - self._looked_s < _LOOK_AGAIN_S:
            return
        newest = newest_term(self._blobs)
        if newest > self._term:
            raise superseded(
                f"offsets of epoch {epoch} are not committed by term {self._term}: term {newest} has begun"
            )
        self._looked_s = now
