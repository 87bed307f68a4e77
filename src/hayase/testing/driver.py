"""Runs a topology in this process, record by record: no JVM, no broker, no disk.

It drives the same tasks that Spark drives.
"""

from __future__ import annotations

import contextlib
import difflib
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any

import numpy as np

from hayase.compiler.build import global_subtopology_id, make_plan, sink_topics, source_topics
from hayase.compiler.compile import compile_subtopologies
from hayase.compiler.options import compile_options, configured, failure_policy
from hayase.compiler.partitions import partition_counts
from hayase.core.config import StreamsConfig
from hayase.core.errors import ProcessingError, UnknownTopicError
from hayase.core.metrics import Metrics
from hayase.core.records import Headers
from hayase.core.time import ManualClock, epoch_ms
from hayase.core.type_variables import K, V
from hayase.core.windows import to_ms
from hayase.dsl.builder import StreamsBuilder, topology_of
from hayase.log.protocol import OutputBatch, RecordBatch
from hayase.serde.protocol import Serde
from hayase.state.delta.journal import EdgeRow
from hayase.state.environment.memory import MemoryState
from hayase.state.stores.protocol import ByteStore, TaskState
from hayase.task.clocks import StateClocks
from hayase.task.compiled_subtopology import CompiledSubtopology
from hayase.task.outputs import Outputs
from hayase.task.plan import TaskPlan
from hayase.task.task import Task, make_task
from hayase.task.task_context import TaskContext
from hayase.testing.event_times import event_time_ms, with_extractors_asked_once
from hayase.testing.stores import open_view
from hayase.testing.topics import RawRecord, TestInputTopic, TestOutputTopic
from hayase.testing.waiting import WaitingQueues, topics_as_sent
from hayase.topology.nodes import SinkNode, SourceNode
from hayase.topology.resolve import with_pattern_topics
from hayase.topology.topology import Topology


