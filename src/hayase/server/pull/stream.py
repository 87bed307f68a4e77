"""Pull queries of streams: all their records up to the ends that the topic has now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

from hayase.server.local_run.epoch_size import EpochSize, parts_of, size_of
from hayase.server.local_run.run import LocalRun
from hayase.server.local_run.tails import LogTails
from hayase.topology.topology import Topology


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
        size = EpochSize()
        for partition in partitions:
            for batch in reader.fetch(partition, starts[partition], ends[partition]):
                for part in parts_of([batch], size):
                    size.begin()
                    written = run.run(part)
                    size.note(size_of(part), written)
                    values = [value for each in written for value in each.values if value is not None]
                    if values:
                        yield values
