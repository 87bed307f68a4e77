"""How far an application is, committed to the consumer group of its name: for tools that show its lag."""

from __future__ import annotations

import logging
from collections.abc import Callable

from hayase.core.errors import LogError
from hayase.core.records import TopicPartition
from hayase.log.protocol import Log
from hayase.runtime.epochs.record_retention import superseded
from hayase.runtime.epochs.terms import newest_term
from hayase.storage.blobs import BlobStore
from hayase.task.epoch_record import EpochRecord

_LOG = logging.getLogger("hayase.runtime")

_LOOK_AGAIN_S = 1.0
_ALL_AGAIN_S = 60.0


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

    def commit(self, record: EpochRecord) -> None:
        """Commit the ends of an epoch. Where the log refuses, a warning says so: the next epoch commits again.

        Raises:
            LeaseHeldError: `LEASE_LOST`: a later run has begun. Nothing is committed.
        """
        self._check_term(record.epoch)
        began = self._monotonic()
        everything = self._all_s is None or began - self._all_s >= _ALL_AGAIN_S
        offsets = {
            TopicPartition(topic, partition): end
            for topic, partitions in record.ranges.items()
            for partition, (start, end) in partitions.items()
            if end > (0 if everything else start)
        }
        try:
            self._log.commit_group_offsets(self._group, offsets)
        except LogError as error:  # only other tools look at these
            _LOG.warning("offsets of epoch %d were not committed to group %s: %s", record.epoch, self._group, error)
        else:
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
