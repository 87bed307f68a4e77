"""What of a topology only an application knows: the names of its internal topics, and which topics a pattern means."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable

from hayase.core.errors import TopologyError, UnknownTopicError
from hayase.topology.nodes import Node, SinkNode, SourceNode
from hayase.topology.topology import Topology


def with_application_id(topology: Topology, application_id: str) -> Topology:
    """The topology with its internal topics under their names in the log: `<application.id>-<name>`."""
    names = {name: f"{application_id}-{name}" for name in topology.internal_topics}
    if not names:
        return topology

    def one(node: Node) -> Node:
        match node:
            case SourceNode():
                return dataclasses.replace(node, topics=tuple(names.get(topic, topic) for topic in node.topics))
            case SinkNode() if node.topic is not None:
                return dataclasses.replace(node, topic=names.get(node.topic, node.topic))
        return node

    return dataclasses.replace(
        topology,
        nodes=tuple(map(one, topology.nodes)),
        internal_topics={names[name]: topic for name, topic in topology.internal_topics.items()},
        spark_sources=tuple(dataclasses.replace(each, topic=names[each.topic]) for each in topology.spark_sources),
        connectors=tuple(dataclasses.replace(each, topic=names[each.topic]) for each in topology.connectors),
        spark_sinks=tuple(dataclasses.replace(each, topic=names[each.topic]) for each in topology.spark_sinks),
    )


def has_patterns(topology: Topology) -> bool:
    """Whether a source reads topics by pattern."""
    return any(isinstance(node, SourceNode) and node.pattern is not None for node in topology.nodes)


def resolve_patterns(topology: Topology, there: Iterable[str]) -> Topology:
    """The topology with the topics that its patterns match.

    Args:
        topology: with the names of its internal topics.
        there: topics that exist; internal ones, and those that begin with `__`, are never matched.

    Raises:
        UnknownTopicError: `UNKNOWN_TOPIC`: nothing matches a pattern.
        TopologyError: `TOPIC_READ_TWICE`: a topic would be read by two sources.
    """
    names = sorted(candidates(topology, there))

    def found(node: SourceNode, pattern: re.Pattern[str]) -> tuple[str, ...]:
        topics = tuple(name for name in names if pattern.fullmatch(name))
        if not topics:
            raise UnknownTopicError(
                "UNKNOWN_TOPIC",
                f"no topic matches the pattern {pattern.pattern!r} of source {node.name}; create one before the "
                "application starts",
            )
        return topics

    return with_pattern_topics(topology, found)


def candidates(topology: Topology, there: Iterable[str]) -> list[str]:
    """The topics that a pattern may match: not the internal ones, nor those that begin with `__`."""
    return [name for name in there if not name.startswith("__") and name not in topology.internal_topics]


def with_pattern_topics(
    topology: Topology, topics_of: Callable[[SourceNode, re.Pattern[str]], tuple[str, ...]]
) -> Topology:
    """The topology in which each source with a pattern reads the topics that `topics_of` gives for it.

    Raises:
        TopologyError: `TOPIC_READ_TWICE`.
    """
    nodes = tuple(
        dataclasses.replace(node, topics=topics_of(node, node.pattern))
        if isinstance(node, SourceNode) and node.pattern is not None
        else node
        for node in topology.nodes
    )
    readers: dict[str, str] = {}
    sources = [node for node in nodes if isinstance(node, SourceNode)]
    for source in [*sources, *(table.source for table in topology.global_tables)]:
        for topic in source.topics:
            other = readers.setdefault(topic, source.name)
            if other != source.name:
                raise TopologyError(
                    "TOPIC_READ_TWICE",
                    f"topic {topic!r} would be read by {other!r} and by {source.name!r}; a topic can be read once, so "
                    "make the pattern narrower",
                )
    return dataclasses.replace(topology, nodes=nodes)
