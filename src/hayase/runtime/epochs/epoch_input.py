"""Which records an epoch reads: those that are available, and how many of them go into one epoch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from hayase.core.records import TopicPartition
from hayase.core.time import Clock
from hayase.log.protocol import Log
from hayase.runtime.epochs.source_checks import RangeCheck
from hayase.runtime.epochs.source_log import SourceLog
from hayase.runtime.epochs.start_offsets import Offsets, StartOffsets
from hayase.runtime.epochs.task_idling import TaskIdling, task_inputs
from hayase.runtime.wire.app_spec import AppSpec
from hayase.runtime.wire.topology_list import InputEnds
from hayase.storage.blobs import BlobStore
from hayase.task.epoch_record import EpochRecord

FIRST_RECORDS_MAX = 50_000
"""The first epoch of a run is no larger, so that output begins, or what is wrong shows, soon after the start."""
_TRIES_MAX = 12
_TAIL = 16
_NO_LIMIT_MS = 1 << 62


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
        sources: what is known of the log.
        clock: for positions that are given as times.

    Attributes:
        partitions: all that are read.
        internal: those of topics that the application writes for itself.
        ranges: checks that what is to be read is there.
        share: the most records of an epoch while others want the slots (`FairShare`); `None`: no bound.
        cut_by_share: whether the last epoch would have had more records without that bound.
    """

    def __init__(self, app: AppSpec, blobs: BlobStore, log: Log, sources: SourceLog, clock: Clock) -> None:
        internal = frozenset(app.topology.internal_topics)
        self.partitions = [
            TopicPartition(topic, partition) for topic, count in app.plan.topics.items() for partition in range(count)
        ]
        self.internal = [partition for partition in self.partitions if partition.topic in internal]
        self._drains = app.drains
        self._log = log
        self._sources = sources
        self._records_max = app.max_records_per_epoch
        self.share: int | None = None
        self.cut_by_share = False
        self._start_offsets = StartOffsets(log, blobs, app.plan.topics, app.resets, clock)
        self.ranges = RangeCheck(
            sources.start_offsets, app.on_range_lost, self._start_offsets.first, time.monotonic, internal
        )
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

    def freeze(self, known: InputEnds | None = None) -> None:
        """Read to the ends as they are now, and no further; internal topics to their end.

        Args:
            known: ends of an earlier moment, which count instead; what is not in them was not there then.
        """
        internal = set(self.internal)
        ends = self._log.end_offsets([p for p in self.partitions if p not in internal])
        if known is not None:
            before = {TopicPartition(t, number): end for t, found in known.items() for number, end in enumerate(found)}
            ends = {p: min(end, before.get(p, 0)) for p, end in ends.items()}
        self._frozen = ends

    def unfinished(self) -> bool:
        """Whether more is about to be seen in internal topics.

        What an epoch wrote may be committed but not visible yet.
        """
        awaited = [p for p in self.internal if not self._drains or p.topic in self._drains]
        return bool(awaited) and self._log.unfinished(awaited)

    def unrecorded(self, previous: EpochRecord | None) -> bool:
        """Whether an epoch must record where a topic begins, be there input or not."""
        return self._start_offsets.unrecorded(previous)

    def behind(self, previous: EpochRecord | None) -> Available:
        """The records behind an epoch that may be read now (`max.task.idle.ms`, `AppSpec.drains`).

        Raises:
            SourceRangeLostError: records that were to be read are gone.
        """
        starts = self._start_offsets.after(previous)
        ends = self._sources.end_offsets(starts, latest=self.bounded or bool(self._drains))
        starts = self.ranges.starts(starts, ends)
        ends = {p: max(end, starts[p]) for p, end in ends.items()}  # they were asked for before
        if self._drains:
            ends = {p: ends[p] if p.topic in self._drains else starts[p] for p in self.partitions}
        elif self._frozen is not None:
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
        self.cut_by_share = self.share is not None and self.share < min(records_max, available.records)
        if self.cut_by_share and self.share is not None:
            records_max = self.share
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
        read = {p: record.ranges[p.topic][p.partition][1] for p in self.partitions}
        ends = self._sources.end_offsets(read, latest=False)
        return sum(ends[p] - end for p, end in read.items())

    def _for_time(self, time_ms: int) -> Offsets:
        return self._log.offsets_for_time(dict.fromkeys(self.partitions, time_ms))


