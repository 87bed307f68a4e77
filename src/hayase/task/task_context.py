"""What a task is given: in an epoch its TaskContext, by the process that runs its bundle the WorkerServices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hayase.core.errors import UnknownStoreError
from hayase.core.metrics import Metrics
from hayase.core.time import SystemClock
from hayase.kernel.node.punctuation import NEVER
from hayase.log.protocol import EpochWriter, LogReader
from hayase.state.changelog.changelog import Changelog
from hayase.state.delta.delta import Delta
from hayase.state.environment.bundle import BundleState
from hayase.state.environment.folders import StateFolders
from hayase.state.environment.spill import EpochSpace
from hayase.state.stores.protocol import ByteStore, TaskState
from hayase.state.stores.spec import StoreSpec
from hayase.storage.blobs import BlobStore
from hayase.task.clocks import StateClocks
from hayase.task.compiled_subtopology import CompiledSubtopology, FailurePolicy
from hayase.task.failures import Failures
from hayase.task.meter import TaskMeter
from hayase.task.outputs import Outputs
from hayase.task.processing_log import ProcessingLog

_NOW_MS = SystemClock().now_ms


@dataclass(slots=True)
class TaskContext:
    """State, clocks, counters and exits of one task during one epoch."""

    subtopology: CompiledSubtopology
    task: str
    state: TaskState | None
    globals: Mapping[str, ByteStore]
    clocks: StateClocks
    metrics: Metrics
    outputs: Outputs
    failures: Failures
    wall_clock_ms: int
    partitions_of: Callable[[str], int]
    meter: TaskMeter
    application_id: str = ""
    edge_offset: int = 0
    """Where the offsets of records that came over edges begin."""
    space: EpochSpace | None = None
    """Where an epoch puts what is too much for memory; `None`: it stays in memory."""
    due_ms: int = NEVER
    """When something of the task is due by the wall clock; known at the end of the epoch."""
    wall_clock_moved: bool = True
    """Whether to call what is due by the wall clock; the test driver does only when its clock is moved."""
    after_chunk: Callable[[], None] = lambda: None
    """Called when a chunk of the input is processed: time to spill, perhaps."""

    @classmethod
    def make(
        cls,
        subtopology: CompiledSubtopology,
        task: str,
        *,
        state: TaskState | None,
        global_stores: Mapping[str, ByteStore],
        metrics: Metrics,
        outputs: Outputs,
        policy: FailurePolicy,
        wall_clock_ms: int,
        partitions_of: Callable[[str], int],
        application_id: str = "",
        edge_offset: int = 0,
        space: EpochSpace | None = None,
        after_chunk: Callable[[], None] = lambda: None,
        now_ms: Callable[[], int] = _NOW_MS,
        stream_time_ms: int = -1,
    ) -> TaskContext:
        """Services of a task for one epoch.

        `state` is `None` for a sub-topology without state; `partitions_of` says how many partitions a topic has, or
        raises UnknownTopicError; `now_ms` and `stream_time_ms` are for measurements only (see TaskMeter).
        """
        edges = [source.edge for source in subtopology.sources if source.edge is not None]
        topics = {edge: f"{application_id}-{edge}" for edge in edges}
        log = None
        if policy.processing_log is not None:
            log = ProcessingLog(policy.processing_log, outputs, application_id, wall_clock_ms)
        failures = Failures(policy, task, metrics, outputs, topics, log)
        clocks = StateClocks(state, subtopology.clocks)
        meter = TaskMeter(metrics, now_ms, clocks, stream_time_ms)
        return cls(
            subtopology,
            task,
            state,
            global_stores,
            clocks,
            metrics,
            outputs,
            failures,
            wall_clock_ms,
            partitions_of,
            meter,
            application_id,
            edge_offset,
            space,
            after_chunk=after_chunk,
        )

    def byte_store(self, name: str) -> ByteStore:
        """A store of the task, or a global store.

        Raises:
            UnknownStoreError: the sub-topology has no such store.
        """
        global_store = self.globals.get(name)
        if global_store is not None:
            return global_store
        if name not in self.subtopology.stores or self.state is None:
            raise UnknownStoreError(
                "UNKNOWN_STORE",
                f"there is no store {name!r} here; this task has {sorted(self.subtopology.stores)}",
                task=self.task,
            )
        return self.state.store(name)

    def store_spec(self, name: str) -> StoreSpec:
        """What that store is; raises UnknownStoreError."""
        try:
            return self.subtopology.stores[name]
        except KeyError:
            raise UnknownStoreError("UNKNOWN_STORE", f"there is no store {name!r} here", task=self.task) from None


class WorkerServices(Protocol):
    """What the process that runs a bundle offers; kept from epoch to epoch."""

    application_id: str
    checkpoint_id: str
    exactly_once: bool
    policy: FailurePolicy
    blobs: BlobStore
    folders: StateFolders
    epoch_memory_max_bytes: int
    recording_level: str

    def reader(self) -> LogReader:
        """The process's reader."""
        ...

    def writer(self) -> EpochWriter:
        """The process's writer."""
        ...

    def partitions_of(self, topic: str) -> int:
        """How many partitions a topic of the log has; raises UnknownTopicError."""
        ...

    def state_copies(self, bundle: str) -> Sequence[Path]:
        """Folders of other states of a bundle on this machine; a state that is missing begins as a copy of one."""
        ...

    def after_apply(self, state: BundleState, changelog: Changelog, delta: Delta) -> None:
        """Called when a delta has been applied: time for a snapshot, perhaps."""
        ...
