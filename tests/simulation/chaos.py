"""A random world from a seed: a program, a log, and faults of which each seed has some kinds and not others."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass

from tests.simulation.application import Follower, Run, without_digests
from tests.simulation.logs import KafkaTopics
from tests.simulation.object_store import Blob, Network
from tests.simulation.programs import PROGRAMS, REDOING, Program
from tests.simulation.scheduler import Process, Sim, Stuck
from tests.simulation.world import MACHINES, Violation, World

from hayase.core.errors import ProcessingError

_CHAOS_S = 60.0
_RECORDS = 45
_THAW_S = 75.0
_PATIENCE = 12
_CALM_S = 900.0

# What a running application may end with at any time: others are there, something is away, it is started again.
_HARMLESS = frozenset(
    {
        "LEASE_HELD", "LEASE_LOST", "BROKER_UNAVAILABLE", "S3_UNREACHABLE", "S3_FAILED", "STATE_MOVED",
        "STATE_CONTENDED", "EPOCH_IS_HISTORY", "BUNDLE_OWNED_ELSEWHERE", "PROGRAM_NOT_FOUND", "REQUEST_REFUSED",
        "CHANGELOG_GAP",
    }
)  # fmt: skip
_OTHER_PROGRAM = frozenset({"PLAN_CHANGED", "OPEN_EPOCH_OF_ANOTHER_PLAN", "OPEN_EPOCH_OF_ANOTHER_PROGRAM"})
_START_OVER = frozenset({"CHECKPOINT_OLDER_THAN_LOG", "SOURCE_RANGE_LOST", "APPLICATION_ID_IN_USE"})


@dataclass
class Outcome:
    """What came of a seed.

    Attributes:
        problem: what the oracle found; empty if nothing.
        digest: of the trace.
        lines: the trace.
    """

    seed: int
    problem: str
    digest: str
    lines: list[str]
    description: str


class Chaos:
    """Draws what a seed does, and does it."""

    def __init__(self, seed: int, *, keep_trace: bool = True, program: Program | None = None) -> None:
        self.seed = seed
        self.sim = sim = Sim(seed, keep_trace=keep_trace)
        rng = sim.rng
        chosen = rng.choice(list(PROGRAMS.values()))
        program = program or chosen
        kafka = rng.random() < 0.5
        settings = {
            "max.records.per.epoch": rng.choice((3, 8, 1000)),
            "repartition.purge.interval.ms": rng.choice((1, 2000, 30000)),
            "state.history.retention.ms": rng.choice((0, 0, 5000)),
            "num.bundles": rng.choice((1, 2, 4)),
            "source.range.lost": rng.choice(("fail", "reset")),
        }
        if program is REDOING:  # an epoch is redone where no bundle has completed it
            settings |= {"max.records.per.epoch": rng.choice((1, 2, 8)), "num.bundles": rng.choice((1, 1, 2))}
        self._tiny_memory = rng.random() < 0.2
        self._follow = rng.random() < 0.3
        some = self._some
        network = Network(lost=some(0.02), unknown=some(0.03), late=some(0.03))
        self.world = World(sim, program, kafka, settings, network)
        self._crash, self._freeze = some(0.004), some(0.003)
        self._at_failpoints = rng.choice((1.0, 8.0))
        sim.slow = rng.choice((0.0, 0.0, 0.02))
        self._events: list[tuple[float, Callable[[], None]]] = [
            (some(0.3), self._crash_application),
            (some(0.3), self._freeze_driver),
            (some(0.3), self._second_copy),
            (some(0.2), self._wipe),
            (some(0.2), self._jump),
            (some(0.2), self._store_away),
            (some(0.2), self._brokers_away),
            (some(0.15), self._change_program),
            (some(0.15), self._restore),
            (some(0.15), self._expire),
            (some(0.15), self._go_back),
            (some(0.3), self._stop_in_order),
            (0.4 if program.pattern else 0.0, self._add_topic),
            (0.2 if self._follow else 0.0, self._crash_follower),
        ]
        self._answers_lost = some(0.1)
        self._calm = False
        self._starts_at = 0.0
        self._backups: list[dict[str, Blob]] = []
        self._restored = self._expired = False
        self._going_back = self._keeps_states = self._starting_over = False
        self._refused: list[str] = []
        self._judged: set[int] = set()
        self._follower: Follower | None = None
        self.problem = ""

    def _some(self, most: float) -> float:
        """Half of the faults are left out of a seed, so that some get far."""
        chance = self.sim.rng.random()
        return most * (chance - 0.5) * 2 if chance > 0.5 else 0.0

    @property
    def description(self) -> str:
        world = self.world
        log = "Kafka" if world.kafka else "the embedded log"
        faults = [event.__name__.strip("_") for chance, event in self._events if chance]
        faults += ["tiny memory"] * self._tiny_memory + ["a follower"] * self._follow
        return (
            f"seed {self.seed}: {world.program.name} on {log}, {world.settings}, {world.network}, {', '.join(faults)}"
        )

    def run(self) -> Outcome:
        """The whole life of the world."""
        sim, world = self.sim, self.world
        sim.trace(self.description)
        with world:
            try:
                if isinstance(world.log, KafkaTopics):
                    world.log.clients.answer_lost = self._answers_lost
                self._live()
            except Violation as error:
                self.problem = str(error)
            except Stuck as error:
                self.problem = f"stuck: {error}; refused with {self._refused[-5:]}"
            except Exception as error:
                self.problem = f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-8)}"
            sim.trace(f"END {without_digests(self.problem) or 'well'}")
        return Outcome(self.seed, self.problem, sim.digest, sim.lines, self.description)

    def _live(self) -> None:
        sim, world = self.sim, self.world
        world.place.epoch_memory_max_bytes = 1 if self._tiny_memory else None
        if self._follow:
            self._follower = Follower(world.place, "follower")
        for _ in range(sim.rng.randrange(_RECORDS)):
            self._put()
        for _ in range(_RECORDS):
            sim.at(sim.rng.uniform(0.0, _CHAOS_S), self._put)
        sim.on_step = self._strike
        sim.at(0.0, self._operate)
        sim.at(5.0, self._happen)
        sim.at(sim.rng.uniform(5.0, _CHAOS_S), self._back_up)
        sim.at(sim.rng.uniform(5.0, _CHAOS_S), self._back_up)
        sim.run_for(_CHAOS_S)
        self._calm = True
        sim.trace("CALM")
        self._refused.clear()
        sim.slow = 0.0
        world.store.network = Network()
        world.store.down_until = 0.0
        if isinstance(world.log, KafkaTopics):
            world.log.clients.answer_lost = 0.0
            world.log.broker.down_until = 0.0
        # What was frozen wakes up and does what harm it can.
        sim.run_until(lambda: not any(p.frozen for p in sim.processes), _CALM_S)
        for _ in range(5):
            self._put()
        sim.run_until(self._settled, _CALM_S)
        world.stop_quietly()
        world.check()

    def _settled(self) -> bool:
        """All input is processed, and no process has anything left to do."""
        world = self.world
        return self.sim.now > _CHAOS_S + 30.0 and bool(world.running) and world.through_now()

    # the operator

    def _operate(self) -> None:
        """Keeps one copy running, and takes the ways out that errors name."""
        world = self.world
        for number, run in enumerate(world.runs):
            if number not in self._judged and not run.alive:
                self._judged.add(number)
                self._judge(run)
        if all(run.process.frozen for run in world.running) and self._may_start():
            world.start()
        self.sim.at(1.0, self._operate)

    def _judge(self, run: Run) -> None:
        error = run.error
        if error is None:
            self._refused.clear() if run.epochs_done else None
            return
        condition = error.condition
        self._refused.append(condition)
        world = self.world
        if isinstance(error, ProcessingError) and run.version == "poisoned":
            world.version = self.sim.rng.choice(world.program.versions[1:])
        elif condition in _OTHER_PROGRAM and len(world.program.versions) > 1:
            versions = world.program.versions
            world.version = versions[(versions.index(run.version) + 1) % len(versions)]
        elif condition in _START_OVER and (self._restored or self._expired) and not self._overtaken(run):
            # The way out that the error names; up to here nothing may be lost or doubled.
            world.check(complete=False)
            self._starting_over = True  # by a command that holds the lease: nothing is started or put back meanwhile
            # Rows that wait in internal topics are of epochs that the copy does not know.
            go_on = self._keeps_states or self.sim.rng.random() < 0.5
            if condition == "CHECKPOINT_OLDER_THAN_LOG" and world.program.copied and go_on:
                world.forget_markers()
            else:
                world.reset()
                self._backups.clear()
            self._starting_over = False
            self._starts_at = self.sim.now + 1.0
            self._judged.update(range(len(world.runs)))
        elif condition not in _HARMLESS and not self._superseded(run):
            raise Violation(f"{run.name} ended with {error}")
        if self._calm and condition not in ("LEASE_HELD", "LEASE_LOST"):
            recent = self._refused[-_PATIENCE:]
            if len(recent) == _PATIENCE and len(set(recent)) <= 2:
                raise Violation(f"the application makes no progress: {_PATIENCE} starts ended with {error}")

    def _overtaken(self, run: Run) -> bool:
        """Whether a copy that was started since is running: there is nothing to start over."""
        return self._superseded(run) and bool(self.world.running)

    def _superseded(self, run: Run) -> bool:
        """Whether another copy was started since: what this one finds is of that one's doing."""
        return self.world.runs.index(run) < len(self.world.runs) - 1

    # faults

    def _strike(self, process: Process, label: str) -> None:
        if self._calm:
            return
        rng = self.sim.rng
        factor = self._at_failpoints if label.startswith("at ") else 1.0
        chance = rng.random()
        if chance < self._crash * factor:
            process.crash()
        elif chance < (self._crash + self._freeze) * factor:
            process.freeze(rng.choice((0.5, 5.0, 30.0, 60.0)))

    def _happen(self) -> None:
        if self._calm:
            return
        rng = self.sim.rng
        for chance, event in () if self._starting_over else self._events:
            if rng.random() < chance:
                self.sim.trace(f"EVENT {event.__name__.strip('_')}")
                event()
                break
        self.sim.at(rng.uniform(1.0, 8.0), self._happen)

    def _put(self) -> None:
        world = self.world
        topics = world.topics()
        world.put(self.sim.rng.choice(topics))

    def _crash_application(self) -> None:
        for run in self.world.running:
            run.crash(workers=self.sim.rng.random() < 0.5)

    def _stop_in_order(self) -> None:
        for run in self.world.running:
            run.stop_requested = True

    def _freeze_driver(self) -> None:
        """A machine is suspended: the driver and its planner with it."""
        for run in self.world.running:
            seconds = self.sim.rng.choice((5.0, 40.0, 70.0))
            for process in (run.process, run.planner):
                if process is not None:
                    process.freeze(seconds)
        if self.sim.rng.random() < 0.8:
            self.sim.at(1.0, self._second_copy)

    def _second_copy(self) -> None:
        if not self._calm and self._may_start() and len(self.world.running) < 3:
            self.world.start()

    def _may_start(self) -> bool:
        return self.sim.now >= self._starts_at and not self._starting_over

    def _crash_follower(self) -> None:
        assert self._follower is not None
        self._follower.process.crash()
        self.sim.at(1.0, self._follow_again)

    def _follow_again(self) -> None:
        self._follower = Follower(self.world.place, "follower")

    def _wipe(self) -> None:
        self.world.wipe(self.sim.rng.randrange(MACHINES))

    def _jump(self) -> None:
        self.sim.jumped_ms += self.sim.rng.choice((-60_000, 3_600_000, 1_000))

    def _store_away(self) -> None:
        self.world.store.down_until = self.sim.now + self.sim.rng.choice((1.0, 10.0, 40.0))

    def _brokers_away(self) -> None:
        if isinstance(self.world.log, KafkaTopics):
            self.world.log.broker.down_until = self.sim.now + self.sim.rng.choice((1.0, 12.0, 70.0))

    def _change_program(self) -> None:
        world = self.world
        if len(world.program.versions) < 2:
            return
        self._crash_application()
        world.version = self.sim.rng.choice(world.program.versions)
        if world.program is REDOING and self.sim.rng.random() < 0.3:
            world.store.lose("programs/")

    def _back_up(self) -> None:
        if self._calm:
            return
        self._backups.append(self.world.store.backup())

    def _restore(self) -> None:
        """Everything is stopped, and an older copy of the checkpoint put in its place; local states stay, or go too."""
        if not self._backups or "app/lineage" not in self._backups[-1]:
            return
        world, sim = self.world, self.sim
        world.crash_all()
        # Requests that are on their way arrive before the copy is put back.
        generation = world.generation
        sim.at(16.0, lambda: self._put_back(wiped=sim.rng.random() < 0.5) if world.generation is generation else None)
        self._starts_at = sim.now + 18.0

    def _put_back(self, *, wiped: bool) -> None:
        world = self.world
        # A planner or worker may outlive its driver: a checkpoint is restored when all are gone.
        if self._starting_over or any(run.alive or run.processes() for run in world.runs):
            return
        world.store.restore(self._backups[-1])
        self.sim.trace("RESTORED")
        self._restored = True
        if wiped:
            for machine in range(MACHINES):
                world.wipe(machine)

    def _go_back(self) -> None:
        """A copy of moments ago is put in place, while a machine with states of since then is off.

        The states are left alone until the copy has come to their epochs once more, with other records.
        """
        if self._calm or self._going_back:
            return
        self._going_back = True
        world, rng = self.world, self.sim.rng
        generation, copy = world.generation, world.store.backup()

        def strike() -> None:
            if self._starting_over or world.generation is not generation or "app/lineage" not in copy:
                self._going_back = False
                return
            world.crash_all()
            self._starts_at = self.sim.now + 18.0
            self.sim.at(16.0, put_back)

        def put_back() -> None:
            self._going_back = False
            if world.running or self._starting_over or world.generation is not generation:
                return
            self._backups.append(copy)
            self._put_back(wiped=False)
            self._keeps_states = True
            world.leave(rng.randrange(MACHINES), rng.uniform(20.0, 60.0))

        self.sim.at(rng.uniform(0.5, 6.0), strike)

    def _expire(self) -> None:
        """Retention takes records away while the application is stopped."""
        world, sim = self.world, self.sim
        world.crash_all()
        self._starts_at = max(self._starts_at, sim.now + 3.0)
        topic = next(iter(world.program.sources))
        record = world.last_done()
        for number, end in world.log.ends(topic).items():
            read = record.ranges.get(topic, {}).get(number, (0, 0))[1] if record is not None else 0
            before = sim.rng.choice((read, read, min(end, read + 2)))
            before = min(before, end)
            world.log.expire(topic, {number: before})
            gone = {
                g.id for g in world.inputs if (g.topic, g.partition) == (topic, number) and read <= g.offset < before
            }
            sim.trace(f"EXPIRED {topic}-{number} before {before}, read up to {read}, unread {sorted(gone)}")
            world.optional |= gone
        self._expired = world.expired = True

    def _add_topic(self) -> None:
        name = self.world.add_topic()
        self.sim.at(0.01, lambda: self.world.put(name))
        self._crash_application()


def run_seed(seed: int, *, keep_trace: bool = True, program: Program | None = None) -> Outcome:
    """Run a seed to its end, with the program that it draws unless another one is given."""
    return Chaos(seed, keep_trace=keep_trace, program=program).run()
