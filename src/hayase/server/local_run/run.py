"""The tasks of a topology in this process: epochs over batches of records, with state in memory."""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hayase.compiler.build import global_subtopology_id, make_plan, source_topics
from hayase.compiler.compile import compile_subtopologies
from hayase.compiler.options import compile_options, configured, failure_policy
from hayase.compiler.partitions import partition_counts
from hayase.core.config import StreamsConfig
from hayase.core.errors import HayaseError, StateError, UnknownStoreError
from hayase.core.metrics import Metrics
from hayase.core.time import SystemClock
from hayase.log.protocol import OutputBatch, RecordBatch
from hayase.serde.murmur2 import partitions_for_keys
from hayase.state.delta.changes import StateChanges
from hayase.state.delta.journal import EdgeRow
from hayase.state.environment.memory import MemoryState
from hayase.state.stores.protocol import ByteStore
from hayase.state.stores.spec import StoreSpec
from hayase.task.compiled_subtopology import CompiledSubtopology
from hayase.task.input_merge import first_edge_offset
from hayase.task.outputs import Outputs
from hayase.task.plan import TaskPlan
from hayase.task.task import Task, make_task
from hayase.task.task_context import TaskContext
from hayase.topology.topology import Topology

STATE_BYTES_MAX = 256 << 20
_ENTRY_BYTES = 150
"""What an entry of a store costs beside the bytes of its key and value."""
_Rows = dict[str, dict[tuple[str, str], list[EdgeRow]]]
"""Rows by receiving task, then by edge and origin."""


