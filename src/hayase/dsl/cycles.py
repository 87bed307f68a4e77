"""Repartitions that lead back to where their records come from.

A repartition is a shuffle inside the epoch, and the tasks behind it run after those before it. Where a table is grouped
and the result is joined with that same table, or two tables are joined by foreign keys both ways, there is no such
order. One of the repartitions is an internal topic then: written in one epoch, read in a later one, as all of them are
in Kafka Streams.
"""

from __future__ import annotations

import dataclasses

from hayase.compiler.serdes import LocalPickleSerde, without_pickle
from hayase.processor.timestamps import record_timestamp
from hayase.topology.defaults import DefaultSerde
from hayase.topology.nodes import InternalTopic, Node, SinkNode, SourceNode
from hayase.topology.topology import Topology


def without_cycles(topology: Topology) -> Topology:
    """The topology with an internal topic for each repartition that closes a cycle, in the order of their addition."""
    if not topology.repartitions:
        return topology
    place = {node.name: sub.id for sub in topology.subtopologies for node in sub.nodes}
    edges: dict[int, set[int]] = {}
    closing: set[str] = set()
    for topic in topology.repartitions:
        before = {place[n.name] for n in topology.nodes if isinstance(n, SinkNode) and n.topic == topic}
        after = {place[n.name] for n in topology.nodes if isinstance(n, SourceNode) and topic in n.topics}
        if any(_leads(edges, earlier, other) for earlier in after for other in before):
            closing.add(topic)
            continue
        for earlier in before:
            edges.setdefault(earlier, set()).update(after)
    if not closing:
        return topology
    internal = {name: InternalTopic(name, topology.repartitions[name].partitions) for name in closing}
    return dataclasses.replace(
        topology,
        nodes=tuple(_through_a_topic(node, closing) for node in topology.nodes),
        repartitions={name: kept for name, kept in topology.repartitions.items() if name not in closing},
        internal_topics={**topology.internal_topics, **dict(sorted(internal.items()))},
    )


def _leads(edges: dict[int, set[int]], start: int, end: int) -> bool:
    seen: set[int] = set()
    pending = [start]
    while pending:
        current = pending.pop()
        if current == end:
            return True
        if current not in seen:
            seen.add(current)
            pending.extend(edges.get(current, ()))
    return False


def _through_a_topic(node: Node, topics: set[str]) -> Node:
    """Both ends of a topic need serdes that are known, which a shuffle finds by itself."""
    match node:
        case SinkNode() if node.topic in topics:
            key = node.key_serde or DefaultSerde("key", None, node.topic or "")
            value = without_pickle(node.value_serde or LocalPickleSerde())
            return dataclasses.replace(node, key_serde=key, value_serde=value)
        case SourceNode() if topics & set(node.topics):
            key = node.key_serde or DefaultSerde("key", None, node.first_topic)
            value = without_pickle(node.value_serde or LocalPickleSerde())
            return dataclasses.replace(node, key_serde=key, value_serde=value, timestamp_extractor=record_timestamp())
    return node
