"""One simulated world.

A checkpoint, a log, machines, an application that is kept running, and faults that strike all of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.simulation import programs
from tests.simulation.application import APPLICATION, Place, Run
from tests.simulation.environment import simulated
from tests.simulation.logs import EmbeddedTopics, KafkaTopics, SimulatedLog, partition_of
from tests.simulation.object_store import Network, ObjectStore
from tests.simulation.programs import Evidence, Given, Output, Program
from tests.simulation.scheduler import Sim

from hayase.query.checkpoint import find_checkpoint
from hayase.query.local_folders import followers_folder
from hayase.runtime.epochs.log_ownership import forget_claims
from hayase.state.changelog.changelog import Changelog
from hayase.state.changelog.redone_epochs import RedoneEpochs
from hayase.state.environment.bundle import BundleState
from hayase.state.environment.environment import StatePosition, open_state_environment, position_in
from hayase.state.environment.folders import StateFolders
from hayase.storage import lmdb_env
from hayase.task.epoch_record import EpochRecord, Epochs, done_name

MACHINES = 3


class Violation(AssertionError):
    """The oracle has found something wrong."""


@dataclass
class World:
    """See the module. Used as a context: `with World(...) as world`.

    Attributes:
        generation: outputs before these offsets are of an application that was reset, or forgot its markers, since.
        optional: ids of input that retention removed before it was read.
    """

    sim: Sim
    program: Program
    kafka: bool
    settings: dict[str, Any] = field(default_factory=dict)
    network: Network = field(default_factory=Network)

    def __post_init__(self) -> None:
        base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.folder = Path(tempfile.mkdtemp(prefix="hayase-simulation-", dir=base))
        self.store = ObjectStore(self.sim, self.network)
        self.version = self.program.versions[0]
        self.runs: list[Run] = []
        self.written: list[Given] = []
        self.inputs: list[Given] = []  # what has to come out since the generation began
        self.optional: set[int] = set()
        self.expired = False
        self.counted: dict[str, int] = {}
        self.generation: dict[str, dict[int, int]] = {}
        self._reset_at: dict[str, dict[int, int]] = {}
        self._gone_at_reset: set[int] = set()
        self._asked_at = 0.0
        self._next_id = 0
        self._added: list[str] = []
        self.machines = [
            StateFolders(self.folder / f"machine{number}", self.folder / f"machine{number}" / "memory")
            for number in range(MACHINES)
        ]
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> World:
        # The log is opened inside: it makes ids.
        self._stack.callback(self._remove)
        try:
            self.log: SimulatedLog = (
                KafkaTopics(self.sim) if self.kafka else EmbeddedTopics(self.sim, self.folder / "log")
            )
            clients = self.log.clients if isinstance(self.log, KafkaTopics) else None
            self._stack.enter_context(simulated(self.sim, self.store, self.log, self.machines, clients))
            programs.chance.seed(self.sim.ids.random())
            for topic, partitions in self.program.sources.items():
                self.log.create(topic, partitions)
            for topic in {*self.program.sinks, "out", "other"}:
                self.log.create(topic, 2)
            self.place = Place(self.sim, self.store, self.log, MACHINES, self.folder, self.settings)
            self.place.delete_removed_stores = self.program.deletes
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.sim.on_step = lambda process, label: None
        self._stack.close()

    def _remove(self) -> None:
        self.sim.end()
        if hasattr(self, "log"):
            self.log.close()
        for pid, path in list(lmdb_env._entries):
            if path.startswith(str(self.folder.resolve())):
                lmdb_env._entries.pop((pid, path)).env.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    # input

    def put(self, topic: str = "", key: str | None = None, *, partition: int | None = None) -> Given:
        """Write a record with the next id."""
        topic = topic or next(iter(self.program.sources))
        id_, self._next_id = self._next_id, self._next_id + 1
        rng = self.sim.rng
        key = key or f"k{rng.randrange(programs.KEYS)}"
        to = f"k{rng.randrange(programs.KEYS)}"
        ends = self.log.ends(topic)
        number = partition_of(key, len(ends)) if partition is None else partition
        value = json.dumps({"id": id_, "to": to}).encode()
        # Ascending over all partitions, as if all producers had one clock: the joins then have one right order.
        self.log.write(topic, number, key.encode(), value, self.sim.now_ms() - self.sim.jumped_ms)
        given = Given(topic, number, ends[number], key, id_, to)
        self.written.append(given)
        self.inputs.append(given)
        return given

    # the application

    @property
    def running(self) -> list[Run]:
        return [run for run in self.runs if run.alive]

    def start(self, machine: int | None = None) -> Run:
        """Start a copy of the application."""
        machine = self.sim.rng.randrange(MACHINES) if machine is None else machine
        name = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[len(self.runs) % 26] + (
            str(len(self.runs) // 26) if len(self.runs) > 25 else ""
        )
        self.sim.trace(f"START {name} on machine {machine}: {self.program.name}, {self.version}")
        run = Run(self.place, name, machine, self.program.build(self.version), self.version)
        self.runs.append(run)
        return run

    def stop(self) -> None:
        """Stop it in order and wait for that."""
        for run in self.running:
            run.stop_requested = True
        self.sim.run_until(lambda: not self.running, 120.0)

    def crash_all(self) -> None:
        """Kill every process; they are gone a moment later."""
        for process in self.sim.processes:
            process.crash()

    def kill(self) -> None:
        """Kill every process and wait until they are gone. Not to be called by what the scheduler runs."""
        self.crash_all()
        self.sim.run_for(0.1)

    def stop_quietly(self) -> None:
        """Have nothing go on any more."""
        for run in self.running:
            run.stop_requested = True
        self.sim.run_for(5.0)
        self.kill()

    def add_topic(self) -> str:
        """One more that the program's pattern matches."""
        name = f"in{len(self._added)}"
        self._added.append(name)
        self.log.create(name, 1)
        return name

    def through(self) -> bool:
        """Whether all input is in epochs that are done."""
        record = self.last_done()
        if record is None:
            return False
        for topic, partitions in record.ranges.items():
            ends = self.log.ends(topic)
            if any(end < ends[number] for number, (_, end) in partitions.items()):
                return False
        return all(topic in record.ranges for topic in self.topics())

    def through_now(self) -> bool:
        """The same, asked rarely enough that it costs nothing."""
        if self.sim.now < self._asked_at:
            return False
        self._asked_at = self.sim.now + 1.0
        return self.through()

    def topics(self) -> list[str]:
        """Source topics of the log that there are."""
        return sorted({*self.program.sources, *self._added})

    def last_done(self) -> EpochRecord | None:
        epochs = Epochs(self.store.blobs())
        last = epochs.last_done()
        return epochs.positions(last) if last >= 0 else None

    def run_through(self, limit_s: float = 120.0) -> None:
        """Let the application go on until all input is processed."""
        self.sim.run_until(lambda: self.through() or not self.running, limit_s)
        if not self.through():
            ended = [run.error for run in self.runs if run.error is not None]
            raise Violation(f"the application ended before its input was processed: {ended[-1] if ended else 'killed'}")

    # what happens to it

    def wipe(self, machine: int) -> None:
        """A machine loses its disk, and all that ran on it."""
        self.sim.trace(f"WIPE machine {machine}")
        for process in self.sim.processes:
            if process.machine == machine:
                process.crash()
        self.sim.at(0.01, lambda: self._remove_states(machine))

    def leave(self, machine: int, seconds: float) -> None:
        """A machine is off until epochs come to where its states are, or for so long. Its disk stays as it is.

        Nothing runs on it when this is called.
        """
        states = [path.parent for path in self.machines[machine].disk.glob("state/*/data.mdb")]
        epochs = [reached.epoch for path in states if (reached := _position(path)) is not None]
        epoch, until = max(epochs, default=-1), self.sim.now + seconds
        self.sim.trace(f"LEAVE machine {machine} for {seconds:g}, its states are at {epochs}")
        self.place.away[machine] = lambda: (
            self.sim.now >= until or (epoch >= 0 and self.store.get(done_name(epoch)) is not None)
        )

    def _remove_states(self, machine: int) -> None:
        folder = self.machines[machine].disk
        if any(p.alive and p.machine == machine and p.greenlets for p in self.sim.processes):
            return
        for pid, path in list(lmdb_env._entries):
            if path.startswith(str(folder.resolve()) + "/"):
                lmdb_env._entries.pop((pid, path)).env.close()
        shutil.rmtree(folder, ignore_errors=True)

    def reset(self) -> None:
        """Start over, as `hayase app reset` does; outputs that are there are of the generation before."""
        self.sim.trace("RESET")
        self.kill()
        self.sim.run_for(16.0)  # requests that are on their way arrive, and transactions of the dead end
        from hayase.app import reset

        with contextlib.ExitStack() as stack:
            for machine in range(MACHINES):
                self._remove_states(machine)
            log = self.log.open()
            stack.callback(log.close)
            blobs = self.store.blobs()
            reset._delete_internal_topics(blobs, log)
            for name in reset._FILES:
                blobs.delete(name)
            for each in reset._FOLDERS:
                blobs.delete_below(each)
            log.delete_markers(APPLICATION)
            blobs.delete_below("lease/")
        self.generation = {topic: self.log.ends(topic) for topic in ("out", "other")}
        self._reset_at = self.generation
        self._gone_at_reset = gone = self._expired_ids()
        self.inputs = [each for each in self.written if each.id not in gone]
        self.optional = set()
        self.counted = {}

    def _expired_ids(self) -> set[int]:
        there = {(each.partition, each.offset, topic) for topic in self.topics() for each in self.log.read(topic)}
        return {each.id for each in self.written if (each.partition, each.offset, each.topic) not in there}

    def forget_markers(self) -> None:
        """Go on with an older copy of the checkpoint, as `hayase app reset --markers-only`.

        What came since comes again.
        """
        self.sim.trace("FORGET MARKERS")
        self.kill()
        self.sim.run_for(16.0)
        forget_claims(self.store.blobs())
        log = self.log.open()
        log.delete_markers(APPLICATION)
        log.close()
        self.generation = {topic: self.log.ends(topic) for topic in ("out", "other")}
        record = self.last_done()
        kept = []
        self.counted = {}
        # Of what expired before it was done some was read all the same: its epoch was open.
        came_out = {
            Output.of(each).value.get("id")
            for topic in ("out", "other")
            for each in self.log.read(topic)
            if each.offset >= self._reset_at.get(topic, {}).get(each.partition, 0)
        }
        for each in self.written:
            if each.id in self._gone_at_reset:
                continue  # the state that began at the reset has never met it
            partitions = record.ranges.get(each.topic, {}) if record is not None else {}
            if each.topic == "rows" or each.offset >= partitions.get(each.partition, (0, 0))[1]:
                kept.append(each)
            elif (each.id not in self.optional or each.id in came_out) and (
                key := self.program.key_of(each)
            ) is not None:
                self.counted[key] = self.counted.get(key, 0) + 1
        self.inputs = kept
        self.optional |= self._expired_ids()

    # the oracle

    def check(self, *, complete: bool = True) -> None:
        """Compare what came out with what had to come out.

        Raises:
            Violation: it is not the same.
        """
        outputs = {}
        for topic in ("out", "other"):
            begin = self.generation.get(topic, {})
            stored = [each for each in self.log.read(topic) if each.offset >= begin.get(each.partition, 0)]
            outputs[topic] = [Output.of(each) for each in stored]
        found = self.program.problems(Evidence(self.inputs, outputs, complete, self.optional, self.counted))
        if found:
            raise Violation("; ".join(found))
        self._check_records()
        if complete:
            self._check_states()

    def _check_records(self) -> None:
        """Epochs follow each other: ranges without gaps, the clock never backwards."""
        epochs = Epochs(self.store.blobs())
        records = [record for epoch in epochs.recorded() if (record := epochs.record(epoch)) is not None]
        redone = RedoneEpochs(self.store.blobs())
        for before, record in pairwise(records):
            if record.epoch != before.epoch + 1:
                continue  # a request that was late brought back one that was forgotten
            if record.previous != before.digest:
                raise Violation(f"epoch {record.epoch} does not follow {before.epoch}")
            if record.wall_clock_ms < before.wall_clock_ms:
                raise Violation(f"the clock goes back from epoch {before.epoch} to {record.epoch}")
            read = before.unread() if before.epoch in redone else before
            for topic, partitions in read.ranges.items():
                for number, (_, end) in partitions.items():
                    start = record.ranges.get(topic, {}).get(number, (end, end))[0]
                    if start < end or (start > end and not self.expired):
                        raise Violation(
                            f"epoch {record.epoch} begins {topic}-{number} at {start}, {before.epoch} ended at {end}"
                        )

    def _check_states(self) -> None:
        """State that machines kept is that of the changelog, and counts what came out."""
        record = self.last_done()
        if record is None:
            return
        blobs = self.store.blobs()
        checkpoint = find_checkpoint(blobs, APPLICATION)
        assert checkpoint is not None
        checkpoint_id = checkpoint.checkpoint_id
        for bundle in checkpoint.tasks:
            changelog = Changelog(blobs, bundle)
            if not changelog.has_state():
                continue
            fresh = _content(self.folder / "oracle" / bundle, bundle, checkpoint_id, changelog, record.epoch)
            if self.program.deletes:
                self._check_deleted(fresh)
            copies = [machine.logged(bundle, in_memory=False) for machine in self.machines]
            for path in (*copies, followers_folder(self.place.config()) / "copy" / bundle):
                if not (path / "data.mdb").exists():
                    continue
                kept = _content(path, bundle, checkpoint_id, Changelog(blobs, bundle), record.epoch)
                if kept != fresh:
                    where = path.relative_to(self.folder)
                    raise Violation(f"the state of bundle {bundle} in {where} differs from the changelog's")
        shutil.rmtree(self.folder / "oracle", ignore_errors=True)
        if self.program.deletes:
            kept = {name.split("/")[1] for name in blobs.list("changelog/")}
            if gone := kept - checkpoint.tasks.keys():
                raise Violation(f"deltas of bundles that are gone are there: {sorted(gone)}")

    def _check_deleted(self, content: dict[tuple[str, str], dict[bytes, bytes]]) -> None:
        stores = {"counts", *({"more"} if self.version == "second store" else {"others"})}
        for (task, store), rows in content.items():
            if rows and store in {"counts", "more", "others"} - stores:
                raise Violation(f"task {task} has rows of store {store}, which is gone")


def _position(folder: Path) -> StatePosition | None:
    with lmdb_env.read_transaction(open_state_environment(folder)) as txn:
        return position_in(txn)


def _content(
    path: Path, bundle: str, checkpoint_id: str, changelog: Changelog, epoch: int
) -> dict[tuple[str, str], dict[bytes, bytes]]:
    state = BundleState(path, application_id=APPLICATION, checkpoint_id=checkpoint_id, bundle=bundle)
    try:
        changelog.catch_up(state, epoch)
        with state.begin() as begun:
            return {(task, store): dict(begun.task(task).store(store).range()) for task, store in state.entries()}
    finally:
        state.close(clean=False)


@contextlib.contextmanager
def quiet_world(seed: int, program: Program, *, kafka: bool, **settings: Any) -> Iterator[World]:
    """A world without faults, for scripted schedules."""
    with World(Sim(seed), program, kafka, settings) as world:
        yield world
