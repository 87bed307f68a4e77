"""What the suppliers of aggregates and sagas have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hayase.topology.topology import Topology

if TYPE_CHECKING:
    from hayase.core.config import StreamsConfig


class TopicCreatingSupplier:
    """Supplier of processors whose topics have settings of their own (`hayase.app.topics.CreatesTopics`)."""

    @staticmethod
    def create_topics(topology: Topology, config: StreamsConfig) -> None:
        """See `hayase.patterns.app.create_topics`."""
        from hayase.patterns.app import create_topics  # which imports the suppliers

        create_topics(topology, config)
