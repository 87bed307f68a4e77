"""A Python worker of Spark: what it keeps from epoch to epoch, and how it runs the bundles of a slot."""

from __future__ import annotations

import atexit
import os
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from hayase.compiler.compile import compile_subtopologies
from hayase.core.errors import ConfigError, UnknownTopicError
from hayase.core.failpoints import reach
from hayase.core.private_files import private_folder
from hayase.core.steps import at_work
from hayase.log.open import open_log
from hayase.log.protocol import EpochWriter, Log, LogReader
from hayase.runtime.wire.app_spec import STATE_DIR_VARIABLE, AppSpec, load_app_spec
from hayase.runtime.wire.patient import PatientReader, PatientWriter, patience_of, patiently
from hayase.runtime.wire.shuffle_rows import ORDER, ROW, ShuffleRow, from_batch, to_batches
from hayase.runtime.wire.shutdown import ShutdownListener
from hayase.runtime.worker.lost_ranges import SkippingReader
from hayase.runtime.worker.slot_process import SlotProcess
from hayase.runtime.worker.watchdog import Watchdog
from hayase.serde.protocol import Serde
from hayase.state.changelog.changelog import Changelog
from hayase.state.changelog.snapshot_thread import SnapshotThread
from hayase.state.delta.delta import Delta
from hayase.state.environment.bundle import BundleState
from hayase.state.environment.crash_marker import current_boot_id
from hayase.state.environment.remote_bundles_marker import set_moving
from hayase.state.environment.spill import EpochSpace
from hayase.storage.open import open_blobs
from hayase.task.bundle import BundleRunner
from hayase.task.bundle_result import PreparedEpoch
from hayase.task.edges import ReceivedRows
from hayase.task.epoch_record import EpochRecord
from hayase.task.plan import BundlePlan
from hayase.task.publication import Publication, publish

if TYPE_CHECKING:
    from hayase.log.kafka.slot_writer import SlotStep, SlotWriter


