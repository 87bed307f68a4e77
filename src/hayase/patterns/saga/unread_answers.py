"""Answers that an earlier program has not read when an aggregate moves into the topology of its saga.

From then on the aggregate answers at once, and nothing reads the answers in its topics any more.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from hayase.core.config import StreamsConfig
from hayase.core.errors import StateError, TopologyError
from hayase.core.records import TopicPartition
from hayase.log.protocol import Log
from hayase.patterns.saga.saga import Saga
from hayase.query.checkpoint import open_checkpoint


def unread_answers(log: Log, config: StreamsConfig, saga: Saga[Any], reads: Collection[str]) -> dict[str, int]:
    """Offsets that the program before has not read of answers that this one does not read, by topic.

    Args:
        log: of the topics.
        config: of the application, whose checkpoint says how far it has read.
        saga: of the program.
        reads: topics that its topology reads.
    """
    try:
        epochs = open_checkpoint(config).epochs
    except StateError:  # it never started
        return {}
    read = epochs.positions(epochs.last_done())
    if read is None:
        return {}
    unread: dict[str, int] = {}
    for target in saga.targets:
        # Only a saga in another topology than the aggregate reads its replies.
        if target.replies_topic in reads or target.replies_topic not in read.ranges:
            continue
        for topic in (target.replies_topic, target.events_topic):
            ends = {TopicPartition(topic, number): end for number, (_, end) in read.ranges.get(topic, {}).items()}
            left = sum(max(0, end - ends[place]) for place, end in log.end_offsets([*ends]).items())
            if left:
                unread[topic] = left
    return unread


def refuse_unread(saga: str, unread: dict[str, int]) -> None:
    """Refuse a program that would not read answers to open sagas.

    Raises:
        TopologyError: `ANSWERS_UNREAD`.
    """
    if unread:
        topics = ", ".join(f"{count} offsets of {topic!r}" for topic, count in unread.items())
        raise TopologyError(
            "ANSWERS_UNREAD",
            f"saga {saga!r} has open sagas, and aggregates that answered it by their topics are in its topology now: "
            f"{topics} are not read yet, and this program would not read them. Run the program before to the end of "
            "its topics (`run_to_end`), or until no saga is open (`hayase saga list`), then start this one",
        )
