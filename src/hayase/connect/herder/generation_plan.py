"""What a generation of a connector runs: its tasks, with the offsets as of its beginning."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from hayase.connect.connector_validation import typed_config
from hayase.connect.contracts import Connector, SinkConnector, SinkDelivery, SinkPartition, SourceConnector
from hayase.connect.generations import Generations
from hayase.connect.herder.environment import WorkerEnvironment
from hayase.connect.herder.task_loops import TaskSpec, check_task_count, offsets_topic
from hayase.connect.offsets import OFFSETS_SETTINGS, ConnectorOffsets, check_complete, ensure_topic, load_offsets
from hayase.connect.repeatable_sink import RangeRecord, load_ranges, ranges_topic
from hayase.core.failpoints import reach


def task_configs(name: str, connector: Connector, props: Mapping[str, str]) -> list[dict[str, str]]:
    """Configurations of a connector's tasks.

    Args:
        name: of the connector.
        connector: started.
        props: its configuration, references resolved.

    Raises:
        ConnectError: `TOO_MANY_TASKS`.
    """
    configs = connector.task_configs(int(props.get("tasks.max", "1")))
    check_task_count(name, props, len(configs))
    cls = connector.task_class()
    added = {"task.class": f"{cls.__module__}.{cls.__qualname__}"}
    if isinstance(connector, SinkConnector):
        added |= {key: props[key] for key in ("topics", "topics.regex") if key in props}
    return [{**config, **added} for config in configs]


def plan_generation(
    env: WorkerEnvironment,
    name: str,
    connector: Connector,
    props: Mapping[str, str],
    configs: Sequence[Mapping[str, str]],
    partitions: Sequence[SinkPartition],
    topic_used: Callable[[int, str], None],
) -> tuple[int, dict[int, TaskSpec]]:
    """Begin a generation, then load offsets; its number, and what is needed to start each task.

    Args:
        env: of the worker.
        name: of the connector.
        connector: started.
        props: its configuration, references resolved.
        configs: of its tasks.
        partitions: of a sink.
        topic_used: called with a task and a topic that it uses.
    """
    assert isinstance(connector, SourceConnector | SinkConnector)
    cls = type(connector)
    generations = Generations(env.log, env.config.group)
    before = {task: marker.epoch for task, marker in generations.markers(name).items()}
    _prepare_topics(env, cls, props)
    generation = generations.begin(name, range(len(configs)))
    reach("after_fence", bundle=name, epoch=generation)
    offsets, ranges = _load(env, name, cls, props)
    if issubclass(cls, SourceConnector):
        check_complete(offsets, before, name)
    specs = {
        task: TaskSpec(
            name,
            cls,
            task,
            connector.task_class(),
            dict(props),
            config,
            generation,
            offsets,
            ranges,
            tuple(partitions[task :: len(configs)]),
            _bound(topic_used, task),
        )
        for task, config in enumerate(configs)
    }
    return generation, specs


def plan_task_restart(env: WorkerEnvironment, spec: TaskSpec) -> TaskSpec:
    """Begin a generation for one task alone, then load its offsets."""
    generation = Generations(env.log, env.config.group).begin_task(spec.connector, spec.task)
    reach("after_fence", bundle=spec.connector, epoch=generation)
    offsets, ranges = _load(env, spec.connector, spec.connector_class, spec.connector_props)
    return dataclasses.replace(spec, generation=generation, offsets=offsets, ranges=ranges)


def _load(
    env: WorkerEnvironment, name: str, cls: type[SourceConnector] | type[SinkConnector], props: Mapping[str, str]
) -> tuple[ConnectorOffsets, Mapping[SinkPartition, RangeRecord]]:
    if issubclass(cls, SourceConnector):
        return load_offsets(env.log, offsets_topic(env, typed_config(cls, props)), name), {}
    if cls.delivery is SinkDelivery.REPEATABLE:
        return ConnectorOffsets(), load_ranges(env.log, env.config.group, name)
    return ConnectorOffsets(), {}


def _prepare_topics(
    env: WorkerEnvironment, cls: type[SourceConnector] | type[SinkConnector], props: Mapping[str, str]
) -> None:
    if issubclass(cls, SourceConnector):
        topic = offsets_topic(env, typed_config(cls, props))
        ensure_topic(env.log, topic, env.config.int("offset.storage.partitions"), OFFSETS_SETTINGS)
    elif cls.delivery is SinkDelivery.REPEATABLE:
        ensure_topic(env.log, ranges_topic(env.config.group), 1, OFFSETS_SETTINGS)


def _bound(topic_used: Callable[[int, str], None], task: int) -> Callable[[str], None]:
    return lambda topic: topic_used(task, topic)
