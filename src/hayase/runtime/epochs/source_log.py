"""What the planner of epochs asks the log about its sources: `LogWatch` has asked most of it a moment ago."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hayase.core.records import TopicPartition
from hayase.log.protocol import Log
from hayase.runtime.epochs.log_watch import LogWatch
from hayase.runtime.epochs.source_checks import check_topics
from hayase.runtime.epochs.start_offsets import Offsets
from hayase.task.epoch_record import EpochRecord


class SourceLog:
    """Topics, starts and ends of what one topology reads.

    Args:
        log: asked for what `watch` does not know.
        watch: of a shared runtime; `None`: the log is asked each time.
    """

    def __init__(self, log: Log, watch: LogWatch | None = None) -> None:
        self._log = log
        self._watch = watch

    def topic_ids(self, topics: Mapping[str, int], previous: EpochRecord | None) -> dict[str, str]:
        """See `check_topics`: what it says is as of the last second."""
        known = self._watch.known_topics(topics) if self._watch is not None else None
        return check_topics(self._log.describe(list(topics)) if known is None else known, topics, previous)

    def start_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """As `Log.start_offsets`, as of the last second."""
        known = self._watch.known_starts(partitions) if self._watch is not None else None
        return self._log.start_offsets(partitions) if known is None else known

    def end_offsets(self, starts: Offsets, *, latest: bool) -> dict[TopicPartition, int]:
        """Ends of the partitions that are read on from `starts`, all as of one moment.

        Args:
            starts: where the topology goes on. An end before that is either older than what the topology has read, or
                tells that records were lost: then the log is asked.
            latest: ask the log: what has become visible by now counts. Else the ends are those of the last look, and
                the topology's `Watch` is set when there are others.
        """
        known = self._watch.known_ends(list(starts)) if self._watch is not None and not latest else None
        if known is None or any(known[partition] < start for partition, start in starts.items()):
            return self._log.end_offsets(list(starts))
        return known
