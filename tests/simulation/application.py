"""A run of an application: its driver, the planner beside it, and the workers, each a simulated process.

The parts of Spark are played here: asking the planner for epochs, running the slots of each level, trying again what
failed, and giving up attempts of which nothing is heard; these may well go on. All else is the product's code.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.simulation.logs import SimulatedLog
from tests.simulation.object_store import URL, ObjectStore
from tests.simulation.scheduler import Crashed, Mailbox, Process, Sim

from hayase.app.prepare import prepare
from hayase.compiler.options import configured
from hayase.core.config import StreamsConfig
from hayase.core.errors import HayaseError, LeaseHeldError, ProcessingError
from hayase.query.follower_replica import FollowerReplica
from hayase.query.local_folders import followers_folder
from hayase.runtime.driver.lease import lease_for
from hayase.runtime.epochs.planner import EpochPlanner
from hayase.runtime.wire.app_spec import AppSpec, delete_other_programs, load_app_spec
from hayase.runtime.wire.endpoints import RunEndpoints
from hayase.runtime.wire.planner_control import PlannerControl
from hayase.runtime.wire.shuffle_rows import ROW, ShuffleRow
from hayase.runtime.worker.worker import WorkerProcess
from hayase.task.edges import ReceivedRows
from hayase.task.epoch_record import EpochRecord
from hayase.topology.topology import Topology

APPLICATION = "app"
_ATTEMPTS = 3
_SILENT_S = 25.0
_IDLE_S = 0.5
_WATCH_S = 0.5


class Gone(Exception):
    """A process that was waited for is not there any more."""


class NoVault:
    """No secrets, so no sockets."""

    @contextlib.contextmanager
    def sealing(self) -> Iterator[None]:
        yield


@dataclass
class Place:
    """What all runs share.

    Attributes:
        store: the bucket of the checkpoint.
        machines: how many there are.
        folder: on this real machine.
        settings: of the application.
        epoch_memory_max_bytes: smaller than the setting allows, so that small epochs are too large for memory.
        delete_removed_stores: see `prepare`.
        away: machines that are off, each with whether it is back, its disk as it was.
    """

    sim: Sim
    store: ObjectStore
    log: SimulatedLog
    machines: int
    folder: Path
    settings: dict[str, Any] = field(default_factory=dict)
    epoch_memory_max_bytes: int | None = None
    delete_removed_stores: bool = False
    away: dict[int, Callable[[], bool]] = field(default_factory=dict)

    def present(self) -> list[int]:
        """The machines that Spark has just now; of one that has just come back, it makes use first."""
        back = [machine for machine, is_back in self.away.items() if is_back()]
        for machine in back:
            self.sim.trace(f"BACK machine {machine}")
            del self.away[machine]
        machines = range(self.machines)
        return back or [machine for machine in machines if machine not in self.away] or list(machines)

    def config(self) -> StreamsConfig:
        topics = (
            {"bootstrap.servers": "simulated:9092"}
            if self.log.config.kind == "kafka"
            else {"log.dir": self.log.config.location}
        )
        return StreamsConfig(
            {
                "application.id": APPLICATION,
                "checkpoint.dir": URL,
                "state.dir": str(self.folder / "driver"),
                "num.stream.threads": 2,
                "statestore.cache.max.bytes": 0,
                **topics,
                **self.settings,
            }
        )


class Worker:
    """A worker process: runs one slot of one level after the other."""

    def __init__(self, run: Run, machine: int) -> None:
        self.sim = run.place.sim
        self._digest = run.digest
        self._place = run.place
        self.process = self.sim.new_process(f"{run.name}.worker{run.next_worker()}@{machine}", machine)
        self.jobs = Mailbox(self.sim)
        self.busy = False
        self._host: WorkerProcess | None = None
        self.process.spawn(self._main)

    def _main(self) -> None:
        try:
            while (job := self.jobs.take()) is not None:
                self._work(*job)
            if self._host is not None:
                self._host.close()
        except Crashed:
            self._release()
            raise

    def _work(
        self, level: int, slot: int, record: EpochRecord, rows: list[Any], attempt: int, answers: Mailbox
    ) -> None:
        self.sim.trace(f"{self.process.name} runs level {level} slot {slot} of epoch {record.epoch}, attempt {attempt}")
        try:
            if self._host is None:
                self._host = WorkerProcess({"checkpoint": URL, "fsync": "true", "digest": self._digest})
            result = list(self._host.run_level(level, slot, record, ReceivedRows(rows)))
        except HayaseError as error:
            self.sim.trace(f"{self.process.name} failed: {error.condition}")
            answers.put((slot, attempt, error))
        else:
            answers.put((slot, attempt, result))
        finally:
            self.busy = False

    def _release(self) -> None:
        """What the operating system does for a dead process: its file locks go."""
        if self._host is not None:
            for runner in self._host._runners.values():
                for state in (runner._state, *runner._globals.values()):
                    if state is not None:
                        state._hold.release()


class Run:
    """A started copy of the application.

    Attributes:
        version: of the program.
        error: why it ended, if it failed.
        ended: it is not running any more.
        begun: it has got as far as to plan epochs.
    """

    def __init__(self, place: Place, name: str, machine: int, topology: Topology, version: str) -> None:
        self.place = place
        self.name = name
        self.version = version
        self.digest = ""
        self.error: HayaseError | None = None
        self.ended = False
        self.begun = False
        self.epochs_done = 0
        self.stop_requested = False
        self.process = place.sim.new_process(name, machine)
        self.planner: Process | None = None
        self.workers: list[Worker] = []
        self._workers_made = 0
        self._topology = topology
        self._sticky = place.sim.rng.random()
        self.process.spawn(self._main)

    @property
    def alive(self) -> bool:
        return self.process.alive and not self.ended

    def next_worker(self) -> int:
        self._workers_made += 1
        return self._workers_made

    def processes(self) -> list[Process]:
        """All that are alive."""
        every = [self.process, *([self.planner] if self.planner else []), *(worker.process for worker in self.workers)]
        return [each for each in every if each.alive]

    def crash(self, *, workers: bool) -> None:
        """Kill the driver and its planner, perhaps with the workers: those of a cluster live on for a while."""
        for process in self.processes():
            if workers or process in (self.process, self.planner):
                process.crash()

    # the driver

    def _main(self) -> None:
        sim = self.place.sim
        try:
            self._drive()
        except HayaseError as error:
            self.error = error
            sim.trace(f"{self.name} ends: {shown(error)}")
        else:
            sim.trace(f"{self.name} ends in order")
        finally:
            self.ended = True
            self.process.alive = False

    def _drive(self) -> None:
        place, blobs = self.place, self.place.store.blobs()
        config = place.config()
        with lease_for(blobs, APPLICATION) as lease:
            folder = place.folder / self.name
            folder.mkdir()
            run_place = RunEndpoints(str(folder), str(folder))
            again, unfinished = True, None
            while again:  # a program that finishes an epoch of another plan is followed by the one that was started
                shipped = prepare(
                    configured(self._topology, config), config, blobs, run_place, {},
                    delete_removed_stores=place.delete_removed_stores, unfinished=unfinished,
                )  # fmt: skip
                if place.epoch_memory_max_bytes is not None:
                    shipped = dataclasses.replace(shipped, epoch_memory_max_bytes=place.epoch_memory_max_bytes)
                self.digest = shipped.publish(blobs, NoVault())  # type: ignore[arg-type]
                delete_other_programs(blobs, self.digest)
                unfinished = None
                try:
                    self._query_until_end(lease, folder)
                except ProcessingError as error:
                    unfinished = shipped.finishes
                    if unfinished is None:
                        raise
                    self.place.sim.trace(f"{self.name} cannot finish epoch {unfinished}: {shown(error)}")
                finally:
                    if self.process.alive:
                        for worker in self.workers:
                            worker.jobs.put(None)
                    self.workers = []
                again = shipped.hands_over and not self.stop_requested

    def _query_until_end(self, lease: Any, folder: Path) -> None:
        """A query that fails for a reason that passes is replaced, as the supervisor does."""
        failures = 0
        while True:
            error = self._query(lease, folder)
            if (lost := lease.lost()) is not None:
                raise lost
            if error is None:
                return
            failures += 1
            if isinstance(error, HayaseError) and (failures > 5 or not may_pass(error)):
                raise error
            self.place.sim.sleep(1.0)

    def _query(self, lease: Any, folder: Path) -> Exception | None:
        """One planner's life; `None` if it ended in order."""
        sim, answer = self.place.sim, Mailbox(self.place.sim)
        planner = self.planner = sim.new_process(f"{self.name}.planner", self.process.machine)
        planner.frozen_until = self.process.frozen_until

        def body() -> None:
            try:
                self._plan(folder)
            except HayaseError as error:
                sim.trace(f"{planner.name} failed: {shown(error)}")
                answer.put(error)
            else:
                answer.put("end")

        planner.spawn(body)
        while True:
            message = answer.take(_WATCH_S)
            if message is not None:
                planner.alive = False
                return None if message == "end" else message
            if lease.lost() is not None:
                planner.crash()
                return None
            if not planner.alive:
                return Gone()

    # the planner, and Spark

    def _plan(self, folder: Path) -> None:
        sim, place = self.place.sim, self.place
        blobs = place.store.blobs()
        planner = make_planner(load_app_spec(blobs, self.digest), blobs, place, PlannerControl(folder))
        after, late = planner.last_done(), sim.rng.random() < 0.5
        while not self.stop_requested:
            epoch = planner.next_epoch(after, settle=not late)
            self.begun = True
            if epoch <= after:
                if planner.app.hands_over and planner.held and not self.stop_requested:
                    return
                sim.sleep(_IDLE_S)
                continue
            record = planner.record(epoch)
            sim.trace(f"{self.name} epoch {epoch} {dict(record.ranges)}")
            summaries = self._run_epoch(planner.app, record)
            if late:
                planner.settle_epoch()
            planner.report_due(epoch, summaries)
            after = epoch
            self.epochs_done += 1

    def _run_epoch(self, app: AppSpec, record: EpochRecord) -> list[bytes]:
        level_of = {task.id: bundle.level for bundle in app.plan.bundles for task in bundle.tasks}
        rows: list[ShuffleRow] = []
        for level in range(app.plan.levels):
            wanted: dict[int, list[Any]] = {slot: [] for slot in range(app.slots)}
            for row in rows:
                if row.kind == ROW and level_of[row.row.task] == level:
                    wanted[row.slot].append(row.row)
            rows += self._run_level(level, record, wanted)
        return [row.row.payload for row in rows if row.kind == "summary"]

    def _run_level(self, level: int, record: EpochRecord, wanted: dict[int, list[Any]]) -> list[ShuffleRow]:
        sim, answers = self.place.sim, Mailbox(self.place.sim)
        attempts = dict.fromkeys(wanted, 0)
        open_slots: dict[int, tuple[float, Worker]] = {}
        results: dict[int, list[ShuffleRow]] = {}

        def launch(slot: int) -> None:
            attempts[slot] += 1
            worker = self._worker(slot)
            open_slots[slot] = sim.now, worker
            worker.busy = True
            worker.jobs.put((level, slot, record, wanted[slot], attempts[slot], answers))

        for slot in wanted:
            launch(slot)
        while len(results) < len(wanted):
            answer = answers.take(1.0)
            if answer is not None:
                slot, attempt, result = answer
                if slot in results or attempt != attempts[slot]:
                    continue
                if isinstance(result, HayaseError):
                    if attempts[slot] >= _ATTEMPTS:
                        raise result
                    launch(slot)
                else:
                    results[slot] = result
            for slot, (since, worker) in list(open_slots.items()):
                # An executor that says nothing is taken for lost; it may be at work all the same.
                if slot not in results and (not worker.process.alive or sim.now - since > _SILENT_S):
                    launch(slot)
        return [row for slot in sorted(results) for row in results[slot]]

    def _worker(self, slot: int) -> Worker:
        sim = self.place.sim
        self.workers = [each for each in self.workers if each.process.alive]
        idle = [each for each in self.workers if not each.busy]
        if idle and (sim.rng.random() < 0.9 or len(self.workers) > 6):
            return idle[slot % len(idle)] if sim.rng.random() < self._sticky else sim.rng.choice(idle)
        made = Worker(self, sim.rng.choice(self.place.present()))
        self.workers.append(made)
        return made


