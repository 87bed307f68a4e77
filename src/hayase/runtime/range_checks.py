"""Whether the log still holds what an epoch is to go on with."""

from __future__ import annotations

from collections.abc import Mapping

from hayase.core.errors import SourceRangeLostError
from hayase.log.protocol import Log
from hayase.runtime.ranges import Offsets
from hayase.task.epoch_record import EpochRecord
from hayase.task.plan import partitions_changed


def check_topics(log: Log, topics: Mapping[str, int], previous: EpochRecord | None) -> dict[str, str]:
    """The ids of the topics, which are still those that the epoch before read.

    Args:
        log: where they are.
        topics: names, and the partitions of the plan.
        previous: the epoch before.

    Raises:
        SourceRangeLostError: SOURCE_RANGE_LOST: a topic is gone, or another one with the same name.
        TopologyError: PARTITIONS_CHANGED.
    """
    infos = log.describe(list(topics))
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
                f"topic {topic!r} was deleted and made anew, so offsets mean other records now; start over with "
                "`hayase app reset`",
                topic=topic,
            )
        if info.partitions != count:
            raise partitions_changed(topic, count, info.partitions)
    return {topic: info.topic_id for topic, info in infos.items()}


def check_ends(starts: Offsets, ends: Offsets) -> None:
    """No partition ends before the place that was read up to.

    Raises:
        SourceRangeLostError: SOURCE_RANGE_LOST: one does.
    """
    for partition, start in starts.items():
        if ends[partition] < start:
            raise SourceRangeLostError(
                "SOURCE_RANGE_LOST",
                f"the application has read up to offset {start}, but the log ends at {ends[partition]}: "
                "records were lost; start over with `hayase app reset`",
                topic=partition.topic,
                partition=partition.partition,
            )
