"""Runs an application's tasks in this process, epoch by epoch, level by level.

What workers do, without Spark, log and disk.

Records that go in are `Given`s in the order of the log of their partition. `cuts` cuts them into epochs anywhere in the
merged order of all partitions. What comes out is compared by bytes. With `prefix`, expressions below the sources run in
columns in what runs in rows.
"""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from hayase.compiler.build import global_subtopology_id, make_plan, source_topics
from hayase.compiler.compile import compile_subtopologies
from hayase.compiler.options import compile_options, configured, failure_policy
from hayase.compiler.partitions import partition_counts
from hayase.core.config import StreamsConfig
from hayase.core.metrics import Metrics
from hayase.core.records import Headers
from hayase.log.protocol import RecordBatch
from hayase.serde.murmur2 import partition_for_key
from hayase.state.delta.journal import EdgeRow
from hayase.state.environment.memory import MemoryState
from hayase.state.environment.spill import EpochSpace
from hayase.task.input_merge import first_edge_offset, merge_order
from hayase.task.outputs import Outputs
from hayase.task.plan import BundlePlan, TaskPlan
from hayase.task.task import make_task
from hayase.task.task_context import TaskContext
from hayase.topology.topology import Topology


class Given(NamedTuple):
    """A record of a source topic."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Headers = ()


class Sent(NamedTuple):
    """A record that a task wrote."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Headers
    partition: int | None


@dataclass
class Result:
    """What a run left behind.

    Attributes:
        sent: by topic, in order.
        stores: contents by (task, store), the clocks included.
        metrics: all counters.
    """

    sent: dict[str, list[Sent]] = field(default_factory=dict)
    stores: dict[tuple[str, str], dict[bytes, bytes]] = field(default_factory=dict)
    metrics: Metrics = field(default_factory=Metrics)

    def last(self, topic: str) -> dict[bytes | None, bytes | None]:
        """The last value of each key."""
        return {record.key: record.value for record in self.sent.get(topic, [])}


class Chunking(NamedTuple):
    """How an epoch too large for memory is processed.

    Attributes:
        records: so many come in one batch.
        max_bytes: what the epoch may hold.
        spill: everything goes to disk after each chunk.
    """

    records: int = 1
    max_bytes: int = 1
    spill: bool = True


