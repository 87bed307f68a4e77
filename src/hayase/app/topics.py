"""The topics of an application when it starts.

Those that patterns mean, and the internal and dead-letter ones, which it makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from hayase.compiler.build import check_sinks, check_sources, sink_topics, source_topics
from hayase.compiler.partitions import partition_counts
from hayase.core.config import StreamsConfig
from hayase.core.errors import TopologyError
from hayase.core.offset_reset import AutoOffsetReset
from hayase.core.records import TopicPartition
from hayase.log.protocol import Log, TopicInfo
from hayase.topology.nodes import ProcessorNode, SourceNode
from hayase.topology.operators import Process
from hayase.topology.resolve import has_patterns, resolve_patterns
from hayase.topology.topology import Topology

INTERNAL_TOPIC_CONFIG = {"cleanup.policy": "delete", "retention.ms": "-1"}
"""Kafka Streams' own: time removes nothing; processed records are deleted every `repartition.purge.interval.ms`."""


@runtime_checkable
class CreatesTopics(Protocol):
    """A supplier of processors that cannot do with topics of any settings: it makes and checks them."""

    @staticmethod
    def create_topics(topology: Topology, config: StreamsConfig) -> None:
        """Make the topics of all such processors of a topology that are not there, and check those that are."""
        ...


def create_topics_of_processors(topology: Topology, config: StreamsConfig) -> None:
    """Make the topics that processors of a topology need with settings of their own, e.g. those of aggregates.

    Raises:
        HayaseError: what the suppliers raise.
    """
    operators = [node.operator for node in topology.nodes if isinstance(node, ProcessorNode)]
    suppliers: list[object] = [operator.supplier for operator in operators if isinstance(operator, Process)]
    makers = {supplier.create_topics for supplier in suppliers if isinstance(supplier, CreatesTopics)}
    for create_topics in makers:
        create_topics(topology, config)


def prepare_topics(log: Log, topology: Topology, *, first: bool) -> tuple[Topology, dict[str, TopicInfo]]:
    """The topology with the topics that its patterns mean, and all its topics; internal ones are made if need be.

    Args:
        log: the log.
        topology: the topology.
        first: the application has never started on its checkpoint. What is in topics of `from_spark`, `to_spark` and
            `from_connector` then is of one that was reset, and is deleted.

    Raises:
        UnknownTopicError: a source or sink topic does not exist, or nothing matches a pattern.
        TopologyError: partition counts do not fit.
    """
    if has_patterns(topology):
        topology = resolve_patterns(topology, log.topics())
    infos = log.describe(sorted({*source_topics(topology), *sink_topics(topology)}))
    check_sources(topology, [*infos, *topology.internal_topics])
    if first:
        joined = [source.topic for source in topology.spark_sources] + [sink.topic for sink in topology.spark_sinks]
        joined += [each.topic for each in topology.connectors if each.source]
        _empty(log, [infos[topic] for topic in joined if topic in infos])
    infos |= _internal_topics(log, topology, infos)
    check_sinks(topology, infos)
    return topology, infos


def ensure_topics_of_failures(config: StreamsConfig, log: Log) -> None:
    """Make the dead-letter topic and that of the processing log, if the settings name some that are not there."""
    for topic in (config.dead_letter_topic, config.processing_log_topic):
        if topic is not None and topic not in log.describe([topic]):
            log.create_topic(topic, 1)


def _empty(log: Log, topics: list[TopicInfo]) -> None:
    partitions = [TopicPartition(info.name, number) for info in topics for number in range(info.partitions)]
    starts, ends = log.start_offsets(partitions), log.end_offsets(partitions)
    if before := {partition: end for partition, end in ends.items() if end > starts[partition]}:
        log.delete_records(before)


def _internal_topics(log: Log, topology: Topology, infos: Mapping[str, TopicInfo]) -> dict[str, TopicInfo]:
    internal = topology.internal_topics
    if not internal:
        return {}
    given = [topic for topic in source_topics(topology) if topic not in internal]
    wanted = partition_counts(topology, {topic: infos[topic].partitions for topic in given})
    described = {}
    for topic in internal:
        info = infos.get(topic) or log.create_topic(topic, wanted[topic], INTERNAL_TOPIC_CONFIG)
        if info.partitions != wanted[topic]:
            raise TopologyError(
                "INTERNAL_TOPIC_DIFFERS",
                f"the internal topic {topic!r} has {info.partitions} partitions, and {wanted[topic]} are wanted. Give "
                "the repartition that number, or start over with `hayase app reset`, which deletes the topic",
                topic=topic,
            )
        described[topic] = info
    return described


def resets_of(topology: Topology, default: AutoOffsetReset) -> dict[str, AutoOffsetReset]:
    """Where each source topic is begun.

    Internal topics at their end: what is in one before the first epoch is of an application that was reset. Those of
    `from_spark` are written before the first epoch, and were emptied before.
    """
    nodes = [node for node in topology.nodes if isinstance(node, SourceNode)]
    resets = {topic: node.reset or default for node in nodes for topic in node.topics}
    resets |= dict.fromkeys(topology.internal_topics, AutoOffsetReset.latest())
    earliest = AutoOffsetReset.earliest()
    resets |= {source.topic: earliest for source in topology.spark_sources}
    resets |= {each.topic: earliest for each in topology.connectors if each.source}
    return resets | {topic: earliest for table in topology.global_tables for topic in table.source.topics}
