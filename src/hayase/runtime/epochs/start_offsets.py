"""Where topics are begun for which there is no position."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

import msgspec

from hayase.core.decoding import decode_json
from hayase.core.errors import CheckpointError, TopologyError
from hayase.core.offset_reset import AutoOffsetReset
from hayase.core.records import TopicPartition
from hayase.core.time import Clock
from hayase.log.protocol import Log, TopicInfo
from hayase.storage.blobs import BlobStore
from hayase.storage.checksum import with_checksum, without_checksum
from hayase.task.epoch_record import EpochRecord
from hayase.task.plan import partitions_changed

Offsets = Mapping[TopicPartition, int]
"""An offset of each partition."""

_EARLIEST = AutoOffsetReset.earliest()
POSITIONS_FOLDER = "positions/"


class Position(msgspec.Struct, frozen=True):
    """Where a topic is begun, as of the moment it was first seen.

    Attributes:
        topic: its name.
        offsets: partition → first offset to read.
    """

    topic: str
    offsets: dict[int, int]


def check_resets(resets: Mapping[str, AutoOffsetReset]) -> None:
    """Refuse to begin topics that are to be read from a stored position only.

    Raises:
        TopologyError: `NO_POSITION`.
    """
    for topic, reset in resets.items():
        if reset.kind == "none":
            raise TopologyError(
                "NO_POSITION",
                f"the application has no position in topic {topic!r}, and may not choose one: its reset is none. "
                "Start it on the checkpoint that has the position (checkpoint.dir), or say where to begin by "
                "auto.offset.reset or Consumed.with_offset_reset_policy: earliest, latest or by_duration",
                topic=topic,
            )


def moves(reset: AutoOffsetReset) -> bool:
    """Whether the place to begin is another one the later it is asked for."""
    return reset.kind in ("latest", "by_duration")


def first_offsets(
    log: Log, partitions: Sequence[TopicPartition], resets: Mapping[str, AutoOffsetReset], now_ms: int
) -> dict[TopicPartition, int]:
    """Where partitions are begun that have no position; by duration before now.

    Raises:
        TopologyError: `NO_POSITION`.
    """
    reset_of = {partition: resets.get(partition.topic, _EARLIEST) for partition in partitions}
    check_resets({partition.topic: reset for partition, reset in reset_of.items()})
    starts = log.start_offsets([p for p, reset in reset_of.items() if reset.kind == "earliest"])
    if latest := [p for p, reset in reset_of.items() if reset.kind == "latest"]:
        starts |= log.end_offsets(latest)
    times = {p: max(now_ms - reset.duration_ms, 0) for p, reset in reset_of.items() if reset.duration_ms is not None}
    return starts | (log.offsets_for_time(times) if times else {})


def record_positions(
    blobs: BlobStore, log: Log, topics: Iterable[TopicInfo], resets: Mapping[str, AutoOffsetReset], now_ms: int
) -> None:
    """Keep where topics are begun whose place to begin moves on, unless that was kept before.

    What arrives between the moment a topic is first seen and the first epoch that reads it is not skipped then.
    """
    for info in topics:
        name = _name(info.topic_id)
        if not moves(resets.get(info.name, _EARLIEST)) or blobs.exists(name):
            continue
        partitions = [TopicPartition(info.name, number) for number in range(info.partitions)]
        offsets = {p.partition: offset for p, offset in first_offsets(log, partitions, resets, now_ms).items()}
        blobs.put_if_absent(name, with_checksum(msgspec.json.encode(Position(info.name, offsets))))


class StartOffsets:
    """Where the epochs of a run begin.

    Args:
        log: the log.
        blobs: the checkpoint.
        topics: source topics with their partition counts.
        resets: where topics without a position begin; `earliest` if none is given.
        clock: the wall clock.
    """

    def __init__(
        self,
        log: Log,
        blobs: BlobStore,
        topics: Mapping[str, int],
        resets: Mapping[str, AutoOffsetReset],
        clock: Clock,
    ) -> None:
        self._log = log
        self._blobs = blobs
        self._topics = topics
        self._resets = resets
        self._clock = clock
        self._move = any(map(moves, resets.values()))

    def unrecorded(self, previous: EpochRecord | None) -> bool:
        """Whether there is a topic without a position whose place to begin moves on."""
        known = previous.ranges if previous is not None else {}
        return self._move and any(
            topic not in known and moves(self._resets.get(topic, _EARLIEST)) for topic in self._topics
        )

    def after(self, previous: EpochRecord | None) -> dict[TopicPartition, int]:
        """Where the epoch before ended; topics that a pattern matches since then are begun as at a first start.

        Raises:
            TopologyError: `PARTITIONS_CHANGED`, `NO_POSITION`.
        """
        starts: dict[TopicPartition, int] = {}
        new: list[TopicPartition] = []
        for topic, count in self._topics.items():
            before = previous.ranges.get(topic) if previous is not None else None
            for partition in (TopicPartition(topic, number) for number in range(count)):
                if before is None:
                    new.append(partition)
                elif partition.partition not in before:
                    raise partitions_changed(topic, len(before), count)
                else:
                    starts[partition] = before[partition.partition][1]
        return starts | self._begin(new) if new else starts

    def first(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Where partitions begin that have no position, as of now.

        Raises:
            TopologyError: `NO_POSITION`.
        """
        return first_offsets(self._log, partitions, self._resets, self._clock.now_ms())

    def _begin(self, new: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Where they did when their topic was first seen, else where they do now."""
        kept = recorded_offsets(self._blobs, self._log, new) if self._move else {}
        return kept | self.first([partition for partition in new if partition not in kept])


def former_positions(
    previous: EpochRecord | None, former_topics: Container[str]
) -> tuple[dict[str, dict[int, tuple[int, int]]], dict[str, str]]:
    """Where topics of earlier plans would go on, as empty ranges, and the topics' ids."""
    if previous is None:
        return {}, {}
    kept = {topic: ranges for topic, ranges in previous.ranges.items() if topic in former_topics}
    ids = {topic: previous.topic_ids[topic] for topic in kept if topic in previous.topic_ids}
    return {t: {number: (end, end) for number, (_, end) in parts.items()} for t, parts in kept.items()}, ids


def recorded_offsets(blobs: BlobStore, log: Log, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """What `record_positions` kept of those partitions."""
    if not partitions or not blobs.list(POSITIONS_FOLDER):
        return {}
    recorded: dict[TopicPartition, int] = {}
    for info in log.describe(sorted({p.topic for p in partitions})).values():
        name = _name(info.topic_id)
        data = blobs.get(name)
        if data is not None:
            kept = _decoded(name, data)
            recorded |= {TopicPartition(info.name, number): offset for number, offset in kept.offsets.items()}
    return {p: recorded[p] for p in partitions if p in recorded}


def _decoded(name: str, data: bytes) -> Position:
    body = without_checksum(data)
    if body is None:
        raise CheckpointError(
            "POSITION_CORRUPT",
            f"{name} in the checkpoint, which says where a topic is begun, is damaged ({len(data)} bytes, wrong "
            "checksum). Restore the checkpoint from a copy, or start over with `hayase app reset`",
        )
    return decode_json(body, as_type=Position)


def forget_positions(blobs: BlobStore, topic_ids: Iterable[str]) -> None:
    """Delete what is kept for topics that an epoch record has a position of."""
    kept = set(blobs.list(POSITIONS_FOLDER))
    for name in map(_name, topic_ids):
        if name in kept:
            blobs.delete(name)


def _name(topic_id: str) -> str:
    """The blob with the position of a topic. Ids of Kafka are in Base64, whose `/` would be a folder's."""
    return f"{POSITIONS_FOLDER}{topic_id.replace('/', '_')}"
