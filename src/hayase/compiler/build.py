"""The plan of a topology: sub-topologies, levels, bundles."""

from __future__ import annotations

from collections.abc import Container, Mapping

from hayase.compiler.partitions import partition_counts, task_count
from hayase.core.errors import TopologyError, UnknownTopicError
from hayase.task.compiled_subtopology import CompiledSubtopology
from hayase.task.plan import BundlePlan, Plan, SubtopologyPlan, TaskPlan
from hayase.topology import operators as op
from hayase.topology.graph import SubTopology, kept_id
from hayase.topology.nodes import GlobalTable, ProcessorNode, SinkNode, SourceNode
from hayase.topology.topology import Topology


def source_topics(topology: Topology) -> list[str]:
    """Topics of the log that a topology reads, sorted."""
    nodes = [n for n in topology.nodes if isinstance(n, SourceNode)] + [g.source for g in topology.global_tables]
    return sorted({topic for node in nodes for topic in node.topics if topic not in topology.repartitions})


def sink_topics(topology: Topology) -> list[str]:
    """Topics of the log that a topology writes, sorted; without those that are chosen record by record."""
    sinks = {node.topic for node in topology.nodes if isinstance(node, SinkNode) and node.topic is not None}
    return sorted(topic for topic in sinks if topic not in topology.repartitions)


def check_sources(topology: Topology, known: Container[str]) -> None:
    """Check that every topic that is read exists.

    Raises:
        UnknownTopicError: one does not.
    """
    missing = [topic for topic in source_topics(topology) if topic not in known]
    if missing:
        raise UnknownTopicError(
            "UNKNOWN_TOPIC",
            f"source topics do not exist: {', '.join(missing)}; create them before the application starts, as by "
            f"`hayase topics create {missing[0]}`",
        )


def check_sinks(topology: Topology, known: Container[str]) -> None:
    """Check that every topic that is written exists.

    Raises:
        UnknownTopicError: one does not. Hayase makes no topics for output: their number of partitions is not known.
    """
    missing = [topic for topic in sink_topics(topology) if topic not in known]
    if missing:
        raise UnknownTopicError(
            "UNKNOWN_TOPIC",
            f"sink topics do not exist: {', '.join(missing)}; create them before the application starts, as by "
            f"`hayase topics create {missing[0]}`",
        )


def global_subtopology_id(topology: Topology, position: int) -> str:
    """Id of the sub-topology of a global table, by its position among them."""
    return kept_id(topology, f"global{position}")


def subtopologies_by_id(topology: Topology) -> dict[str, SubTopology]:
    """Every sub-topology, and the source and the processor of every global table."""
    of_tables = {
        global_subtopology_id(topology, position): SubTopology(position, (table.source, table.processor))
        for position, table in enumerate(topology.global_tables)
    }
    return {**of_tables, **{str(sub.id): sub for sub in topology.subtopologies}}


def levels_of(topology: Topology) -> dict[str, int]:
    """Level of every sub-topology: one above all it gets rows of, or whose global tables it reads."""
    writer = {
        sink.topic: sub for sub in topology.subtopologies for sink in sub.sinks if sink.topic in topology.repartitions
    }
    levels: dict[int, int] = {}

    def level(sub: SubTopology) -> int:
        if sub.id not in levels:
            above = [0] if global_stores_of(topology, sub) else []
            for source in sub.sources:
                for topic in source.topics:
                    if topic in topology.repartitions:
                        if topic not in writer:
                            raise TopologyError("NO_WRITER", f"nothing writes the repartition topic {topic!r}")
                        above.append(level(writer[topic]))
            levels[sub.id] = 1 + max(above, default=-1)
        return levels[sub.id]

    level_of = {str(sub.id): level(sub) for sub in topology.subtopologies}
    return {**{global_subtopology_id(topology, i): 0 for i in range(len(topology.global_tables))}, **level_of}


def global_stores_of(topology: Topology, sub: SubTopology) -> tuple[str, ...]:
    """Names of the global stores that a sub-topology looks up, in order. A processor of the user may look up all."""
    global_stores: dict[str, None] = {}
    if any(isinstance(node, ProcessorNode) and isinstance(node.operator, op.UserCode) for node in sub.nodes):
        return tuple(table.store for table in topology.global_tables)
    for node in sub.nodes:
        if isinstance(node, ProcessorNode) and isinstance(node.operator, op.StreamGlobalTableJoin):
            global_stores[node.operator.store] = None
    return tuple(global_stores)


def make_plan(
    topology: Topology,
    topics: Mapping[str, int],
    compiled: Mapping[str, CompiledSubtopology],
    *,
    threads: int,
    bundles_per_subtopology: int | None = None,
) -> Plan:
    """The plan.

    Args:
        topology: what runs.
        topics: partition count of every source topic of the log, internal ones included.
        compiled: every sub-topology.
        threads: slots of the first start.
        bundles_per_subtopology: at most so many; default `2 * threads`, never more than a sub-topology has tasks.

    Raises:
        UnknownTopicError: a source topic is missing.
        TopologyError: partition counts do not fit.
    """
    check_sources(topology, topics)
    counts = partition_counts(topology, topics)
    subtopologies: dict[str, SubtopologyPlan] = {}
    bundles: list[BundlePlan] = []
    most = bundles_per_subtopology or 2 * threads
    for position, table in enumerate(topology.global_tables):
        subtopology_id = global_subtopology_id(topology, position)
        subtopologies[subtopology_id] = _subtopology(compiled[subtopology_id], 1)
        bundles.append(BundlePlan(subtopology_id, 0, subtopology_id, (_global_task(subtopology_id, table, topics),)))
    for sub in topology.subtopologies:
        subtopology_id, count = str(sub.id), task_count(sub, topics, counts)
        level = compiled[subtopology_id].level
        subtopologies[subtopology_id] = _subtopology(compiled[subtopology_id], count)
        tasks = [_task(sub, partition, topics, topology) for partition in range(count)]
        for number in range(min(most, count)):
            members = tuple(tasks[number :: min(most, count)])
            bundles.append(BundlePlan(f"{subtopology_id}-{number}", level, subtopology_id, members))
    edges = {name: counts[name] for name in topology.repartitions}
    matched = frozenset(
        topic for n in topology.nodes if isinstance(n, SourceNode) and n.pattern is not None for topic in n.topics
    )
    internal = {topic: topics[topic] if topic in topics else counts[topic] for topic in topology.internal_topics}
    return Plan(subtopologies, tuple(bundles), dict(topics), edges, matched, internal)


def _subtopology(compiled: CompiledSubtopology, partitions: int) -> SubtopologyPlan:
    return SubtopologyPlan(
        compiled.id, compiled.level, compiled.order, partitions, compiled.global_store, compiled.journalled,
        compiled.definition,
    )  # fmt: skip


def _global_task(subtopology_id: str, table: GlobalTable, topics: Mapping[str, int]) -> TaskPlan:
    partitions = tuple(
        (table.source.name, topic, partition) for topic in table.source.topics for partition in range(topics[topic])
    )
    return TaskPlan(f"{subtopology_id}_0", subtopology_id, 0, partitions, ())


def _task(sub: SubTopology, partition: int, topics: Mapping[str, int], topology: Topology) -> TaskPlan:
    real = tuple(
        (source.name, topic, partition)
        for source in sub.sources
        for topic in source.topics
        if topic in topics and partition < topics[topic]
    )
    edges = tuple(
        (source.name, topic) for source in sub.sources for topic in source.topics if topic in topology.repartitions
    )
    return TaskPlan(f"{sub.id}_{partition}", str(sub.id), partition, real, edges)