class Follower:
    """A process that follows the checkpoint; workers whose state is missing begin with a copy of its."""

    def __init__(self, place: Place, name: str) -> None:
        self._place = place
        self.folder = followers_folder(place.config()) / "copy"
        self.process = place.sim.new_process(name, 0)
        self.process.spawn(self._main)
        self._replica: FollowerReplica | None = None

    def _main(self) -> None:
        sim = self._place.sim
        try:
            while True:
                try:
                    self._follow()
                except HayaseError as error:
                    sim.trace(f"{self.process.name} failed: {error.condition}")
                    self._release()
                sim.sleep(1.0)
        except Crashed:
            self._release()
            raise

    def _follow(self) -> None:
        sim, place = self._place.sim, self._place
        if self._replica is None:
            blobs = place.store.blobs()
            self._replica = FollowerReplica(blobs, APPLICATION, self.folder, clock=sim, monotonic=sim.monotonic)
        while self._replica.step():
            pass

    def _release(self) -> None:
        if self._replica is not None:
            for followed in self._replica._followed.values():
                followed.state._hold.release()
            os.close(self._replica._lock)
            self._replica = None


def make_planner(app: AppSpec, blobs: Any, place: Place, control: PlannerControl) -> EpochPlanner:
    """As `EpochPlanner.open`, with the simulation's clock and log."""
    return EpochPlanner(app, blobs, place.log.open(), place.sim, control)


_DIGEST = re.compile(r"programs/[0-9a-f]+")
_PASSING = frozenset(
    {
        "BROKER_UNAVAILABLE", "BUNDLE_OWNED_ELSEWHERE", "S3_UNREACHABLE", "S3_FAILED", "STATE_MOVED", "STATE_CONTENDED",
        "EPOCH_IS_HISTORY", "REQUEST_REFUSED", "PROGRAM_NOT_FOUND",
    }
)  # fmt: skip


def without_digests(text: str) -> str:
    """For the trace: a program's digest depends on where this process keeps its files."""
    return _DIGEST.sub("programs/...", text)


def shown(error: HayaseError) -> str:
    """For the trace."""
    return f"{error.condition} {without_digests(error.message)[:200]}"


def may_pass(error: HayaseError) -> bool:
    """Whether a new query may help: what other processes did, a store or brokers that were away."""
    return error.condition in _PASSING and not isinstance(error, LeaseHeldError)
