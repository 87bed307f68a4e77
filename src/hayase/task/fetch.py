"""Fetching the ranges of an epoch record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hayase.core.records import TopicPartition
from hayase.log.protocol import LogReader, RecordBatch
from hayase.task.epoch_record import EpochRecord
from hayase.task.plan import TaskPlan


def fetch_inputs(reader: LogReader, record: EpochRecord, task: TaskPlan) -> list[tuple[str, Iterator[RecordBatch]]]:
    """Source node and records of every topic partition that the task reads in the epoch, in tie order.

    Empty ranges are left out. The records are fetched when they are asked for; that raises SourceRangeLostError if a
    range is no longer there.
    """
    inputs = []
    for source, topic, partition in task.topic_partitions:
        start, end = record.ranges.get(topic, {}).get(partition, (0, 0))
        if start < end:
            inputs.append((source, reader.fetch(TopicPartition(topic, partition), start, end)))
    return inputs


def has_input(record: EpochRecord, tasks: Sequence[TaskPlan]) -> bool:
    """Whether any of the tasks reads something from the log in the epoch."""
    for task in tasks:
        for _, topic, partition in task.topic_partitions:
            start, end = record.ranges.get(topic, {}).get(partition, (0, 0))
            if start < end:
                return True
    return False
