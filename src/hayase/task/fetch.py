"""Fetching the ranges of an epoch record."""

from __future__ import annotations

from collections.abc import Sequence

from hayase.core.records import TopicPartition
from hayase.log.protocol import LogReader
from hayase.task.epoch_record import EpochRecord
from hayase.task.plan import TaskPlan
from hayase.task.queues import RawRecords


def fetch_inputs(reader: LogReader, record: EpochRecord, task: TaskPlan) -> list[tuple[str, RawRecords]]:
    """Source node and records of every topic partition that the task reads in the epoch, in tie order.

    Empty ranges are left out.

    Raises:
        SourceRangeLostError: a range is no longer there.
    """
    found = []
    for source, topic, partition in task.topic_partitions:
        start, end = record.ranges.get(topic, {}).get(partition, (0, 0))
        if start < end:
            batches = list(reader.fetch(TopicPartition(topic, partition), start, end))
            raw = RawRecords.of(topic, partition, batches)
            if len(raw):
                found.append((source, raw))
    return found


def has_input(record: EpochRecord, tasks: Sequence[TaskPlan]) -> bool:
    """Whether any of the tasks reads something from the log in the epoch."""
    for task in tasks:
        for _, topic, partition in task.topic_partitions:
            start, end = record.ranges.get(topic, {}).get(partition, (0, 0))
            if start < end:
                return True
    return False
