"""Answers of foreign-key joins: the epoch after the one that wrote them reads them all.

A left row that changes while the answer that removes its result is under way drops that answer. The epoch that wrote
the answer sees to its own later changes (`hayase.kernel.foreign_key`); in the next epoch answers come before all other
records, which therefore change no left row before the answers are read. Which cases that leaves:
docs/decisions/20261121-answers-through-a-topic.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from hayase.core.records import TopicPartition
from hayase.log.protocol import Log
from hayase.topology.graph import TopologyGraph
from hayase.topology.nodes import ProcessorNode, SourceNode
from hayase.topology.operators import ForeignKeyResolve


def answer_topics(topology: TopologyGraph) -> frozenset[str]:
    """The internal topics with answers of inner foreign-key joins; a left join is answered at each update."""
    sources = {
        parent
        for node in topology.nodes
        if isinstance(node, ProcessorNode) and isinstance(node.operator, ForeignKeyResolve) and not node.operator.left
        for parent in node.parents
    }
    return frozenset(
        topic
        for node in topology.nodes
        if isinstance(node, SourceNode) and node.name in sources
        for topic in node.topics
    )


class Answers:
    """The partitions with answers of inner foreign-key joins.

    Args:
        partitions: those.
        log: asked for their ends.
    """

    def __init__(self, partitions: Sequence[TopicPartition], log: Log) -> None:
        self.partitions = partitions
        self._log = log

    def ends(self) -> dict[TopicPartition, int] | None:
        """Behind all that complete epochs wrote; `None` while some of that is committed but not visible yet.

        The log is asked: an earlier look at it may be older than the end of the last epoch.
        """
        if not self.partitions:
            return {}
        if self._log.unfinished(self.partitions):
            return None
        return self._log.end_offsets(self.partitions)