class WorkerProcess:
    """What this process keeps for one application: connections, sub-topologies, open state. Never used after a fork."""

    def __init__(self, options: Mapping[str, str], process: SlotProcess | None = None) -> None:
        """Load the program and prepare; opens no state yet.

        Args:
            options: by which the program and the checkpoint are found.
            process: what topologies of a shared runtime have in common in this process; `None`: the process works for
                this application alone.
        """
        self._process = process
        self._patience = patience_of(options, f"worker-{os.getpid()}")
        self.blobs = open_blobs(options["checkpoint"], fsync=options["fsync"] == "true", patience=self._patience)
        self._app: AppSpec = load_app_spec(self.blobs, options["digest"])
        app = self._app
        if process is None:
            app.log_to_driver()
        self.application_id = app.application_id
        self.checkpoint_id = app.checkpoint_id
        self.exactly_once = app.exactly_once
        self.epoch_memory_max_bytes = app.epoch_memory_max_bytes
        self.policy = app.policy
        self.folders = app.folders_here()
        self.recording_level = app.recording_level
        self._followers_dir = app.on_this_machine(app.followers_dir)
        if app.cluster:
            self._settle_on_this_machine()
        self._subtopologies = compile_subtopologies(app.topology, app.options, app.plan.repartitions)
        self._runners: dict[str, BundleRunner] = {}
        self._log: Log | None = None
        self._reader: LogReader | None = None
        self._writer: EpochWriter | None = None
        self._partitions: dict[str, int] = {}
        self._global_bundles = {
            subtopology.global_store: subtopology.id
            for subtopology in app.plan.subtopologies.values()
            if subtopology.global_store is not None
        }
        self._bundle_of_task = {task.id: bundle for bundle in app.plan.bundles for task in bundle.tasks}
        self._snapshots = SnapshotThread(self.blobs, app.snapshots)
        by_level: dict[int, list[BundlePlan]] = {}
        for bundle in app.plan.bundles:
            by_level.setdefault(bundle.level, []).append(bundle)
        self._levels = by_level
        self._slot_of = app.slot_of_bundles()
        self._shutdown_listener = ShutdownListener(app.endpoints.control_dir, self._close_processors)
        self._says_shutdown_listener = False
        self._watchdog = process.watchdog if process is not None else Watchdog(app.max_poll_interval_ms / 1000)
        if process is None:
            self._watchdog.start()

    def spark_serdes(self, topic: str) -> tuple[Serde, Serde]:
        """The serdes that read a topic of `to_spark`."""
        return self._app.spark_serdes[topic]

    # what bundles see (hayase.task.task_context.WorkerServices)

    def reader(self) -> LogReader:
        """The process's reader."""
        if self._reader is None:
            log = self._opened_log()
            plain = log.reader() if self._process is None else self._process.reader(self._app.log)
            reader = PatientReader(plain, self._patience)
            self._reader = SkippingReader(log, reader) if self._app.on_range_lost == "reset" else reader
        return self._reader

    def writer(self) -> EpochWriter:
        """The process's writer."""
        if self._writer is None:
            plain = self._opened_log().writer() if self._process is None else self._process.writer(self._app.log)
            self._writer = PatientWriter(plain, self._patience)
        return self._writer

    def partitions_of(self, topic: str) -> int:
        """How many partitions a topic has; asked once, so one that grows is seen to have grown after a restart."""
        if topic not in self._partitions:
            info = patiently(self._patience, lambda: self._opened_log().describe([topic])).get(topic)
            if info is None:
                raise UnknownTopicError(
                    "UNKNOWN_TOPIC",
                    f"a record is to be written to topic {topic!r}, which does not exist; create it and start the "
                    "application again: nothing of the record's epoch has been written",
                    topic=topic,
                )
            self._partitions[topic] = info.partitions
        return self._partitions[topic]

    def state_copies(self, bundle: str) -> Sequence[Path]:
        """Those of followers of the application."""
        return [folder / bundle for folder in sorted(self._followers_dir.glob("*"))]

    def after_apply(self, state: BundleState, changelog: Changelog, delta: Delta) -> None:
        """Have a snapshot taken in the background when the policy says so."""
        self._snapshots.offer(state)

    # running

    def run_level(self, level: int, slot: int, record: EpochRecord, rows: ReceivedRows) -> Iterator[ShuffleRow]:
        """Run the slot's bundles of a level; yields what goes on: rows, the next level's orders, summaries."""
        if level + 1 < self._app.plan.levels:
            data = record.to_bytes()
            slots = range(self._app.slots) if level == 0 and slot == 0 else [slot] if level else []
            for target in slots:
                yield ShuffleRow.order(target, level + 1, data)
        for bundle in self._levels.get(level, []):
            if self._slot_of[bundle.id] == slot:
                with at_work(bundle.id, record.epoch):
                    result = self._runner(bundle).run(record, rows)
                for row in result.rows:
                    yield ShuffleRow(self._slot_of[self._bundle_of_task[row.task].id], ROW, row)
                yield ShuffleRow.summary(record.epoch, result.summary.to_bytes(), bundle.id)

    def prepare_level(self, level: int, slot: int, record: EpochRecord, rows: ReceivedRows) -> Iterator[PreparedEpoch]:
        """In a shared runtime: as `run_level`, without the publication, which is the caller's."""
        for bundle in self._levels.get(level, []):
            if self._slot_of[bundle.id] == slot:
                with at_work(bundle.id, record.epoch):
                    prepared = self._runner(bundle).prepare(record, rows)
                yield prepared

    def publish(self, publication: Publication) -> bool:
        """In a shared runtime: publish what is not the slot producer's; whether it was written now."""
        with at_work(publication.bundle, publication.marker.epoch):
            (written,) = publish([publication], self.writer)
        return written

    def publish_by_slot(self, steps: Sequence[SlotStep]) -> list[bool]:
        """In a shared runtime: publish steps of this topology, alone, with the slot's producer, which is waited for."""
        writer = self.slot_writer()
        with at_work(steps[0].bundle, steps[0].marker.epoch):
            return patiently(self._patience, lambda: writer.publish(steps))

    def slot_writer(self) -> SlotWriter:
        """In a shared runtime: the producer of the slots that this process has been."""
        assert self._process is not None
        return self._process.slot_writer(self._app.log)

    def level_and_slot(self, task: str) -> tuple[int, int]:
        """Of the bundle of a task."""
        bundle = self._bundle_of_task[task]
        return bundle.level, self._slot_of[bundle.id]

    def received(self) -> ReceivedRows:
        """Takes rows for bundles of this process, in memory up to the epoch's share of it."""
        return ReceivedRows(space=EpochSpace(self.folders.spill("received"), self.epoch_memory_max_bytes))

    def level_of(self, task: str) -> int:
        """The level of a task's bundle."""
        return self._bundle_of_task[task].level

    def watch(self) -> None:
        """In a shared runtime: have the process's watchdog take this topology's limit from now on."""
        self._watchdog.set_limit(self._app.max_poll_interval_ms / 1000)

    @property
    def can_share_files(self) -> bool:
        """Whether other slots see this machine's files."""
        return not self._app.cluster

    @property
    def control_dir(self) -> Path:
        """The folder of the topology's run."""
        return Path(self._app.endpoints.control_dir)

    def _close_processors(self) -> None:
        """Those of bundles that are not at work: others fail with what they are at."""
        for runner in self._runners.values():
            runner.leave()

    def close(self) -> None:
        """Let go of everything; waits for a snapshot that is being made."""
        self._shutdown_listener.stop()
        self._snapshots.close()
        for runner in self._runners.values():
            runner.close()
        if self._process is not None:  # the process's connections go on for other topologies
            return
        self._watchdog.stop()
        for opened in (self._reader, self._writer, self._log):
            if opened is not None:
                opened.close()

    def _runner(self, bundle: BundlePlan) -> BundleRunner:
        runner = self._runners.get(bundle.id)
        if runner is None:
            timed = self._process is None and self._subtopologies[bundle.subtopology].timed
            if timed and not self._says_shutdown_listener:
                self._says_shutdown_listener = True
                self._shutdown_listener.start()
            position = self._app.plan_positions.get(bundle.id)
            if position is None:
                position = self._app.plan.bundles.index(bundle)
            runner = BundleRunner(self._subtopologies[bundle.subtopology], bundle, self, self._global_bundles, position)
            self._runners[bundle.id] = runner
        return runner

    def _settle_on_this_machine(self) -> None:
        """On a cluster: check that this machine is fit, and tell its readers that bundles move."""
        if self._app.log.kind == "embedded" and self._app.machine != current_boot_id():
            raise ConfigError(
                "LOG_ON_ANOTHER_MACHINE",
                f"the embedded log is a folder of one machine, and {socket.gethostname()} is another one than that of "
                "the program; on several machines topics are in Kafka: set bootstrap.servers",
            )
        try:
            private_folder(self.folders.disk, self._app.files_access)
            set_moving(self.folders.disk / "state", moving=True)
        except OSError as error:
            raise ConfigError(
                "STATE_DIR_NOT_USABLE",
                f"{socket.gethostname()} cannot keep state in {self.folders.disk}: {error.strerror}; set state.dir to "
                f"a local folder that every machine has, or {STATE_DIR_VARIABLE} in the environment of its Spark "
                "worker",
            ) from error

    def _opened_log(self) -> Log:
        if self._log is None:
            self._log = open_log(self._app.log) if self._process is None else self._process.log(self._app.log)
        return self._log


