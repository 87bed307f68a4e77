"""Where the input of topologies ends at one moment: a run to the end of several reads no further."""

from __future__ import annotations

from collections.abc import Collection

from hayase.compiler.build import source_topics
from hayase.core.records import TopicPartition
from hayase.log.protocol import Log
from hayase.runtime.wire.topology_list import InputEnds
from hayase.topology.nodes import SourceNode
from hayase.topology.topology import Topology


def ends_now(log: Log, topologies: Collection[Topology]) -> InputEnds:
    """The ends of all topics that topologies read, also by pattern, asked for at once; of those that are there."""
    names = {topic for topology in topologies for topic in source_topics(topology)}
    nodes = [node for topology in topologies for node in topology.nodes if isinstance(node, SourceNode)]
    patterns = [node.pattern for node in nodes if node.pattern is not None]
    if patterns:
        names |= {topic for topic in log.topics() if any(pattern.fullmatch(topic) for pattern in patterns)}
    infos = log.describe(sorted(names))
    ends = log.end_offsets([TopicPartition(name, n) for name, info in infos.items() for n in range(info.partitions)])
    return {name: [ends[TopicPartition(name, n)] for n in range(info.partitions)] for name, info in infos.items()}