class LocalRun:
    """Runs a topology without Spark, checkpoint and changelogs: what it knows is gone when it is closed.

    Each call of `run` is an epoch: of all sub-topologies, the records of internal topics included. Stores may be read
    from other threads while `lock` is held.

    Args:
        topology: what runs.
        settings: of Hayase; `application.id` may be left out. Tasks run in rows unless `processing.form` is given:
            what comes within milliseconds is a few records, for which columns cost ten times as much.
        partitions_of: how many partitions a topic of the log has; raises UnknownTopicError.
        state_bytes_max: about how much memory the state may take.

    Raises:
        TopologyError: partition counts do not fit.
        UnknownTopicError: a source topic does not exist.
    """

    def __init__(
        self,
        topology: Topology,
        settings: Mapping[str, object],
        partitions_of: Callable[[str], int],
        *,
        state_bytes_max: int = STATE_BYTES_MAX,
    ) -> None:
        config = StreamsConfig({"application.id": "local", "processing.form": "rows", **settings})
        self.topology = topology = configured(topology, config)
        self.lock = threading.RLock()
        self.metrics = Metrics(config.metrics_recording_level)
        self._application_id = config.application_id
        self._policy = failure_policy(config)
        self._partitions_of = partitions_of
        self._now_ms = SystemClock().now_ms
        of_log = {topic: partitions_of(topic) for topic in self.source_topics}
        counts = partition_counts(topology, of_log)
        self._internal = {topic: counts[topic] for topic in topology.internal_topics}
        known = {**of_log, **self._internal}
        counts = partition_counts(topology, known)
        self._subtopologies = compile_subtopologies(topology, compile_options(config), counts)
        plan = make_plan(topology, known, self._subtopologies, threads=1)
        bundles = sorted(plan.bundles, key=lambda bundle: bundle.level)
        self._plans = [task for bundle in bundles for task in bundle.tasks]
        self._states = {task.id: MemoryState() for task in self._plans}
        self._tasks = {task.id: self._new_task(task) for task in self._plans}
        self._offsets: defaultdict[tuple[str, int], int] = defaultdict(int)
        self._epoch = 0
        self._state_bytes = 0
        self._state_bytes_max = state_bytes_max

    @property
    def source_topics(self) -> list[str]:
        """Topics of the log that the topology reads, without its internal ones."""
        return [topic for topic in source_topics(self.topology) if topic not in self.topology.internal_topics]

    def run(self, batches: Iterable[RecordBatch]) -> list[OutputBatch]:
        """Process records to their end; what they write to topics of the log, in order.

        Args:
            batches: of source topics; those of one partition follow each other.

        Raises:
            ProcessingError: an exception handler has refused a record, or user code has failed; the run can only be
                closed then.
            StateError: `LOCAL_STATE_TOO_LARGE`.
        """
        with self.lock:
            written: list[OutputBatch] = []
            waiting = list(batches)
            while True:
                sent = self._run_epoch(waiting)
                written += [batch for batch in sent if batch.topic not in self._internal]
                waiting = [part for batch in sent if batch.topic in self._internal for part in self._received(batch)]
                if not waiting:
                    return written

    def spec(self, store: str) -> StoreSpec:
        """What a store is; raises UnknownStoreError."""
        if store not in self.topology.stores:
            raise UnknownStoreError(
                "UNKNOWN_STORE", f"there is no store {store!r} here; there are {sorted(self.topology.stores)}"
            )
        return self.topology.stores[store]

    def store_partitions(self, store: str) -> list[ByteStore]:
        """A store of every task that has it, by partition; to be read while `lock` is held."""
        self.spec(store)
        holders = [task for task in self._plans if self._holds(task, store)]
        return [self._states[task.id].begin().task(task.id).store(store) for task in holders]

    def close(self) -> None:
        """Close the processors and let go of the state; calling it again does nothing."""
        with self.lock:
            tasks, self._tasks = self._tasks, {}
            for task in tasks.values():
                with contextlib.suppress(HayaseError):  # a processor whose close fails has nothing to lose any more
                    task.close()
            self._states = {}
            self._plans = []

    def _run_epoch(self, batches: Sequence[RecordBatch]) -> list[OutputBatch]:
        by_partition: defaultdict[tuple[str, int], list[RecordBatch]] = defaultdict(list)
        for batch in batches:
            by_partition[batch.topic, batch.partition].append(batch)
        rows: _Rows = {}
        written: list[OutputBatch] = []
        for plan in self._plans:
            inputs = [
                (source, RecordBatch.of(topic, partition, by_partition[topic, partition]))
                for source, topic, partition in plan.topic_partitions
                if (topic, partition) in by_partition
            ]
            received = rows.pop(plan.id, {})
            if inputs or received or self._subtopologies[plan.subtopology].timed:
                outputs = self._run_task(plan, inputs, received)
                written += outputs.batches()
                for row in outputs.rows:
                    rows.setdefault(row.task, {}).setdefault((row.edge, row.origin), []).append(row)
        return written

    def _run_task(self, plan: TaskPlan, inputs: Any, received: Mapping[tuple[str, str], list[EdgeRow]]) -> Outputs:
        subtopology, state = self._subtopologies[plan.subtopology], self._states[plan.id]
        epoch, outputs = state.begin(), Outputs()
        context = TaskContext.make(
            subtopology,
            plan.id,
            state=epoch.task(plan.id),
            global_stores=self._global_stores(subtopology),
            metrics=self.metrics,
            outputs=outputs,
            policy=self._policy,
            wall_clock_ms=self._now_ms(),
            partitions_of=self._partitions_of,
            application_id=self._application_id,
            edge_offset=first_edge_offset(self._epoch),
        )
        self._tasks[plan.id].run_epoch(context, inputs, received)
        self._epoch += 1
        changes = epoch.changes()
        state.apply_changes(self._epoch, changes)
        self._check_size(changes)
        return outputs

    def _global_stores(self, subtopology: CompiledSubtopology) -> dict[str, ByteStore]:
        stores: dict[str, ByteStore] = {}
        for position, table in enumerate(self.topology.global_tables):
            if table.store in subtopology.reads_global:
                task = f"{global_subtopology_id(self.topology, position)}_0"
                stores[table.store] = self._states[task].begin().task(task).store(table.store)
        return stores

    def _holds(self, task: TaskPlan, store: str) -> bool:
        subtopology = self._subtopologies[task.subtopology]
        return store in subtopology.stores or subtopology.global_store == store

    def _new_task(self, plan: TaskPlan) -> Task:
        return make_task(self._subtopologies[plan.subtopology], plan.partition)

    def _received(self, batch: OutputBatch) -> list[RecordBatch]:
        """What was written to an internal topic, as its readers get it."""
        count = self._internal[batch.topic]
        partitions = batch.partitions
        if partitions is None:
            partitions = partitions_for_keys(batch.keys, count)
        times = np.asarray(batch.timestamps_ms, np.int64)
        received = []
        for partition in np.flatnonzero(np.bincount(partitions)):
            taken = np.flatnonzero(partitions == partition)
            first = self._offsets[batch.topic, int(partition)]
            self._offsets[batch.topic, int(partition)] = first + len(taken)
            whole = RecordBatch(
                batch.topic, int(partition), np.zeros(len(batch), np.int64), times, batch.keys, batch.values,
                batch.headers,
            )  # fmt: skip
            part = whole.take(taken.tolist())
            part.offsets = np.arange(first, first + len(taken))
            received.append(part)
        return received

    def _check_size(self, changes: StateChanges) -> None:
        """Refuse a state that has become too large: a bound first, counted exactly where that is exceeded."""
        for store in changes.stores.values():
            self._state_bytes += sum(map(len, store.keys)) + sum(len(value) for value in store.values if value)
            self._state_bytes += _ENTRY_BYTES * len(store.keys)
        if self._state_bytes <= self._state_bytes_max:
            return
        self._state_bytes = sum(self._size_of(name) for name in self.topology.stores)
        if self._state_bytes > self._state_bytes_max:
            raise StateError(
                "LOCAL_STATE_TOO_LARGE",
                f"the query needs more than {self._state_bytes_max >> 20} MB of memory for its state. Make a table of "
                "it, CREATE TABLE … AS SELECT, which keeps its state on disk, and read that",
            )

    def _size_of(self, store: str) -> int:
        return sum(
            len(key) + len(value) + _ENTRY_BYTES
            for partition in self.store_partitions(store)
            for key, value in partition.range()
        )
