"""Where topics are begun for which there is no position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hayase.core.errors import TopologyError
from hayase.core.offset_reset import AutoOffsetReset
from hayase.core.records import TopicPartition
from hayase.log.protocol import Log

_EARLIEST = AutoOffsetReset.earliest()


def check_resets(resets: Mapping[str, AutoOffsetReset]) -> None:
    """Refuse to begin topics that are to be read from a stored position only.

    Raises:
        TopologyError: `NO_POSITION`.
    """
    for topic, reset in resets.items():
        if reset.kind == "none":
            raise TopologyError(
                "NO_POSITION",
                f"the application has no position in topic {topic!r}, and may not choose one: its reset is none. Start it on the "
                "checkpoint that has the position (checkpoint.dir), or say where to begin by auto.offset.reset or "
                "Consumed.with_offset_reset_policy: earliest, latest or by_duration",
                topic=topic,
            )


def first_offsets(
    log: Log, partitions: Sequence[TopicPartition], resets: Mapping[str, AutoOffsetReset], now_ms: int
) -> dict[TopicPartition, int]:
    """Where partitions are begun that have no position; by duration before now.

    Raises:
        TopologyError: `NO_POSITION`.
    """
    found = {partition: resets.get(partition.topic, _EARLIEST) for partition in partitions}
    check_resets({partition.topic: reset for partition, reset in found.items()})
    starts = log.start_offsets([p for p, reset in found.items() if reset.kind == "earliest"])
    if latest := [p for p, reset in found.items() if reset.kind == "latest"]:
        starts |= log.end_offsets(latest)
    times = {p: max(now_ms - reset.duration_ms, 0) for p, reset in found.items() if reset.duration_ms is not None}
    return starts | (log.offsets_for_time(times) if times else {})
