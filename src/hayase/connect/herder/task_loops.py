"""Making the loop of a task: its object, converters, transforms, writers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hayase.connect.at_least_once_sink import AtLeastOnceSinkLoop
from hayase.connect.config.config_def import TypedConfig
from hayase.connect.connector_parts import build_conversion, serialized_json
from hayase.connect.connector_validation import typed_config
from hayase.connect.contracts import (
    RepeatableSinkTask,
    SinkConnector,
    SinkPartition,
    SinkTask,
    SourceConnector,
    SourceTask,
    TransactionalSinkTask,
)
from hayase.connect.conversion import Conversion
from hayase.connect.errors import DeadLetters, ErrorPolicy, Stage
from hayase.connect.exceptions import ConnectError
from hayase.connect.group_offsets import GroupOffsets
from hayase.connect.herder.environment import WorkerEnvironment
from hayase.connect.offsets import ConnectorOffsets, ensure_topic
from hayase.connect.publisher import TaskPublisher
from hayase.connect.repeatable_sink import RangeRecord, RepeatableSinkLoop, ranges_topic
from hayase.connect.sink_loop import SinkContext, SinkTaskLoop
from hayase.connect.sink_reader import Reporter
from hayase.connect.source_context import TaskContext, TaskTransactionContext
from hayase.connect.source_loop import SourceTaskLoop, TransactionBoundary
from hayase.connect.source_topics import SourceTopics, topic_groups
from hayase.connect.topic_reader import TopicReader
from hayase.connect.transactional_sink import TransactionalSinkLoop
from hayase.core.offset_reset import AutoOffsetReset
from hayase.core.records import TopicPartition
from hayase.log.protocol import Log

_LOG = logging.getLogger(__name__)

_RANGE_RECORDS, _RANGE_INTERVAL_MS = 50_000, 10_000
"""Of sinks that write numbered ranges, unless their configuration says more."""

_REPLICAS = "errors.deadletterqueue.topic.replication.factor"
"""Acts where it is given: the default of three would be refused by a single broker."""


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """What is needed to start a task.

    Attributes:
        connector: its name.
        connector_class: its class.
        task: id of the task.
        task_class: of the task.
        connector_props: the connector's configuration, references resolved.
        props: the task's configuration.
        generation: of the connector.
        offsets: of a source, loaded after the generation began.
        ranges: of a sink that writes numbered ranges, as well.
        partitions: of a sink.
        topic_used: called with each topic that the task uses.
        advertised: called with the URL where the task takes requests.
    """

    connector: str
    connector_class: type[SourceConnector] | type[SinkConnector]
    task: int
    task_class: type[SourceTask] | type[SinkTask]
    connector_props: Mapping[str, str]
    props: Mapping[str, str]
    generation: int
    offsets: ConnectorOffsets = field(default_factory=ConnectorOffsets)
    ranges: Mapping[SinkPartition, RangeRecord] = field(default_factory=dict)
    partitions: tuple[SinkPartition, ...] = ()
    topic_used: Callable[[str], None] = lambda _: None
    advertised: Callable[[str], None] = lambda _: None


class TaskLoop(Protocol):
    """What a task's thread drives.

    Attributes:
        retrying: the last step could not reach the other system, and is tried again.
    """

    retrying: bool

    def step(self) -> bool:
        """Do something; whether there was anything to do."""
        ...

    def drain(self) -> None:
        """Finish what was begun, before a stop."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


@dataclass(slots=True)
class StartedTask:
    """A task with its loop.

    Attributes:
        loop: drives it.
        task: the object.
        metrics: values by name.
        close: lets go of everything, the task included.
    """

    loop: TaskLoop
    task: SourceTask | SinkTask
    metrics: Callable[[], dict[str, float]]
    close: Callable[[], None]


Sleep = Callable[[float], None]