class LocalRun:
    """An application between two epochs."""

    def __init__(
        self,
        topology: Topology,
        topics: dict[str, int],
        threads: int = 1,
        *,
        prefix: bool = False,
        sink_partitions: int = 1,
        chunk: Chunking | None = None,
        by_turns: bool = False,
        read_back: Sequence[int] = (),
        **settings: Any,
    ) -> None:
        """With `by_turns`, what runs in columns runs every second epoch as one of few records does.

        The first epochs read `read_back` records of internal topics, the others all that there are.
        """
        self._topics, self._settings = topics, settings
        self._chunk = chunk
        self._read_back = read_back
        self._by_turns = by_turns
        config = StreamsConfig({"application.id": "test", **{k.replace("_", "."): v for k, v in settings.items()}})
        topology = configured(topology, config)
        topics = {topic: count for topic, count in topics.items() if topic in source_topics(topology)}
        counts = partition_counts(topology, topics)
        topics |= {topic: counts[topic] for topic in topology.internal_topics}
        self._waiting: list[Given] = []
        options = dataclasses.replace(compile_options(config), prefix=prefix)
        compiled = compile_subtopologies(topology, options)
        self.plan = make_plan(topology, topics, compiled, threads=threads)
        self.programs = compile_subtopologies(topology, options, self.plan.repartitions)
        self._sink_partitions = sink_partitions
        self._policy = failure_policy(config)
        self._states = {task.id: MemoryState() for bundle in self.plan.bundles for task in bundle.tasks}
        self._global_tasks = {
            t.store: f"{global_subtopology_id(topology, i)}_0" for i, t in enumerate(topology.global_tables)
        }
        plans = [task for bundle in self.plan.bundles for task in bundle.tasks]
        self._tasks = {task.id: make_task(self.programs[task.subtopology], task.partition) for task in plans}
        self._offsets: dict[tuple[str, int], int] = {}
        self._epoch = 0
        self.result = Result()

    def changed_to(self, topology: Topology) -> LocalRun:
        """The application goes on with another program, whose stores, topics and sub-topologies are the same."""
        after = LocalRun(topology, self._topics, **self._settings)
        after._states, after._offsets, after._epoch = self._states, self._offsets, self._epoch
        after._waiting, after.result = self._waiting, self.result
        return after

    def empty_store(self, name: str) -> None:
        """As in a checkpoint of a release that had no such store."""
        for task, state in self._states.items():
            if name in self.programs[self.plan.bundle_of(task).subtopology].stores:
                epoch = state.begin()
                epoch.task(task).store(name).delete_range(None, None)
                state.apply_changes(self._epoch, epoch.changes())
                self._epoch += 1

    def run_epoch(self, records: Sequence[Given]) -> None:
        """One epoch that reads these, and what the epochs before wrote to internal topics."""
        count = self._read_back[self._epoch] if self._epoch < len(self._read_back) else len(self._waiting)
        records, self._waiting = [*self._waiting[:count], *records], self._waiting[count:]
        by_partition: dict[tuple[str, int], list[Given]] = {}
        for record in records:
            by_partition.setdefault((record.topic, record.partition), []).append(record)
        raw = {place: self._raw(place, found) for place, found in by_partition.items()}
        rows: list[EdgeRow] = []
        for level in range(self.plan.levels):
            for bundle in self.plan.bundles:
                if bundle.level == level:
                    rows += self._run_bundle(bundle, raw, rows)
        self._epoch += 1

    def finish(self) -> Result:
        """What it left behind, when internal topics are empty."""
        while self._waiting:
            self.run_epoch([])
        for task, state in self._states.items():
            subtopology = self.plan.bundle_of(task).subtopology
            epoch = state.begin().task(task)
            for name in (*self.programs[subtopology].stores, "__clocks"):
                if name not in self._global_tasks or self.programs[subtopology].global_store == name:
                    self.result.stores[(task, name)] = dict(epoch.store(name).range())
        return self.result

    def _as_input(self, topic: str, sent: Sent) -> Given:
        partition = sent.partition
        if partition is None or partition < 0:
            partition = 0 if sent.key is None else partition_for_key(sent.key, self.plan.topics[topic])
        return Given(topic, partition, sent.key, sent.value, sent.timestamp_ms, sent.headers)

    def _raw(self, place: tuple[str, int], found: list[Given]) -> RecordBatch:
        start = self._offsets.get(place, 0)
        self._offsets[place] = start + len(found)
        headers = [record.headers for record in found] if any(record.headers for record in found) else None
        return RecordBatch(
            place[0],
            place[1],
            np.arange(start, start + len(found)),
            np.array([record.timestamp_ms for record in found], np.int64),
            [record.key for record in found],
            [record.value for record in found],
            headers,
        )

    def _run_bundle(
        self, bundle: BundlePlan, raw: dict[tuple[str, int], RecordBatch], rows: list[EdgeRow]
    ) -> list[EdgeRow]:
        with (
            TemporaryDirectory() as folder,
            EpochSpace(Path(folder), self._chunk.max_bytes if self._chunk else 0) as space,
        ):
            outputs = Outputs(space)
            for task in bundle.tasks:
                self._run_task(task, raw, [row for row in rows if row.task == task.id], outputs, space)
            first: Counter[str] = Counter()
            for outgoing in outputs.outgoing():
                batch = outgoing.load()
                assert (batch.topic, len(batch)) == (outgoing.topic, len(outgoing))
                assert batch.first == first[batch.topic]
                first[batch.topic] += len(batch)
                headers: Sequence[Headers] = batch.headers or [()] * len(batch)
                chosen: Sequence[Any] = [None] * len(batch) if batch.partitions is None else batch.partitions.tolist()
                records = zip(batch.keys, batch.values, batch.timestamps_ms, headers, chosen, strict=True)
                sent = [Sent(*record) for record in records]
                if batch.topic in self.plan.internal:
                    self._waiting += [self._as_input(batch.topic, record) for record in sent]
                else:
                    self.result.sent.setdefault(batch.topic, []).extend(sent)
            return list(outputs.all_rows())

    def _run_task(
        self,
        task: TaskPlan,
        raw: dict[tuple[str, int], RecordBatch],
        rows: list[EdgeRow],
        outputs: Outputs,
        space: EpochSpace,
    ) -> None:
        program = self.programs[task.subtopology]
        if self._by_turns and self._epoch % 2:
            program = program.for_records(0)
        size = self._chunk.records if self._chunk else sys.maxsize
        inputs = [(source, pieces(raw[(t, p)], size)) for source, t, p in task.topic_partitions if (t, p) in raw]
        edges: dict[tuple[str, str], list[EdgeRow]] = {}
        for row in rows:
            edges.setdefault((row.edge, row.origin), []).append(row)
        if not inputs and not edges:
            return
        epoch = self._states[task.id].begin()

        def after_chunk() -> None:
            if self._chunk is not None and self._chunk.spill:
                epoch.spill(space.maps)
                outputs.spill()

        context = TaskContext.make(
            program,
            task.id,
            state=epoch.task(task.id) if program.stateful else None,
            global_stores={
                name: self._states[self._global_tasks[name]].begin().task(self._global_tasks[name]).store(name)
                for name in program.reads_global
            },
            metrics=self.result.metrics,
            outputs=outputs,
            policy=self._policy,
            wall_clock_ms=0,
            partitions_of=lambda topic: self.plan.topics.get(topic, self._sink_partitions),
            edge_offset=first_edge_offset(self._epoch),
            space=space if self._chunk else None,
            after_chunk=after_chunk,
        )
        given = self.programs[task.subtopology]
        runs = self._tasks[task.id] if program is given else make_task(program, task.partition)
        runs.run_epoch(context, inputs, edges)
        self._states[task.id].apply_changes(self._epoch, epoch.changes())


