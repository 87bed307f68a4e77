"""The topics that statements know of."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Protocol

from hayase.sql.errors import StatementError


class TopicAdmin(Protocol):
    """Creates and deletes topics, and knows how many partitions they have."""

    def names(self) -> Collection[str]:
        """All topics."""
        ...

    def partitions(self, topic: str) -> int | None:
        """The number of partitions; `None`: there is no such topic."""
        ...

    def replicas(self, topic: str) -> int:
        """The number of copies of each partition of a topic that is there."""
        ...

    def create(self, topic: str, partitions: int, replicas: int) -> None:
        """Create a topic."""
        ...

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        ...


@dataclass
class MemoryTopics:
    """Topics in memory only, for tests and checks.

    Attributes:
        known: partitions and replicas of each topic.
        partitions_by_default: of a topic that a CREATE STREAM or TABLE names and that is not there; `None`: that is an
            error.
    """

    known: dict[str, tuple[int, int]] = field(default_factory=dict)
    partitions_by_default: int | None = None

    def names(self) -> Collection[str]:
        """See `TopicAdmin.names`."""
        return self.known.keys()

    def partitions(self, topic: str) -> int | None:
        """See `TopicAdmin.partitions`."""
        found = self.known.get(topic)
        return self.partitions_by_default if found is None else found[0]

    def replicas(self, topic: str) -> int:
        """See `TopicAdmin.replicas`."""
        return self.known.get(topic, (1, 1))[1]

    def create(self, topic: str, partitions: int, replicas: int) -> None:
        """See `TopicAdmin.create`."""
        self.known[topic] = (partitions, replicas)

    def delete(self, topic: str) -> None:
        """See `TopicAdmin.delete`."""
        self.known.pop(topic, None)


def existing_or_new(
    topics: TopicAdmin, topic: str, partitions: int | None, replicas: int | None, kind: str
) -> tuple[str, int, int] | None:
    """The topic of a CREATE STREAM or TABLE: to be created if it is not there.

    Raises:
        StatementError: it is not there, and no number of partitions was given.
    """
    if topics.partitions(topic) is not None:
        return None
    if partitions is None:
        raise StatementError(
            "UNKNOWN_TOPIC",
            f"Topic '{topic}' does not exist. If you want to create a new topic for the {kind} please re-run the "
            "statement providing the required 'PARTITIONS' configuration in the WITH clause (and optionally "
            "'REPLICAS')",
        )
    return topic, partitions, replicas or 1
