"""Which records an epoch reads: those that are available, and how many of them go into one epoch."""

from __future__ import annotations

import time
from dataclasses import dataclass

from hayase.core.records import TopicPartition
from hayase.core.time import Clock
from hayase.log.protocol import Log
from hayase.runtime.epochs.bounds import Offsets, TimeCut, fair_ends, first_records, last_time_ms
from hayase.runtime.epochs.source_checks import RangeCheck
from hayase.runtime.epochs.start_offsets import StartOffsets
from hayase.runtime.epochs.task_idling import TaskIdling, task_inputs
from hayase.runtime.wire.app_spec import AppSpec
from hayase.storage.blobs import BlobStore
from hayase.task.epoch_record import EpochRecord

FIRST_RECORDS_MAX = 50_000
"""The first epoch of a run is no larger, so that output begins, or what is wrong shows, soon after the start."""


@dataclass(frozen=True, slots=True)
class Available:
    """The records that can be read behind an epoch.

    Attributes:
        starts: the first offset of each partition.
        ends: behind the last one.
        records: how many that are.
    """

    starts: Offsets
    ends: Offsets
    records: int


class EpochInput:
    """The partitions that an application reads, and how far its epochs are in them.

    Args:
        app: the application.
        blobs: its checkpoint.
        log: the log.
        clock: for positions that are given as times.

    Attributes:
        partitions: all that are read.
        internal: those of topics that the application writes for itself.
        ranges: checks that what is to be read is there.
    """

    def __init__(self, app: AppSpec, blobs: BlobStore, log: Log, clock: Clock) -> None:
        internal = frozenset(app.topology.internal_topics)
        self.partitions = [
            TopicPartition(topic, partition) for topic, count in app.plan.topics.items() for partition in range(count)
        ]
        self.internal = [partition for partition in self.partitions if partition.topic in internal]
        self._log = log
        self._records_max = app.max_records_per_epoch
        self._start_offsets = StartOffsets(log, blobs, app.plan.topics, app.resets, clock)
        self.ranges = RangeCheck(log, app.on_range_lost, self._start_offsets.first, time.monotonic, internal)
        self._idling = TaskIdling(task_inputs(app.topology, app.plan), app.max_task_idle_ms / 1000, time.monotonic)
        self._cut = TimeCut()
        # Borders matter only where a task merges several inputs.
        self._by_time = len(self.partitions) > 1 and any(
            len(task.topic_partitions) + len(task.edges) > 1 or task.edges
            for bundle in app.plan.bundles
            for task in bundle.tasks
        )
        self._frozen: Offsets | None = None

    @property
    def bounded(self) -> bool:
        """Whether it is read to the ends that `freeze` found, and no further."""
        return self._frozen is not None

    def freeze(self) -> None:
        """Read to the ends as they are now, and no further; internal topics to their end."""
        internal = set(self.internal)
        self._frozen = self._log.end_offsets([p for p in self.partitions if p not in internal])

    def unfinished(self) -> bool:
        """Whether more is about to be seen in internal topics.

        What an epoch wrote may be committed but not visible yet.
        """
        return bool(self.internal) and self._log.unfinished(self.internal)

    def unrecorded(self, previous: EpochRecord | None) -> bool:
        """Whether an epoch must record where a topic begins, be there input or not."""
        return self._start_offsets.unrecorded(previous)

    def behind(self, previous: EpochRecord | None) -> Available:
        """The records behind an epoch that may be read now (`max.task.idle.ms`).

        Raises:
            SourceRangeLostError: records that were to be read are gone.
        """
        starts = self._start_offsets.after(previous)
        ends = self._log.end_offsets(self.partitions)
        starts = self.ranges.starts(starts, ends)
        ends = {p: max(end, starts[p]) for p, end in ends.items()}  # they were asked for before
        if self._frozen is not None:
            ends = {p: max(starts[p], min(ends[p], self._frozen.get(p, ends[p]))) for p in self.partitions}
        else:
            ends = self._idling.ends(
                starts, ends, lambda p: last_time_ms(self._log, p, starts[p], ends[p]), self._for_time
            )
        return Available(starts, ends, sum(ends[p] - starts[p] for p in self.partitions))

    def ends_of_epoch(self, available: Available, *, first: bool) -> Offsets:
        """How far an epoch reads; the first one of a run reads fewer records."""
        records_max = min(self._records_max, FIRST_RECORDS_MAX) if first else self._records_max
        starts, ends = available.starts, available.ends
        if available.records <= records_max:
            self._cut.reset()
            return ends
        if not self._by_time:
            return fair_ends(starts, ends, records_max)
        lagging = [p for p in self.partitions if ends[p] > starts[p]]
        return self._cut.ends(
            starts, ends, records_max, lambda: first_records(self._log, starts, ends, lagging), self._for_time
        )

    def lag(self, record: EpochRecord) -> int:
        """How many records the log holds behind an epoch."""
        ends = self._log.end_offsets(self.partitions)
        return sum(ends[p] - record.ranges[p.topic][p.partition][1] for p in self.partitions)

    def _for_time(self, time_ms: int) -> Offsets:
        return self._log.offsets_for_time(dict.fromkeys(self.partitions, time_ms))