def pieces(raw: RecordBatch, size: int) -> list[RecordBatch]:
    """Records of a partition in batches, as a log may give them."""
    found = []
    for start in range(0, len(raw), size):
        cut = slice(start, start + size)
        headers = None if raw.headers is None or not any(raw.headers[cut]) else raw.headers[cut]
        found.append(
            RecordBatch(
                raw.topic,
                raw.partition,
                raw.offsets[cut],
                raw.timestamps_ms[cut],
                raw.keys[cut],
                raw.values[cut],
                headers,
            )
        )
    return found


def merged(records: Sequence[Given]) -> list[Given]:
    """The records in merged order: by time, offset order kept inside partitions, ties by topic, then partition."""
    places = sorted({(record.topic, record.partition) for record in records})
    queues = [[record for record in records if (record.topic, record.partition) == place] for place in places]
    queue, row = merge_order([np.array([record.timestamp_ms for record in q], np.int64) for q in queues])
    return [queues[q][r] for q, r in zip(queue.tolist(), row.tolist(), strict=True)]


def run(topology: Topology, records: Sequence[Given], cuts: Sequence[int] = (), **settings: Any) -> Result:
    """Run records that are in merged order, cut into epochs at these positions; topics have one partition."""
    return run_partitions(topology, {record.topic: 1 for record in records}, records, cuts, **settings)


def run_partitions(
    topology: Topology, topics: dict[str, int], records: Sequence[Given], cuts: Sequence[int] = (), **settings: Any
) -> Result:
    """The same with several partitions."""
    every = {name: 1 for node in topology.nodes for name in getattr(node, "topics", ())}
    every |= {name: 1 for table in topology.global_tables for name in table.source.topics}
    local = LocalRun(
        topology, {n: topics.get(n, c) for n, c in every.items() if n not in topology.repartitions}, **settings
    )
    bounds = [0, *sorted({min(max(cut, 0), len(records)) for cut in cuts}), len(records)]
    for start, end in pairwise(bounds):
        local.run_epoch(records[start:end])
    return local.finish()