def start_task(env: WorkerEnvironment, spec: TaskSpec, sleep: Sleep) -> StartedTask:
    """Make and start a task.

    Args:
        env: of the worker.
        spec: of the task.
        sleep: waits that many seconds; raises to give up.
    """
    kind = "source" if issubclass(spec.connector_class, SourceConnector) else "sink"
    log = env.open_task_log(env.overrides.options(spec.connector_props, kind))
    config = typed_config(spec.connector_class, spec.connector_props)
    policy = ErrorPolicy.from_config(config, spec.connector, spec.task, sleep=sleep)
    task = spec.task_class()
    try:
        if isinstance(task, SourceTask):
            return _start_source(env, spec, log, config, policy, task, sleep)
        return _start_sink(env, spec, log, config, policy, task, sleep)
    except BaseException:
        _stop_unstarted(task, spec)
        env.close_task_log(log)
        raise


def _stop_unstarted(task: SourceTask | SinkTask, spec: TaskSpec) -> None:
    """Stop a task that did not start; what fails is logged, for why it did not start is the error to show."""
    try:
        task.stop()
    except Exception:
        _LOG.warning("task %s-%s: stop failed, after start had", spec.connector, spec.task, exc_info=True)


def _start_source(
    env: WorkerEnvironment,
    spec: TaskSpec,
    log: Log,
    config: TypedConfig,
    policy: ErrorPolicy,
    task: SourceTask,
    sleep: Sleep,
) -> StartedTask:
    boundary = TransactionBoundary(config.string("transaction.boundary").lower())
    interval_ms = config["transaction.boundary.interval.ms"]
    conversion = build_conversion(env.plugins, env.config, config, policy)
    context = TaskContext(
        spec.connector,
        spec.task,
        spec.props,
        spec.offsets,
        TaskTransactionContext() if boundary is TransactionBoundary.CONNECTOR else None,
        serialized_json(env.config, config, conversion),
        TopicReader(log),
        advertised=spec.advertised,
        reporter=lambda record, error: policy.fail(Stage.TASK_POLL, error, record, task),
    )
    groups = config.list("topic.creation.groups") if env.config.bool("topic.creation.enable") else []
    props = {name: str(value) for name, value in spec.connector_props.items()}
    loop = SourceTaskLoop(
        task,
        context,
        conversion,
        _publisher(env, spec, log, offsets_topic(env, config), sleep),
        SourceTopics(log, topic_groups(props, groups) if env.config.bool("topic.creation.enable") else []),
        spec.offsets,
        boundary=boundary,
        interval_ms=interval_ms if isinstance(interval_ms, int) else env.config.int("offset.flush.interval.ms"),
        clock=env.clock,
        sleep=sleep,
        topic_seen=spec.topic_used,
    )
    task.initialize(context)
    task.start(spec.props)
    return StartedTask(
        loop,
        task,
        lambda: {**loop.metrics.by_name(), **policy.metrics.by_name(), **context.metrics},
        _closer(env, log, loop, task),
    )


def offsets_topic(env: WorkerEnvironment, config: TypedConfig) -> str:
    """Where the offsets of a source connector are."""
    return config.optional_string("offsets.storage.topic") or env.config.string("offset.storage.topic")


def _publisher(env: WorkerEnvironment, spec: TaskSpec, log: Log, topic: str, sleep: Sleep) -> TaskPublisher:
    return TaskPublisher(
        log.writer(),
        group=env.config.group,
        connector=spec.connector,
        task=spec.task,
        generation=spec.generation,
        offsets_topic=topic,
        clock=env.clock,
        sleep=sleep,
    )


def _closer(env: WorkerEnvironment, log: Log, loop: TaskLoop, task: SourceTask | SinkTask) -> Callable[[], None]:
    def close() -> None:
        try:
            task.stop()
        finally:
            try:
                loop.close()
            finally:
                env.close_task_log(log)

    return close


def group_of(connector: str, props: Mapping[str, str]) -> str:
    """The consumer group of a sink.

    Example:
        >>> group_of("sales", {}), group_of("sales", {"consumer.override.group.id": "shop"})
        ('connect-sales', 'shop')
    """
    return props.get("consumer.override.group.id", f"connect-{connector}")


