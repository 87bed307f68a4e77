"""How far a state has read its topics, and how far a query wants it to be (KIP-796)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hayase.task.epoch_record import EpochRecord


@dataclass(frozen=True, slots=True)
class Position:
    """Topic → partition → offset of the last record taken into account. Immutable.

    Positions of one application are comparable whatever store they came from: a state is always that after a whole
    epoch, and an epoch covers all topics that the application reads. So the position of an answer, given to the next
    query as a bound, makes that query see everything the first one saw, in any store.

    Example:
        >>> seen = Position.empty().with_component("orders", 0, 41)
        >>> later = seen.with_component("orders", 1, 7)
        >>> later.offset("orders", 0), later.covers(seen), seen.covers(later)
        (41, True, False)
    """

    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    @staticmethod
    def empty() -> Position:
        """The position before any record: no topic, no offset."""
        return Position()

    def with_component(self, topic: str, partition: int, offset: int) -> Position:
        """A copy with another offset, which replaces the one that is there."""
        return Position({**self.offsets, topic: {**self.offsets.get(topic, {}), partition: offset}})

    def merge(self, other: Position) -> Position:
        """The farther offset of each partition of both."""
        merged = {topic: dict(partitions) for topic, partitions in self.offsets.items()}
        for topic, partitions in other.offsets.items():
            here = merged.setdefault(topic, {})
            for partition, offset in partitions.items():
                here[partition] = max(here.get(partition, offset), offset)
        return Position(merged)

    def offset(self, topic: str, partition: int) -> int | None:
        """The last offset of a partition; `None` if none of its records was read."""
        return self.offsets.get(topic, {}).get(partition)

    def covers(self, other: Position) -> bool:
        """Whether it is as far as `other` in every partition that `other` names."""
        for topic, partitions in other.offsets.items():
            for partition, offset in partitions.items():
                known = self.offset(topic, partition)
                if known is None or known < offset:
                    return False
        return True


@dataclass(frozen=True, slots=True)
class PositionBound:
    """The least position that a state must have for a query to be answered.

    Example:
        >>> PositionBound.at(Position.empty().with_component("orders", 0, 41)).is_met_by(Position.empty())
        False
        >>> PositionBound.unbounded().is_met_by(Position.empty())
        True
    """

    position: Position

    @staticmethod
    def unbounded() -> PositionBound:
        """The bound that every state meets."""
        return PositionBound(Position.empty())

    @staticmethod
    def at(position: Position) -> PositionBound:
        """The bound that states at `position`, or beyond it, meet."""
        return PositionBound(position)

    def is_met_by(self, position: Position) -> bool:
        """Whether a state at that position may answer."""
        return position.covers(self.position)


def position_of(record: EpochRecord | None) -> Position:
    """The position after an epoch; empty if there is no record of it, before the first epoch."""
    if record is None:
        return Position.empty()
    read = {
        topic: {partition: end - 1 for partition, (_, end) in partitions.items() if end > 0}
        for topic, partitions in record.ranges.items()
    }
    return Position({topic: offsets for topic, offsets in read.items() if offsets})