_PROCESSES: dict[tuple[int, str], WorkerProcess] = {}


def worker_process(options: Mapping[str, str]) -> WorkerProcess:
    """The worker of this process for an application; made when first asked for, older ones are closed."""
    key = (os.getpid(), options["digest"])
    worker = _PROCESSES.get(key)
    if worker is None:
        for (pid, _), old in list(_PROCESSES.items()):
            if pid == os.getpid():
                old.close()
        _PROCESSES.clear()
        worker = _PROCESSES[key] = WorkerProcess(options)
        atexit.register(worker.close)
    return worker


def run_source_slot(options: Mapping[str, str], slot: int, record: bytes) -> Iterator[pa.RecordBatch]:
    """Level 0, inside the source's `read`."""
    worker = worker_process(options)
    decoded = EpochRecord.from_bytes(record)
    yield from to_batches(worker.run_level(0, slot, decoded, ReceivedRows()))
    reach("after_rows", epoch=decoded.epoch)


def run_level_slot(
    options: Mapping[str, str], level: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """A higher level, inside `mapInArrow`.

    Takes all rows of its slot, runs its bundles, passes on what is not its own.
    """
    worker: WorkerProcess | None = None
    mine: ReceivedRows | None = None
    orders: list[ShuffleRow] = []

    def others() -> Iterator[ShuffleRow]:
        nonlocal worker, mine
        for batch in batches:
            for row in from_batch(batch):
                if worker is None or mine is None:
                    worker = worker_process(options)
                    mine = worker.received()
                if row.kind == ORDER and row.row.seq == level:
                    orders.append(row)
                elif row.kind == ROW and worker.level_of(row.row.task) == level:
                    mine.add(row.row)
                else:
                    yield row

    try:
        yield from to_batches(others())
        if worker is not None and mine is not None:
            for order in orders:
                record = EpochRecord.from_bytes(order.row.payload)
                yield from to_batches(worker.run_level(level, order.slot, record, mine))
                reach("after_rows", epoch=record.epoch)
    finally:
        if mine is not None:
            mine.close()