def fair_ends(starts: Offsets, ends: Offsets, records_max: int) -> dict[TopicPartition, int]:
    """Ends that cover at most `records_max` offsets: what is short is taken whole, the rest is shared evenly.

    Example:
        >>> a, b = TopicPartition("t", 0), TopicPartition("t", 1)
        >>> fair_ends({a: 0, b: 0}, {a: 10, b: 1000}, 100) == {a: 10, b: 90}
        True
    """
    left = records_max
    chosen = dict(starts)
    by_lag = sorted(starts, key=lambda p: (ends[p] - starts[p], p))
    for position, partition in enumerate(by_lag):
        share = left // (len(by_lag) - position)
        taken = min(ends[partition] - starts[partition], share)
        chosen[partition] = starts[partition] + taken
        left -= taken
    if all(chosen[p] == starts[p] for p in starts):  # fewer records allowed than there are partitions: take one
        first = max(by_lag, key=lambda p: ends[p] - starts[p])
        chosen[first] = min(starts[first] + 1, ends[first])
    return chosen


class TimeCut:
    """Chooses a time T and ends every range at the first record at or after T.

    So an epoch is a prefix of the merged order. T is guessed from how much time the last epochs covered, and corrected
    by halving and doubling.
    """

    def __init__(self) -> None:
        self._time_ms: int | None = None
        self._span_ms = 1_000

    def ends(
        self,
        starts: Offsets,
        ends: Offsets,
        records_max: int,
        firsts: Callable[[], Mapping[TopicPartition, tuple[int, int]]],
        offsets_for_time: Callable[[int], Offsets],
    ) -> dict[TopicPartition, int]:
        """Ends that cover at most `records_max` offsets and at least one; fair shares where no time does.

        Offsets at the starts that have no record (compaction) do not count where they would keep a time from being
        found.

        Args:
            starts: where the epoch begins.
            ends: the ends of the log.
            records_max: the bound.
            firsts: offset and timestamp of the first record from the start on, of each partition that has one; asked
                only if no earlier epoch tells a time, or no time fits.
            offsets_for_time: first offset at or after a time, of each partition.
        """
        begin = self._time_ms if self._time_ms is not None else min((time for _, time in firsts().values()), default=0)
        span, too_far = self._span_ms, None
        best: tuple[int, dict[TopicPartition, int]] | None = None
        for _ in range(_TRIES_MAX):
            at_time = offsets_for_time(begin + span)
            cut = {p: min(max(at_time[p], starts[p]), ends[p]) for p in starts}
            count = sum(cut[p] - starts[p] for p in starts)
            if count > records_max:
                too_far = span
                span = max(1, (span + (best[0] if best else 0)) // 2)
                if best is not None and span <= best[0]:
                    break
            elif count and count >= records_max // 2:
                best = (span, cut)
                break
            else:
                if count:
                    best = (span, cut)
                if too_far is not None:
                    if too_far - span <= 1:
                        break
                    span = (span + too_far) // 2
                else:
                    span *= 4 if count < records_max // 8 else 2
        if best is None:
            self._time_ms = None
            known = firsts()
            behind_gaps = {p: known[p][0] if p in known else ends[p] for p in starts}
            if behind_gaps == starts:
                return fair_ends(starts, ends, records_max)
            if sum(ends[p] - behind_gaps[p] for p in starts) <= records_max:
                return dict(ends)
            return self.ends(behind_gaps, ends, records_max, lambda: known, offsets_for_time)
        self._time_ms = begin + best[0]
        self._span_ms = best[0]
        return best[1]

    def reset(self) -> None:
        """Forget the last time: the log was read to its ends."""
        self._time_ms = None


def last_time_ms(log: Log, partition: TopicPartition, start: int, end: int) -> int:
    """Timestamp of the last record before the end; the largest number if there is none (markers, compaction)."""
    reader = log.reader()
    try:
        tail = [b for b in reader.fetch(partition, max(start, end - _TAIL), end) if len(b)]
    finally:
        reader.close()
    return int(tail[-1].timestamps_ms[-1]) if tail else _NO_LIMIT_MS


def first_records(
    log: Log, starts: Offsets, ends: Offsets, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, tuple[int, int]]:
    """Offset and timestamp of the first record of each that has one: that at the start may have been compacted away."""
    reader = log.reader()
    try:
        batches = {p: next((b for b in reader.fetch(p, starts[p], ends[p]) if len(b)), None) for p in partitions}
    finally:
        reader.close()
    return {p: (int(b.offsets[0]), int(b.timestamps_ms[0])) for p, b in batches.items() if b is not None}
