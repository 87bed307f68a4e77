"""Whether the log still holds what an epoch is to go on with."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Mapping, Sequence

from hayase.core.config import OnRangeLost
from hayase.core.errors import SourceRangeLostError
from hayase.core.records import TopicPartition
from hayase.log.protocol import TopicInfo
from hayase.runtime.epochs.start_offsets import Offsets
from hayase.task.epoch_record import EpochRecord
from hayase.task.plan import partitions_changed

_LOG = logging.getLogger("hayase.runtime")

_CHECKED_EVERY_S = 1.0
"""Retention works in minutes, and asking for the first offsets costs a request.

They are not asked for in every epoch.
"""
_WAYS_OUT = (
    "Start with source.range.lost=reset to go on, with all state, where auto.offset.reset says, or start over with "
    "`hayase app reset`"
)


def check_topics(
    infos: Mapping[str, TopicInfo], topics: Mapping[str, int], previous: EpochRecord | None
) -> dict[str, str]:
    """The ids of the topics, which are still those that the epoch before read.

    Args:
        infos: the topics that are there.
        topics: names, and the partitions of the plan.
        previous: the epoch before.

    Raises:
        SourceRangeLostError: SOURCE_RANGE_LOST: a topic is gone, or another one with the same name.
        TopologyError: PARTITIONS_CHANGED.
    """
    for topic, count in topics.items():
        info = infos.get(topic)
        if info is None:
            raise SourceRangeLostError(
                "SOURCE_RANGE_LOST",
                f"topic {topic!r} was deleted while the application reads it; make it again and start over with "
                "`hayase app reset`",
                topic=topic,
            )
        if previous is not None and previous.topic_ids.get(topic, info.topic_id) != info.topic_id:
            raise SourceRangeLostError(
                "SOURCE_RANGE_LOST",
                f"topic {topic!r} was deleted and recreated, so offsets mean other records now; start over with "
                "`hayase app reset`",
                topic=topic,
            )
        if info.partitions != count:
            raise partitions_changed(topic, count, info.partitions)
    return {topic: info.topic_id for topic, info in infos.items()}


class RangeCheck:
    """Compares where an epoch is to begin with what the log holds, before the epoch record fixes it.

    Args:
        start_offsets: where partitions begin in the log.
        on_lost: `fail`, or `reset`: go on where `first_offsets` says.
        first_offsets: where partitions without a position begin.
        monotonic: the clock for intervals, in seconds.
        internal: topics of the application's own, from which only it deletes: what is gone there was read before, so
            the checkpoint is an older copy, and passing it over would lose rows.
    """

    def __init__(
        self,
        start_offsets: Callable[[Sequence[TopicPartition]], Offsets],
        on_lost: OnRangeLost,
        first_offsets: Callable[[Sequence[TopicPartition]], Offsets],
        monotonic: Callable[[], float],
        internal: Container[str] = frozenset(),
    ) -> None:
        self._internal = internal
        self._start_offsets = start_offsets
        self._on_lost = on_lost
        self._first_offsets = first_offsets
        self._monotonic = monotonic
        self._checked_s: float | None = None
        self._replaced: dict[TopicPartition, tuple[int, int]] = {}

    def starts(self, starts: Offsets, ends: Offsets) -> dict[TopicPartition, int]:
        """Where the epoch begins: at `starts`, except partitions whose records there are gone and that may be reset.

        Raises:
            SourceRangeLostError: SOURCE_RANGE_LOST: records between the last epoch and now are gone.
        """
        starts = {p: self._begun(p, start) for p, start in starts.items()}
        lost = {p: _beyond(start, ends[p]) for p, start in starts.items() if ends[p] < start}
        now = self._monotonic()
        if self._checked_s is None or now - self._checked_s >= _CHECKED_EVERY_S:
            first = self._start_offsets([p for p in starts if p not in lost])
            lost |= {p: _before(starts[p], offset) for p, offset in first.items() if starts[p] < offset}
            self._checked_s = now
        if not lost:
            return dict(starts)
        self._refuse(lost)
        first_offsets = self._first_offsets(list(lost))
        for partition, why in lost.items():
            self._pass_over(partition, why, first_offsets[partition])
            self._replaced[partition] = starts[partition], first_offsets[partition]
        return {**starts, **first_offsets}

    def _begun(self, partition: TopicPartition, start: int) -> int:
        """Where a partition goes on: what replaced its start holds until an epoch record says so."""
        before, now = self._replaced.get(partition, (start, start))
        if start != before:
            self._replaced.pop(partition, None)
            return start
        return now

    @property
    def passed_over(self) -> int:
        """Offsets that are skipped and of which no epoch record says so yet."""
        return sum(max(0, now - before) for before, now in self._replaced.values())

    def recorded(self, record: EpochRecord) -> None:
        """An epoch record says from now on where partitions go on."""
        for topic, partitions in record.ranges.items():
            for partition in partitions:
                self._replaced.pop(TopicPartition(topic, partition), None)

    def open_epoch(self, record: EpochRecord) -> int:
        """Check what an epoch reads that an earlier run left open. What is gone of it is skipped if it may be.

        Returns:
            How many offsets that are.

        Raises:
            SourceRangeLostError: SOURCE_RANGE_LOST.
        """
        ranges = {
            TopicPartition(topic, partition): between
            for topic, partitions in record.ranges.items()
            for partition, between in partitions.items()
            if between[1] > between[0]
        }
        first = self._start_offsets(list(ranges))
        lost = {p: _before(start, first[p]) for p, (start, _) in ranges.items() if start < first[p]}
        self._refuse(lost)
        gone = 0
        for partition, why in lost.items():
            start, end = ranges[partition]
            self._pass_over(partition, why, min(first[partition], end))
            gone += min(first[partition], end) - start
        return gone

    def _refuse(self, lost: Mapping[TopicPartition, str]) -> None:
        for partition, why in lost.items():
            if partition.topic in self._internal:
                raise SourceRangeLostError(
                    "SOURCE_RANGE_LOST",
                    f"{why}. It is an internal topic, from which only rows are deleted that were read: the checkpoint "
                    "is an older copy than what was read. Restore the newest copy, or start over with `hayase app "
                    "reset`",
                    topic=partition.topic,
                    partition=partition.partition,
                )
        if lost and self._on_lost == "fail":
            partition, why = next(iter(lost.items()))
            raise SourceRangeLostError(
                "SOURCE_RANGE_LOST", f"{why}. {_WAYS_OUT}", topic=partition.topic, partition=partition.partition
            )

    @staticmethod
    def _pass_over(partition: TopicPartition, why: str, now: int) -> None:
        _LOG.warning(
            "%s; going on at offset %d", why, now, extra={"topic": partition.topic, "partition": partition.partition}
        )


def _beyond(start: int, end: int) -> str:
    return f"the application has read up to offset {start}, but the log ends at {end}: records were lost"


def _before(start: int, first: int) -> str:
    return (
        f"the application goes on at offset {start}, but the log begins at {first}: retention or a deletion removed "
        f"{first - start} offsets that were not read"
    )