def _start_sink(
    env: WorkerEnvironment,
    spec: TaskSpec,
    log: Log,
    config: TypedConfig,
    policy: ErrorPolicy,
    task: SinkTask,
    sleep: Sleep,
) -> StartedTask:
    policy.dead_letters = _dead_letters(log, config)
    conversion = build_conversion(env.plugins, env.config, config, policy)
    group = group_of(spec.connector, spec.connector_props)
    context = SinkContext(
        group,
        spec.connector,
        spec.task,
        spec.generation,
        spec.props,
        frozenset(TopicPartition(each.topic, each.partition) for each in spec.partitions),
        Reporter(conversion) if policy.tolerates else None,
    )
    task.initialize(context)
    task.start(spec.props)
    loop = _sink_loop(env, spec, log, task, context, conversion=conversion, sleep=sleep)
    if policy.tolerates:
        context.errant_record_reporter = loop.reporter
    for topic in sorted({each.topic for each in spec.partitions}):
        spec.topic_used(topic)
    try:
        loop.begin()
    except BaseException:
        loop.close()
        raise
    return StartedTask(
        loop,
        task,
        lambda: {**loop.metrics.by_name(), **policy.metrics.by_name(), **context.metrics},
        _closer(env, log, loop, task),
    )


def _sink_loop(
    env: WorkerEnvironment,
    spec: TaskSpec,
    log: Log,
    task: SinkTask,
    context: SinkContext,
    *,
    conversion: Conversion,
    sleep: Sleep,
) -> SinkTaskLoop:
    reset = AutoOffsetReset.of(spec.connector_props.get("consumer.override.auto.offset.reset", "earliest"))
    records = spec.connector_props.get("consumer.override.max.poll.records")
    bounded = {"range_records": int(records)} if records else {}
    offsets = GroupOffsets(log, context.group, env.clock, env.config.int("offset.flush.interval.ms"))
    if isinstance(task, TransactionalSinkTask):
        return TransactionalSinkLoop(
            task, context, log, spec.partitions, conversion, reset=reset, group_offsets=offsets, sleep=sleep, **bounded
        )
    if isinstance(task, RepeatableSinkTask):
        publisher = _publisher(env, spec, log, ranges_topic(env.config.group), sleep)
        return RepeatableSinkLoop(
            task,
            context,
            log,
            spec.partitions,
            conversion,
            recorded=spec.ranges,
            publisher=publisher,
            reset=reset,
            group_offsets=offsets,
            sleep=sleep,
            range_records=int(spec.props.get("range.records", _RANGE_RECORDS)),
            range_interval_ms=int(spec.props.get("range.interval.ms", _RANGE_INTERVAL_MS)),
            clock=env.clock,
        )
    return AtLeastOnceSinkLoop(
        task,
        context,
        log,
        spec.partitions,
        conversion,
        reset=reset,
        group_offsets=offsets,
        sleep=sleep,
        **bounded,
    )


def _dead_letters(log: Log, config: TypedConfig) -> DeadLetters | None:
    topic = config.string("errors.deadletterqueue.topic.name")
    if not topic:
        return None
    given = config.originals.get(_REPLICAS)
    ensure_topic(log, topic, 1, {}, None if given is None else config.int(_REPLICAS))
    return DeadLetters(topic, log.writer(), config.bool("errors.deadletterqueue.context.headers.enable"))


def assign(partitions: Sequence[SinkPartition], tasks: int) -> list[tuple[SinkPartition, ...]]:
    """Partitions of each task of a sink, as even as can be.

    Example:
        >>> [len(each) for each in assign([SinkPartition("t", "id", number) for number in range(5)], 2)]
        [3, 2]
    """
    return [tuple(sorted(partitions)[number::tasks]) for number in range(tasks)]


def check_task_count(name: str, props: Mapping[str, str], count: int) -> None:
    """Whether a connector asks for no more tasks than it may have.

    Raises:
        ConnectError: `TOO_MANY_TASKS`, with `tasks.max.enforce`.
    """
    maximum = int(props.get("tasks.max", "1"))
    if count > maximum and props.get("tasks.max.enforce", "true").strip().lower() == "true":
        raise ConnectError(
            "TOO_MANY_TASKS",
            f"The connector {name} has generated {count} tasks, which is greater than {maximum}, the maximum number of "
            "tasks it is configured to create. This behaviour should be considered a bug and is disallowed. If "
            "necessary, it can be permitted by reconfiguring the connector with 'tasks.max.enforce' set to false",
            connector=name,
        )
