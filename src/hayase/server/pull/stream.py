"""Pull queries of streams: all their records up to the ends that the topic has now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

from hayase.core.records import TopicPartition
from hayase.log.protocol import LogReader, RecordBatch
from hayase.server.local_run.run import LocalRun
from hayase.server.local_run.tails import LogTails
from hayase.topology.topology import Topology

EPOCH_RECORDS = 2_000


def stream_values(
    topology: Topology, settings: dict[str, object], tails: LogTails, partitions_of: Callable[[str], int]
) -> Iterator[list[bytes]]:
    """What a topology makes of its topics' records, from the first one to the ends that there are now.

    Args:
        topology: without state.
        settings: of Hayase.
        tails: of the log.
        partitions_of: how many partitions a topic has.

    Raises:
        HayaseError: the records cannot be read or processed.
    """
    with closing(LocalRun(topology, settings, partitions_of)) as run, closing(tails.log.reader()) as reader:
        partitions = tails.partitions(run.source_topics)
        ends = tails.log.end_offsets(partitions)
        starts = tails.log.start_offsets(partitions)
        for partition in partitions:
            for batch in _fetched(reader, partition, starts[partition], ends[partition]):
                values = [value for written in run.run([batch]) for value in written.values if value is not None]
                if values:
                    yield values


def _fetched(reader: LogReader, partition: TopicPartition, start: int, end: int) -> Iterator[RecordBatch]:
    """The records of a partition, in parts that are small enough to show rows soon."""
    if start >= end:
        return
    for batch in reader.fetch(partition, start, end):
        for first in range(0, len(batch), EPOCH_RECORDS):
            if len(batch) <= EPOCH_RECORDS:
                yield batch
            else:
                yield batch.take(range(first, min(first + EPOCH_RECORDS, len(batch))))
