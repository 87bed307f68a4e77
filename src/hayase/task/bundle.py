"""The epoch of one bundle, step by step, each step idempotent under the same epoch.

1. read, process; changes and outputs stay in memory, or go to disk beside the state if they are too many
2. publish the delta: the commit point. An attempt that finds one there discards its own work and adopts it
3. apply to the local state
4. write the outputs
5. hand the rows for higher levels on
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TypeVar

from hayase.core.errors import CheckpointError, StateError
from hayase.core.failpoints import reach
from hayase.core.logs import log_context
from hayase.core.metrics import ENTRIES, PROCESS_LATENCY, RESTORED, Metrics
from hayase.kernel.node.punctuation import NEVER
from hayase.log.protocol import Marker, OutgoingBatch
from hayase.state.changelog.changelog import Changelog
from hayase.state.delta.delta import Delta, Piece, encode_piece
from hayase.state.delta.journal import EdgeRow, Journal
from hayase.state.environment.bundle import BundleState
from hayase.state.environment.copy_from_follower import adopt_copy
from hayase.state.environment.environment import DAMAGE
from hayase.state.environment.epoch import EpochState
from hayase.state.environment.folders import logged_in_memory
from hayase.state.environment.spill import EpochSpace
from hayase.state.environment.unlogged import UnloggedStores, delete_unlogged, unlogged_folders
from hayase.state.stores.protocol import ByteStore
from hayase.task.bundle_result import BundleResult, EpochSteps, PreparedEpoch
from hayase.task.clocks import CLOCK_STORE
from hayase.task.compiled_subtopology import CompiledSubtopology
from hayase.task.edges import ReceivedRows
from hayase.task.epoch_record import EpochRecord, Epochs
from hayase.task.input_merge import fetch_inputs, first_edge_offset, records_to_read
from hayase.task.outputs import Outputs
from hayase.task.plan import BundlePlan, TaskPlan
from hayase.task.publication import Publication, publish
from hayase.task.task import LivingTasks
from hayase.task.task_context import TaskContext, WorkerServices

_LOG = logging.getLogger("hayase.task")

Result = TypeVar("Result")

_PIECE_BYTES_MAX = 16 << 20
"""A part of a delta is cut when it grows beyond this."""


@dataclass(frozen=True, slots=True)
class _Sent:
    """What an epoch sends."""

    outputs: Sequence[OutgoingBatch]
    rows: Iterable[EdgeRow]


class BundleRunner:
    """Runs the epochs of one bundle in this process.

    Another process may run the same bundle before, after, or meanwhile.
    """

    def __init__(
        self,
        subtopology: CompiledSubtopology,
        bundle: BundlePlan,
        services: WorkerServices,
        global_bundles: Mapping[str, str],
        plan_position: int | None = None,
    ) -> None:
        """Prepare; opens nothing yet.

        Args:
            subtopology: that of the bundle.
            bundle: the bundle.
            services: see WorkerServices.
            global_bundles: global store name → the bundle (and sub-topology) that holds it.
            plan_position: of the bundle (see `EpochWriter.publish_epoch`).
        """
        self._subtopology = subtopology
        self._bundle = bundle
        self._services = services
        self._global_bundles = global_bundles
        self._plan_position = plan_position
        self._state: BundleState | None = None
        own = [subtopology.stores[name] for node in subtopology.processors for name in node.stores]
        self._unlogged_folders = unlogged_folders(services.folders, bundle.id, own)
        self._in_memory = logged_in_memory(own)
        self._unlogged: UnloggedStores | None = None
        self._globals: dict[str, BundleState] = {}
        # Of tasks, for measurements: as of the last epoch that completed here, and of the one at work.
        self._stream_times_ms: dict[str, int] = {}
        self._new_stream_times_ms: dict[str, int] = {}
        self._due_ms = NEVER
        self._tasks = LivingTasks(subtopology)
        self._at_work = False
        self._changelog = Changelog(services.blobs, bundle.id)
        self._space: EpochSpace | None = None

    def run(self, record: EpochRecord, rows: ReceivedRows) -> BundleResult:
        """Run, or finish, the epoch of the record: prepare it, and publish its outputs.

        Arguments as of `prepare`.
        """
        return self._at_epoch(record, lambda: self._run(record, rows))

    def prepare(self, record: EpochRecord, rows: ReceivedRows) -> PreparedEpoch:
        """Run, or finish, the epoch of the record, without the publication, which is the caller's.

        Args:
            record: what the epoch reads.
            rows: what tasks of lower levels sent, to the tasks of this bundle among others.
        """
        return self._at_epoch(record, lambda: self._prepare(record, rows))

    def _at_epoch(self, record: EpochRecord, run: Callable[[], Result]) -> Result:
        with log_context(bundle=self._bundle.id, epoch=record.epoch):
            self._at_work = True
            try:
                try:
                    return run()
                except (StateError, *DAMAGE) as error:
                    if not self._rebuilds_after(error):
                        raise
                    _LOG.warning("the epoch is run again, over a state that is rebuilt: %s", error)
                    self._tasks.leave()
                    return run()
            except BaseException:
                self._tasks.leave()
                raise
            finally:
                self._at_work = False

    def _rebuilds_after(self, error: Exception) -> bool:
        """Whether the next attempt rebuilds what this one could not read."""
        if isinstance(error, StateError):
            return error.condition == "STATE_DAMAGED"
        unlogged = self._unlogged.states if self._unlogged is not None else ()
        states = [state for state in (self._state, *self._globals.values(), *unlogged) if state is not None]
        # LMDB does not say which. Where checksums do, the others are kept: stores without changelog cannot be rebuilt.
        for state in [state for state in states if state.has_wrong_pages()] or states:
            state.suspect(error)
        return True

    def _run(self, record: EpochRecord, rows: ReceivedRows) -> BundleResult:
        prepared = self._prepare(record, rows)
        (published,) = publish([prepared.publication], self._services.writer)
        return prepared.completed(published=published)

    def _prepare(self, record: EpochRecord, rows: ReceivedRows) -> PreparedEpoch:
        """All of the epoch but its publication."""
        steps = EpochSteps()
        self._free()
        space = self._space = EpochSpace(
            self._services.folders.spill(self._bundle.id), self._services.epoch_memory_max_bytes
        )
        self._new_stream_times_ms = {}
        self._due_ms = NEVER
        reach("before_process", bundle=self._bundle.id, epoch=record.epoch)
        # An epoch that was begun with a journal is finished with it, though the program may need none any more.
        journalled = self._subtopology.journalled or record.journals(self._bundle.id)
        if journalled:
            sent, adopted, metrics = self._run_journalled(record, rows, space, steps)
        else:
            self._tasks.leave()  # nothing would tell that another process has run an epoch in between
            outputs, metrics = self._process(record, rows, None, space)
            sent, adopted = _Sent(outputs.outgoing(), outputs.all_rows()), False
            steps.done("process")

        def completed() -> None:
            self._measure_state(metrics)
            self._stream_times_ms.update(self._new_stream_times_ms)

        services = self._services
        marker = Marker(services.checkpoint_id, record.epoch, record.digest)
        publication = Publication(
            services.application_id, self._bundle.id, marker, sent.outputs, services.exactly_once, self._plan_position,
            None if journalled else partial(self._changelog.redone.is_closed, record.epoch),
        )  # fmt: skip
        return PreparedEpoch(publication, sent.rows, adopted, metrics, steps, self._due(adopted=adopted), completed)

    def _due(self, *, adopted: bool) -> int | None:
        if not self._subtopology.timed:
            return None
        # Only the attempt that ran the adopted epoch knows; the next epoch tells.
        return 0 if adopted else None if self._due_ms == NEVER else self._due_ms

    def leave(self) -> None:
        """Close the processors, unless an epoch is at work, which a signal has interrupted."""
        if not self._at_work:
            self._tasks.leave()

    def close(self) -> None:
        """Let go of processors and of the local state."""
        self._tasks.leave()
        self._free()
        for state in (self._unlogged, self._state, *self._globals.values()):
            if state is not None:
                state.close()

    def _free(self) -> None:
        if self._space is not None:
            self._space.close()
            self._space = None

    def _run_journalled(
        self, record: EpochRecord, rows: ReceivedRows, space: EpochSpace, steps: EpochSteps
    ) -> tuple[_Sent, bool, Metrics]:
        state = self._local_state()
        earlier = self._changelog.get(record.epoch)
        if earlier is None and not self._changelog.catch_up(state, record.epoch - 1):
            # Another attempt has published and applied this epoch meanwhile.
            earlier = self._changelog.get(record.epoch)
        if earlier is not None:
            self._check(earlier, record)
            self._check_open(record)
            self._tasks.leave()
            self._changelog.catch_up(state, record.epoch)
            steps.done("adopt")
            return _Sent(earlier.outputs(), earlier.rows()), True, self._metrics()
        steps.done("restore")
        with (self._unlogged or state).begin() as epoch:
            self._check_position(epoch, record)
            self._delete_removed_stores(epoch)
            self._tasks.continue_from(epoch.epoch)
            outputs, metrics = self._process(record, rows, epoch, space)
            steps.done("process")
            mine = self._delta(record, epoch, outputs, space)
        if self._unlogged is None:
            space.close()
        reach("before_delta", bundle=self._bundle.id, epoch=record.epoch)
        delta = self._changelog.publish(mine)
        reach("after_delta", bundle=self._bundle.id, epoch=record.epoch)
        self._check_open(record)
        adopted = delta is not mine
        steps.done("delta")
        reach("before_apply", bundle=self._bundle.id, epoch=record.epoch)
        if adopted:
            self._tasks.leave()  # what they remember did not happen
            self._check(delta, record)
        elif self._unlogged is not None:
            # Before the state: an attempt that dies in between leaves stores that fit it as soon as it has caught up.
            self._unlogged.apply(epoch, delta)
            reach("between_applies", bundle=self._bundle.id, epoch=record.epoch)
        self._changelog.apply(state, delta)
        space.close()
        reach("after_apply", bundle=self._bundle.id, epoch=record.epoch)
        if not adopted:
            self._tasks.came_through(record.epoch)
        self._services.after_apply(state, self._changelog, delta)
        steps.done("apply")
        return _Sent(delta.outputs(), delta.rows()), adopted, self._metrics() if adopted else metrics

    def _delta(self, record: EpochRecord, epoch: EpochState, outputs: Outputs, space: EpochSpace) -> Delta:
        """The delta of what was processed. Of a large one the parts are published now."""
        delta = Delta(
            self._services.application_id, self._services.checkpoint_id, self._bundle.id, record.epoch, record.digest,
            epoch.epoch, epoch.digest,
        )  # fmt: skip
        if not (epoch.spilled or outputs.spilled):
            delta.changes, delta.journal = epoch.changes(), Journal(outputs.batches(), outputs.rows)
            return delta
        delta.changes = epoch.deleted_ranges()
        outputs.spill()
        pieces = chain(
            (Piece("changes", encode_piece(changes)) for changes in epoch.pieces(min(space.share, _PIECE_BYTES_MAX))),
            outputs.pieces(),
        )
        for number, piece in enumerate(pieces):
            delta.parts.append(self._changelog.publish_part(record.epoch, number, piece))
            reach("inside_delta", bundle=self._bundle.id, epoch=record.epoch)
        return delta

    def _measure_state(self, metrics: Metrics) -> None:
        for task, changes in self._changelog.restored.items():
            metrics.for_task(task).add(RESTORED, "", changes)
        self._changelog.restored.clear()
        if self._state is not None:
            for name, times in self._state.take_events().items():
                metrics.add(name, "", times)
            entries_of_stores = self._state.entries() | (self._unlogged.entries() if self._unlogged is not None else {})
            for (task, store), entries in entries_of_stores.items():
                if store != CLOCK_STORE:
                    metrics.for_task(task).add(ENTRIES, store, entries)

    def _check_position(self, epoch: EpochState, record: EpochRecord) -> None:
        """Check that the state is where the last epoch left it: at the last epoch in which the bundle had a journal."""
        if epoch.epoch >= record.epoch:
            raise StateError(
                "STATE_MOVED",
                f"the local state is at epoch {epoch.epoch} while epoch {record.epoch} is run: another attempt is at "
                "work on it. This attempt gives up; the next one goes on",
                bundle=self._bundle.id,
            )
        if epoch.epoch >= record.epoch - 1:
            return
        last = record.epoch - 1
        while last in self._changelog.redone:
            last -= 1
        if epoch.epoch < last and self._had_journal(last):
            raise self._changelog.missing_delta(epoch.epoch, last)

    def _check_open(self, record: EpochRecord) -> None:
        """Check that the attempt may go on with the delta that is in its place, before anything follows from it.

        A start that closes the epoch looks for deltas afterwards: this attempt sees that, or the start the delta.
        """
        self._changelog.redone.check_open(record.epoch, self._bundle.id)

    def _delete_removed_stores(self, epoch: EpochState) -> None:
        """Delete rows that stores of earlier plans have left, with the epoch: its delta says so to all copies."""
        for name in self._subtopology.deleted_stores:
            for task in self._bundle.tasks:
                if epoch.base_of((task.id, name)).count() > 0:
                    epoch.task(task.id).store(name).delete_range(None, None)

    def _had_journal(self, epoch: int) -> bool:
        """Whether the bundle published a delta in an epoch that is done: it does not where its program needs none."""
        record = Epochs(self._services.blobs).record(epoch)
        said = record.journals(self._bundle.id) if record is not None else None
        return self._changelog.has_state() if said is None else said

    def _check(self, delta: Delta, record: EpochRecord) -> None:
        if delta.checkpoint_id != self._services.checkpoint_id or delta.record_digest != record.digest:
            raise CheckpointError(
                "DELTA_OF_ANOTHER_EPOCH",
                "the delta in the checkpoint was made from another epoch record; the checkpoint holds files of two "
                "applications. Restore it from a copy, or start over with `hayase app reset`",
                bundle=self._bundle.id,
                epoch=record.epoch,
            )

    def _process(
        self, record: EpochRecord, rows: ReceivedRows, epoch: EpochState | None, space: EpochSpace
    ) -> tuple[Outputs, Metrics]:
        outputs, metrics = Outputs(space), self._metrics()

        def after_chunk() -> None:
            if space.read_bytes > space.share:
                outputs.spill(space.share)
                if epoch is not None:
                    epoch.spill(space.maps, space.share)

        stored = self._subtopology.stores
        globals_ = {
            name: self._global_state(bundle, record.epoch, in_memory=stored[name].in_memory)
            for name, bundle in self._needed_globals().items()
        }
        opened = {name: state.begin() for name, state in globals_.items()}
        try:
            stores: dict[str, ByteStore] = {
                name: begun.task(f"{self._global_bundles[name]}_0").store(name) for name, begun in opened.items()
            }
            for task in self._bundle.tasks:
                with log_context(task=task.id):
                    self._run_task(task, record, rows, epoch, stores, outputs, metrics, space, after_chunk)
        finally:
            for begun in opened.values():
                begun.close()
        return outputs, metrics

    def _run_task(
        self,
        task: TaskPlan,
        record: EpochRecord,
        rows: ReceivedRows,
        epoch: EpochState | None,
        global_stores: Mapping[str, ByteStore],
        outputs: Outputs,
        metrics: Metrics,
        space: EpochSpace,
        after_chunk: Callable[[], None],
    ) -> None:
        edge_inputs = rows.inputs_of(task.id)
        topic_inputs = fetch_inputs(self._services.reader(), record, task)
        if not (topic_inputs or edge_inputs or self._subtopology.timed):
            return
        subtopology = self._subtopology
        if not edge_inputs:
            subtopology = subtopology.for_records(records_to_read(record, task))
        context = TaskContext.make(
            subtopology,
            task.id,
            state=epoch.task(task.id) if epoch is not None else None,
            global_stores=global_stores,
            metrics=metrics.for_task(task.id),
            outputs=outputs,
            policy=self._services.policy,
            wall_clock_ms=record.wall_clock_ms,
            partitions_of=self._services.partitions_of,
            application_id=self._services.application_id,
            edge_offset=first_edge_offset(record.epoch),
            space=space,
            after_chunk=after_chunk,
            stream_time_ms=self._stream_times_ms.get(task.id, -1),
        )
        began = time.perf_counter()
        with context.failures.collecting():
            self._tasks.get(task, subtopology).run_epoch(context, topic_inputs, edge_inputs)
        self._due_ms = min(self._due_ms, context.due_ms)
        self._new_stream_times_ms[task.id] = context.meter.stream_time_ms
        context.metrics.measure(PROCESS_LATENCY, "", [(time.perf_counter() - began) * 1000])

    def _metrics(self) -> Metrics:
        return Metrics(self._services.recording_level)

    def _local_state(self) -> BundleState:
        if self._state is None:
            self._state = self._open(self._bundle.id, in_memory=self._in_memory)
            deleted = self._subtopology.deleted_stores
            if self._unlogged_folders:
                self._unlogged = UnloggedStores(self._state, self._unlogged_folders)
                self._unlogged.delete(deleted)
            if deleted:
                delete_unlogged(self._services.folders, self._bundle.id, self._unlogged_folders)
        return self._state

    def _needed_globals(self) -> Mapping[str, str]:
        return {name: self._global_bundles[name] for name in self._subtopology.reads_global}

    def _global_state(self, bundle: str, epoch: int, *, in_memory: bool) -> BundleState:
        """A global table's state at the epoch: its own bundle is a level below, so its delta is there."""
        state = self._globals.get(bundle)
        if state is None:
            state = self._globals[bundle] = self._open(bundle, in_memory=in_memory)
        if state.damaged or state.epoch != epoch:
            Changelog(self._services.blobs, bundle).catch_up(state, epoch)
        return state

    def _open(self, bundle: str, *, in_memory: bool) -> BundleState:
        path, spill = self._services.folders.logged(bundle, in_memory=in_memory), self._services.folders.spill(bundle)
        application_id, checkpoint_id = self._services.application_id, self._services.checkpoint_id
        copies = self._services.state_copies(bundle)
        adopt_copy(path, copies, application_id=application_id, checkpoint_id=checkpoint_id, bundle=bundle)
        return BundleState(path, application_id=application_id, checkpoint_id=checkpoint_id, bundle=bundle, spill=spill)
