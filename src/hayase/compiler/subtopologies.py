"""From a topology and its plan to programs that tasks can run. Done once per process."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from hayase.compiler.build import levels_of
from hayase.compiler.compile import AnalyzedSubtopology, CompileOptions, compile_subtopologies
from hayase.compiler.prefix import prefix_fields
from hayase.compiler.pruning import Fields, needed_fields
from hayase.compiler.serdes import reading_serde
from hayase.serde.protocol import Serde
from hayase.task.compiled_subtopology import CompiledSubtopology, SinkProgram, SourceProgram
from hayase.task.plan import Plan, SubtopologyPlan
from hayase.topology.nodes import Node, SinkNode
from hayase.topology.topology import Topology


def make_programs(topology: Topology, plan: Plan, options: CompileOptions) -> dict[str, CompiledSubtopology]:
    """The program of every sub-topology, by id. The same inputs give the same programs in every process."""
    compiled = compile_subtopologies(topology, levels_of(topology), options)
    readers = {edge: task.subtopology for bundle in plan.bundles for task in bundle.tasks for _, edge in task.edges}
    by_frames = {
        source.edge: source.frames
        for subtopology in compiled.values()
        for source in subtopology.sources
        if source.edge is not None
    }
    fields = _needed_fields(compiled, by_frames)
    return {
        subtopology_id: dataclasses.replace(
            _program(topology, plan.subtopologies[subtopology_id], analyzed, plan, readers, by_frames, fields),
            app_configs=options.app_configs,
        )
        for subtopology_id, analyzed in compiled.items()
    }


def written_serdes(compiled: Mapping[str, AnalyzedSubtopology], topic: str) -> tuple[Serde, Serde]:
    """The serdes that read keys and values of what a topology writes to a topic of the log; KeyError if it does not."""
    for subtopology in compiled.values():
        for sink in subtopology.sinks:
            if sink.topic == topic:
                edge = subtopology.schemas.get(sink.parents[0])
                key = edge.key if edge is not None and not edge.windowed else None
                value = edge.value if edge is not None else None
                return reading_serde(sink.key_serde, key), reading_serde(sink.value_serde, value)
    raise KeyError(topic)


def _needed_fields(compiled: Mapping[str, AnalyzedSubtopology], by_frames: Mapping[str, bool]) -> dict[str, Fields]:
    """By source, and by repartition topic: the value fields that are looked at."""
    needed_by_source: dict[str, Fields] = {}

    def behind(sink: SinkNode) -> Fields:
        return needed_by_source.get(sink.topic) if sink.topic is not None and by_frames.get(sink.topic) else None

    for subtopology in reversed(list(compiled.values())):
        nodes = subtopology.nodes
        for source in subtopology.sources if subtopology.columns is not None else ():
            needed = _with_time(source, needed_fields(source.name, nodes.processors, nodes.sinks, behind))
            needed_by_source[source.name] = needed
            if source.edge is not None:
                needed_by_source[source.edge] = needed
        by_name = {node.name: node for node in nodes.processors}
        for source in subtopology.sources:
            if source.prefix is not None:
                needed_by_source[source.name] = _with_time(source, prefix_fields(source.prefix, by_name))
    return needed_by_source


def _with_time(source: SourceProgram, needed: Fields) -> Fields:
    if needed is None or source.extractor.field is None:
        return needed
    return needed | {source.extractor.field.split(".")[0]}


def _program(
    topology: Topology,
    subtopology: SubtopologyPlan,
    compiled: AnalyzedSubtopology,
    plan: Plan,
    readers: Mapping[str, str],
    by_frames: Mapping[str, bool],
    fields: Mapping[str, Fields],
) -> CompiledSubtopology:
    def finish(sink: SinkProgram) -> SinkProgram:
        if not sink.edge:
            return sink
        frames = sink.frames and by_frames[sink.topic]
        return dataclasses.replace(
            sink,
            partitions=plan.repartitions[sink.topic],
            target_subtopology=readers[sink.topic],
            frames=frames,
            fields=fields.get(sink.topic) if frames else None,
        )

    every: tuple[Node, ...] = (*compiled.nodes.sources, *compiled.nodes.processors, *compiled.nodes.sinks)
    members = {node.name for node in every}
    if subtopology.global_store is None:
        order = tuple(node.name for node in topology.nodes if node.name in members)
        children = {name: topology.children[name] for name in order}
    else:
        source, processor = compiled.nodes.sources[0].name, compiled.nodes.processors[0].name
        order, children = (source, processor), {source: (processor,), processor: ()}
    plan_with_form = dataclasses.replace(
        subtopology, form=compiled.form, form_reason=compiled.reason, stateful=compiled.stateful, pure=compiled.pure,
        journalled=compiled.journalled, definition=compiled.definition,
    )  # fmt: skip
    own = {name for node in compiled.nodes.processors for name in node.stores}
    stores = {name: spec for name, spec in compiled.stores.items() if name in own or name in subtopology.reads_global}
    return CompiledSubtopology(
        plan_with_form,
        tuple(dataclasses.replace(source, fields=fields.get(source.name)) for source in compiled.sources),
        compiled.nodes.processors,
        tuple(finish(sink) for sink in compiled.sinks),
        order,
        children,
        stores,
        compiled.columns,
        compiled.schemas,
        compiled.merges,
    )