class TopologyTestDriver:
    """Feeds records to a topology and reads what it writes, like Kafka Streams' driver of the same name.

    Every record is an epoch of its own: when `pipe_input` returns, all that it sets off has happened, caches are
    flushed, stores are up to date. Every topic has one partition, every sub-topology one task.

    A `from_spark` source is an input topic, and a `to_spark` sink an output topic, of its name (where a topic is called
    alike: of the internal topic's, `<application.id>-<name>-from-spark` and `…-to-spark`).

    Likewise a `from_connector` source and a `to_connector` sink: the connector itself does not run here; it is tested
    with `hayase.testing.connect.ConnectorTestDriver`.

    Not simulated: several partitions, failures, epochs of several records, Spark.

    Example:
        >>> from hayase import StreamsBuilder, Serdes, Consumed, Produced
        >>> builder = StreamsBuilder()
        >>> stream = builder.stream("in", Consumed.with_(Serdes.string(), Serdes.string()))
        >>> stream.map_values(str.upper).to("out", Produced.with_(Serdes.string(), Serdes.string()))
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     source = driver.create_input_topic("in", Serdes.string(), Serdes.string())
        ...     sink = driver.create_output_topic("out", Serdes.string(), Serdes.string())
        ...     source.pipe_input("k", "hello")
        ...     sink.read_key_value()
        ('k', 'HELLO')
    """

    def __init__(
        self,
        topology: Topology | StreamsBuilder,
        config: StreamsConfig | Mapping[str, object] | None = None,
        initial_wall_clock_ms: datetime | int = 0,
        *,
        piped_results: Collection[str] = (),
    ) -> None:
        """Prepare the topology.

        Args:
            topology: what to run; a StreamsBuilder is built.
            config: settings; `application.id` may be left out. `processing.form` chooses rows or columns.
            initial_wall_clock_ms: the driver's clock, also as an aware datetime; it moves only by
                `advance_wall_clock_time`.
            piped_results: topics that the topology writes and reads, and whose records the caller pipes: they are not
                processed as soon as they are written.
        """
        if not isinstance(config, StreamsConfig):
            config = StreamsConfig({"application.id": "test", **(config or {})})
        topology = configured(topology_of(topology), config)
        self._topology = topology
        self._config = config
        self._clock = ManualClock(epoch_ms(initial_wall_clock_ms))
        self.metrics = Metrics(config.metrics_recording_level)
        options = compile_options(config)
        self._policy = failure_policy(config)
        self._registry_settings = config.schema_registry
        self._options = options
        self._piped_results = frozenset(piped_results)
        self._states: dict[str, MemoryState] = {}
        self._offsets: dict[str, int] = {}
        self._matched: dict[str, tuple[str, ...]] = {}
        self._subtopologies: dict[str, CompiledSubtopology]
        self._task_plans: list[TaskPlan]
        self._tasks: dict[str, Task] = {}
        self._plan()
        self._queues: dict[str, deque[RawRecord]] = {}
        self._waiting = WaitingQueues(self._event_time_ms)
        self._epoch = 0
        self._application_id = config.application_id
        self._wall_clock_moved = False
        self._begin()

    def replace_topology(self, topology: Topology | StreamsBuilder) -> None:
        """Go on with another topology; stores of the same sub-topology and name keep what they have.

        Records that were written and not read yet stay; the processors of the topology before are closed.
        """
        self._topology = configured(topology_of(topology), self._config)
        self._plan()
        self._begin()

    def _begin(self) -> None:
        self._sending = {topic: place for place, topic in enumerate(topics_as_sent(self._topology))}
        self._global_tasks = {
            table.store: f"{global_subtopology_id(self._topology, i)}_0"
            for i, table in enumerate(self._topology.global_tables)
        }
        self._run_timed()  # processors are made now, and schedule what they want

    def _plan(self) -> None:
        """Make tasks for the topics that are read; called again when a pattern matches another one."""
        # a pattern that matches nothing yet has a task all the same, for its stores
        topology = with_pattern_topics(
            self._topology, lambda node, pattern: self._matched.get(node.name, (pattern.pattern,))
        )
        topics = dict.fromkeys(source_topics(topology), 1)
        compiled = compile_subtopologies(topology, self._options, partition_counts(topology, topics))
        plan = make_plan(topology, topics, compiled, threads=1)
        self._subtopologies = {name: with_extractors_asked_once(each) for name, each in compiled.items()}
        self._task_plans = [task for bundle in plan.bundles for task in bundle.tasks]
        for task in self._task_plans:
            self._states.setdefault(task.id, MemoryState())
        for before in self._tasks.values():
            before.close()
        self._tasks = {
            task.id: make_task(self._subtopologies[task.subtopology], task.partition) for task in self._task_plans
        }
        for topic in topics:
            self._offsets.setdefault(topic, 0)

    def _reads(self, topic: str) -> bool:
        """Whether the topology reads a topic, by name or by pattern.

        A topic of a pattern is one of its sources from now on.
        """
        if topic in self._offsets:
            return True
        for node in self._topology.nodes:
            if isinstance(node, SourceNode) and node.pattern is not None and node.pattern.fullmatch(topic):
                self._matched[node.name] = tuple(sorted((*self._matched.get(node.name, ()), topic)))
                self._plan()
                return True
        return False

    def create_input_topic(
        self,
        topic: str,
        key_serde: Serde[K],
        value_serde: Serde[V],
        start_timestamp_ms: datetime | int = 0,
        auto_advance: timedelta = timedelta(0),
    ) -> TestInputTopic[K, V]:
        """A way into a source topic; `start_timestamp_ms` may be an aware datetime as well.

        Raises:
            UnknownTopicError: the topology does not read that topic.
        """
        if not self._reads(topic):
            fed = {source.name: source.topic for source in self._topology.spark_sources}
            fed |= {each.name: each.topic for each in self._topology.connectors if each.source}
            if topic not in fed:
                raise UnknownTopicError(
                    "UNKNOWN_TOPIC",
                    f"the topology does not read topic {topic!r}; it reads {sorted({*self._offsets, *fed})}",
                )
            topic = fed[topic]
        key_serde, value_serde = self._for_topic(topic, key_serde, value_serde)
        return TestInputTopic(self, topic, key_serde, value_serde, epoch_ms(start_timestamp_ms), auto_advance)

    def create_output_topic(self, topic: str, key_serde: Serde[K], value_serde: Serde[V]) -> TestOutputTopic[K, V]:
        """A reader of the records that the topology writes to a topic.

        Raises:
            UnknownTopicError: the topology does not write to that topic.
        """
        if topic not in sink_topics(self._topology):
            written = {sink.name: sink.topic for sink in self._topology.spark_sinks}
            written |= {each.name: each.topic for each in self._topology.connectors if not each.source}
            topic = written.get(topic, topic)
            self._check_written(topic)
        return TestOutputTopic(self, topic, *self._for_topic(topic, key_serde, value_serde))

    def _check_written(self, topic: str) -> None:
        """Refuse a topic to which nothing can ever be written; with a sink that chooses topics, each may be."""
        topology = self._topology
        if any(isinstance(node, SinkNode) and node.topic is None for node in topology.nodes):
            return
        internal = (*topology.repartitions, *topology.internal_topics)
        within = {f"{self._application_id}-{name}" for name in internal}
        of_failures = {self._config.dead_letter_topic, self._config.processing_log_topic} - {None}
        if topic in {*self._queues, *internal, *within, *of_failures}:
            return
        written = sorted({*sink_topics(topology), *filter(None, of_failures)})
        near = difflib.get_close_matches(topic, written, 1)
        raise UnknownTopicError(
            "UNKNOWN_TOPIC",
            f"the topology does not write to topic {topic!r}; it writes to {written}"
            + (f". Is it {near[0]!r}?" if near else ""),
        )

    def _for_topic(self, topic: str, key: Serde[K], value: Serde[V]) -> tuple[Serde[K], Serde[V]]:
        settings = self._registry_settings
        return key.for_topic(topic, "key", settings), value.for_topic(topic, "value", settings)

    def advance_wall_clock_time(self, delta: timedelta) -> None:
        """Move the driver's clock on, and call what is due by it then; records alone call nothing by the wall clock."""
        self._clock.advance_ms(to_ms("delta", delta))
        self._wall_clock_moved = True
        try:
            self._run_timed()
        finally:
            self._wall_clock_moved = False
        self.pipe_batch(())

    @property
    def wall_clock_ms(self) -> int:
        """The wall clock, milliseconds since 1970."""
        return self._clock.now_ms()

    def produced_topic_names(self) -> list[str]:
        """Topics that something was written to, in the order of the first record; internal ones among them."""
        return [topic for topic, queue in self._queues.items() if queue]

    def store(self, name: str) -> Any:
        """A store to read: a key-value or window view with the store's serdes.

        Raises:
            UnknownStoreError: the topology has no such store.
        """
        return open_view(self._topology, name, self._task_state)

    def close(self) -> None:
        """Close the processors, and let go of the stores.

        Raises:
            ProcessingError: `PROCESSOR_FAILED`: in a processor's `close`.
        """
        tasks, self._tasks = self._tasks, {}
        try:
            for task in tasks.values():
                task.close()
        finally:
            for state in self._states.values():
                state.close()

    def __enter__(self) -> TopologyTestDriver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # used by the topics

    def pipe(self, topic: str, key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Headers) -> None:
        """Process one serialized record to its end."""
        self.pipe_batch([RawRecord(topic, key, value, timestamp_ms, headers)])

    def pipe_batch(self, records: Iterable[RawRecord]) -> None:
        """Process serialized records that were all there before the first is processed.

        Of the topics' heads, and those of internal topics, the one with the smallest event time goes next.
        """
        for record in records:
            self._reads(record.topic)
            self._waiting.add_record(record)
        while (waiting := self._waiting.next()) is not None:
            if isinstance(waiting, RawRecord):
                self._take(waiting)
                continue
            for task in self._task_plans:
                if any(received == waiting.edge for _, received in task.edges):
                    self._run(task, [], {(waiting.edge, waiting.origin): [waiting]}, edge_offset=waiting.seq)

    def _run_timed(self) -> None:
        for task in self._task_plans:
            if self._subtopologies[task.subtopology].timed:
                self._run(task, [], {})

    def _take(self, record: RawRecord) -> None:
        offset = self._offsets[record.topic]
        self._offsets[record.topic] += 1
        raw = _one(record, offset)
        for task in self._task_plans:
            inputs = [(source, raw) for source, read, _ in task.topic_partitions if read == record.topic]
            if inputs:
                self._run(task, inputs, {})

    def _event_time_ms(self, record: RawRecord) -> int:
        """What the source of a record at the head of its topic gives as its event time.

        -1: it will be skipped, or fail.
        """
        topic, offset = record.topic, self._offsets[record.topic]
        for task in self._task_plans:
            for name, read, _ in task.topic_partitions:
                if read == topic:
                    (source,) = (each for each in self._subtopologies[task.subtopology].sources if each.name == name)
                    clocks = StateClocks(self._states[task.id].begin().task(task.id))
                    return event_time_ms(source, _one(record, offset), clocks, self._clock.now_ms())
        return record.timestamp_ms

    def output_queue(self, topic: str) -> deque[RawRecord]:
        """What was written to a topic and not read yet."""
        return self._queues.setdefault(topic, deque())

    def _task_state(self, store: str) -> TaskState:
        for task in self._task_plans:
            subtopology = self._subtopologies[task.subtopology]
            if any(store in node.stores for node in subtopology.processors):
                return self._states[task.id].begin().task(task.id)
        raise AssertionError(store)

    def _run(
        self,
        plan: TaskPlan,
        inputs: list[tuple[str, RecordBatch]],
        rows: Mapping[tuple[str, str], list[EdgeRow]],
        edge_offset: int = 0,
    ) -> None:
        subtopology = self._subtopologies[plan.subtopology]
        state = self._states[plan.id]
        epoch = state.begin()
        outputs = Outputs()
        context = TaskContext.make(
            subtopology,
            plan.id,
            state=epoch.task(plan.id),
            global_stores=self._global_stores(subtopology),
            metrics=self.metrics,
            outputs=outputs,
            policy=self._policy,
            wall_clock_ms=self._clock.now_ms(),
            partitions_of=lambda _: 1,
            application_id=self._application_id,
            edge_offset=edge_offset,
        )
        context.wall_clock_moved = self._wall_clock_moved
        try:
            with context.failures.collecting():
                self._tasks[plan.id].run_epoch(context, inputs, rows)
        except BaseException:
            failed, self._tasks[plan.id] = self._tasks[plan.id], make_task(subtopology, plan.partition)
            with contextlib.suppress(ProcessingError):  # it has failed already
                failed.close()
            raise
        finally:
            self._epoch += 1
            state.apply_changes(self._epoch, epoch.changes())
            self._collect(outputs, in_columns=self._tasks[plan.id].form == "columns")

    def _global_stores(self, subtopology: CompiledSubtopology) -> dict[str, ByteStore]:
        stores: dict[str, ByteStore] = {}
        for name in subtopology.reads_global:
            task = self._global_tasks[name]
            stores[name] = self._states[task].begin().task(task).store(name)
        return stores

    def _collect(self, outputs: Outputs, *, in_columns: bool) -> None:
        """In the order in which topics were sent to; in columns nothing is known but the one for a single record."""
        rows = [(row.edge, partial(self._waiting.add, row)) for row in outputs.rows]
        sent = [(batch.topic, partial(self._keep, batch)) for batch in outputs.batches()]
        places = self._sending if in_columns else {topic: place for place, topic in enumerate(outputs.reached)}
        for _, keep in sorted(sent + rows, key=lambda each: self._place(each[0], places)):
            keep()

    def _place(self, topic: str, places: Mapping[str, int]) -> int:
        """Of a topic among those that are sent to; 0 where it is chosen by the record."""
        return places.get(topic, places.get(topic.removeprefix(f"{self._application_id}-"), 0))

    def _keep(self, batch: OutputBatch) -> None:
        headers = batch.headers or [()] * len(batch)
        queue = self.output_queue(batch.topic)
        for record in zip(batch.keys, batch.values, batch.timestamps_ms, headers, strict=True):
            raw = RawRecord(batch.topic, *record)
            queue.append(raw)
            if batch.topic not in self._piped_results and self._reads(batch.topic):
                self._waiting.add_record(raw)


def _one(record: RawRecord, offset: int) -> RecordBatch:
    headers = [record.headers] if record.headers else None
    offsets, times = np.array([offset]), np.array([record.timestamp_ms])
    return RecordBatch(record.topic, 0, offsets, times, [record.key], [record.value], headers)
