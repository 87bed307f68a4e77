"""Records of internal topics that no epoch has read yet, where the next program would lose or misread them."""

from __future__ import annotations

from collections.abc import Collection

from hayase.core.errors import CheckpointError
from hayase.core.records import TopicPartition
from hayase.log.protocol import Log
from hayase.task.epoch_record import EpochRecord

DRAIN_TIMEOUT_S = 60.0
"""How long the program of before may take to read them."""


def unread(log: Log, record: EpochRecord | None, topic: str, partitions: int, *, is_open: bool = False) -> int:
    """How many records of an internal topic no epoch that is done has read; -1: it may become some any moment.

    Args:
        log: the log.
        record: of the last epoch.
        topic: the topic.
        partitions: how many it has.
        is_open: whether that epoch is not done.
    """
    read = record.ranges.get(topic, {}) if record is not None else {}
    all_of_it = [TopicPartition(topic, number) for number in range(partitions)]
    unfinished = log.unfinished(all_of_it)  # asked first: what it commits is seen in the ends
    ends = log.end_offsets(all_of_it)
    count = sum(max(0, end - read.get(each.partition, (0, 0))[0 if is_open else 1]) for each, end in ends.items())
    return count or (-1 if unfinished else 0)


def check_read(
    log: Log, record: EpochRecord | None, topic: str, partitions: int, why: str, *, is_open: bool = False
) -> None:
    """Check that an internal topic holds nothing that the next program would lose or misread.

    Args:
        log: the log.
        record: of the last epoch.
        topic: the topic.
        partitions: how many it has.
        why: what the next program would do with its records.
        is_open: whether the last epoch is not done.

    Raises:
        CheckpointError: `UNREAD_INTERNAL_RECORDS`.
    """
    count = unread(log, record, topic, partitions, is_open=is_open)
    if count:
        held = f"{count} records" if count > 0 else "records of a transaction that is not through"
        raise CheckpointError(
            "UNREAD_INTERNAL_RECORDS",
            f"topic {topic!r} holds {held} that the program before has written and not read yet, and {why}. The start "
            "has that program read them where the checkpoint has it, which is not so here. Run the old program to the "
            "end of its input once more (`hayase run --to-end`), then this one; or start over with `hayase app reset`",
            topic=topic,
        )


def not_drained(topics: Collection[str]) -> CheckpointError:
    """`UNREAD_INTERNAL_RECORDS`: the program of before has not emptied them in time."""
    return CheckpointError(
        "UNREAD_INTERNAL_RECORDS",
        f"the program before did not empty {', '.join(map(repr, sorted(topics)))} within {DRAIN_TIMEOUT_S:g} s, and "
        "this one would lose or misread what is left there. What it has read stays read: start again to go on, or run "
        "the old program to the end of its input first (`hayase run --to-end`); or start over with `hayase app reset`",
    )
