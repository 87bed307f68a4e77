"""Partition counts: of tasks, of repartition topics, and what must be equal."""

from __future__ import annotations

from collections.abc import Mapping

from hayase.core.errors import TopologyError
from hayase.topology import operators as op
from hayase.topology.graph import SubTopology
from hayase.topology.nodes import ProcessorNode, SinkNode, SourceNode
from hayase.topology.topology import Topology

_BY_KEY = op.StreamTableJoin | op.TableJoin | op.ForeignKeyLookUp | op.ForeignKeyResolve
"""Operators that look up their `table` by the key of what comes."""


def upstream_sources(topology: Topology, node: str) -> list[SourceNode]:
    """The sources of its sub-topology that a node gets records from."""
    upstream: dict[str, SourceNode] = {}
    open_nodes = [node]
    while open_nodes:
        current = topology.by_name[open_nodes.pop()]
        if isinstance(current, SourceNode):
            upstream[current.name] = current
        open_nodes.extend(current.parents)
    return [n for n in topology.nodes if isinstance(n, SourceNode) and n.name in upstream]


def copartitioned(topology: Topology) -> list[list[SourceNode]]:
    """Groups of sources whose partition counts must be equal because a join looks up one side by the other's key."""
    groups = []
    for node in topology.nodes:
        if not isinstance(node, ProcessorNode):
            continue
        other = _looked_up(node.operator)
        if other is not None:
            left = [source for parent in node.parents for source in upstream_sources(topology, parent)]
            right = upstream_sources(topology, other)
            groups.append(list({source.name: source for source in [*left, *right]}.values()))
    return groups


def _looked_up(operator: op.Operator) -> str | None:
    """The node whose store a join looks up by the key of what it gets."""
    if isinstance(operator, op.StreamStreamJoin):
        return operator.other_window
    if isinstance(operator, op.StreamSelfJoin):
        return operator.window
    return operator.table if isinstance(operator, _BY_KEY) else None


def partition_counts(topology: Topology, topics: Mapping[str, int]) -> dict[str, int]:
    """Partition count of every repartition, and of every internal topic that is not among `topics`.

    As given, else that of what it is joined with, else the largest upstream, else 1: a Spark DataFrame is upstream.

    Raises:
        TopologyError: PARTITIONS_DIFFER, naming the topics and their counts.
    """
    wanted = {name: repartition.partitions for name, repartition in topology.repartitions.items()}
    wanted |= {name: topic.partitions for name, topic in topology.internal_topics.items() if name not in topics}
    counts = {name: partitions for name, partitions in wanted.items() if partitions is not None}
    pending = [name for name in wanted if name not in counts]
    groups = copartitioned(topology)
    joined_only = True  # at first, of those that are joined: their partners may get theirs by and by
    while pending:
        progressed = False
        for name in list(pending):
            count = _joined_count(name, groups, {**topics, **counts})
            if count is None and not (joined_only and _is_joined(name, groups)):
                count = _upstream_count(topology, name, topics, counts)
            if count is not None:
                counts[name] = count
                pending.remove(name)
                progressed = True
        if not progressed and joined_only:
            joined_only = False
        elif not progressed:
            raise TopologyError(
                "NO_PARTITION_COUNT",
                f"the partition counts of {pending} depend on each other; give one with Repartitioned",
            )
    _check(groups, topics, counts)
    return counts


def _joined_count(name: str, groups: list[list[SourceNode]], known: Mapping[str, int]) -> int | None:
    for group in groups:
        if any(name in source.topics for source in group):
            there = [known[topic] for source in group for topic in source.topics if topic in known]
            if there:
                return max(there)
    return None


def _is_joined(name: str, groups: list[list[SourceNode]]) -> bool:
    return any(name in source.topics for group in groups for source in group)


def _upstream_count(topology: Topology, name: str, topics: Mapping[str, int], counts: Mapping[str, int]) -> int | None:
    known = {**topics, **counts}
    upstream = [
        topic
        for sink in topology.nodes
        if isinstance(sink, SinkNode) and sink.topic == name
        for source in upstream_sources(topology, sink.name)
        for topic in source.topics
    ]
    if any(topic not in known for topic in upstream):
        return None
    return max((known[topic] for topic in upstream), default=1)


def _check(groups: list[list[SourceNode]], topics: Mapping[str, int], counts: Mapping[str, int]) -> None:
    known = {**topics, **counts}
    for group in groups:
        count_of = {topic: known[topic] for source in group for topic in source.topics}
        if len(set(count_of.values())) > 1:
            listed = ", ".join(f"{topic} has {count}" for topic, count in sorted(count_of.items()))
            raise TopologyError(
                "PARTITIONS_DIFFER",
                f"topics that are joined by key must have the same number of partitions, but {listed}; "
                "make the topics alike, or repartition one side",
            )


def task_count(sub: SubTopology, topics: Mapping[str, int], counts: Mapping[str, int]) -> int:
    """Number of tasks of a sub-topology: the largest partition count among its sources."""
    known = {**topics, **counts}
    return max((known[topic] for source in sub.sources for topic in source.topics), default=0)
