"""Random schedules of the protocol of slot producers: runs, strays, upgrades, bundles that move, and faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.simulation.kafka_broker import Broker
from tests.simulation.kafka_clients import Clients
from tests.simulation.object_store import Network, ObjectStore, in_place_of_s3
from tests.simulation.scheduler import Mailbox, Process, Sim, Stuck
from tests.simulation.slot_protocol import (
    BUNDLES,
    OUT,
    Bundle,
    OwnIds,
    Planner,
    Rules,
    Slot,
    Step,
    key_of,
    over,
    planted,
)

from hayase.core.errors import HayaseError, LogError
from hayase.core.patience import Patience
from hayase.log.assignments import Place
from hayase.log.kafka.markers import markers_topic
from hayase.log.kafka.slot_ids import own_id
from hayase.storage.blobs import BlobStore

_EPOCHS = 20
_ANSWER_S = 2.0
_STRUCK_S = 150.0
_LABELS = ("init", "produce", "commit", "list offsets", "GET assign", "PUT assign")
_LIMIT_S = 900.0
_ALL_RULES = Rules()


@dataclass
class Outcome:
    """What a seed gave.

    Attributes:
        problem: what is wrong; empty if nothing is.
        lines: of the trace.
        digest: of the trace.
    """

    problem: str
    lines: list[str]
    digest: str


class _Worker:
    """A process of a slot: publishes what it is handed, all that is there in one go."""

    def __init__(self, world: SlotWorld, name: str, writer: Callable[[BlobStore], Slot | OwnIds]) -> None:
        self.mailbox = Mailbox(world.sim)
        self.process = world.new_process(name)
        self._world = world
        self._writer = writer
        self.process.spawn(self._run)

    def _run(self) -> None:
        writer = self._writer(self._world.blobs())
        while (message := self.mailbox.take(300.0)) is not None:
            steps, replies = message
            try:
                outcomes = writer.publish(steps)
            except HayaseError:  # the checkpoint could not be read
                outcomes = dict.fromkeys(steps, "failed")
            for answer in outcomes.items():
                replies.put(answer)


class _Run:
    """A run of the application: hands out the epochs of each bundle, one after the other, and marks what is done."""

    def __init__(self, world: SlotWorld, number: int, *, old: bool) -> None:
        self.world = world
        self.name = f"{'old' if old else 'run'}{number}"
        self._old = old
        self.process = world.new_process(self.name)
        self._workers: dict[str, _Worker] = {}
        self._places: dict[Bundle, Place] = {}
        self._slots: dict[Bundle, int] = {}
        self._replaced = 0
        self.ended = False
        self.process.spawn(self._run)

    def _run(self) -> None:
        blobs = self.world.blobs()
        planner = Planner(blobs, self.world.clients)
        try:
            if self._old:
                planner.give_back()
                self._places = {each: Place(own_id(*each), 0) for each in BUNDLES}
            else:
                self._assign(planner, started=True)
            while not self.world.through():
                if not self._old and self.world.sim.rng.random() < 0.4:
                    self._assign(planner, started=False)
                self._round(blobs)
        except HayaseError as error:
            self.world.sim.trace(f"{self.name} ENDS {error.condition}")
        self.ended = True

    def _assign(self, planner: Planner, *, started: bool) -> None:
        rng = self.world.sim.rng
        count = rng.choice((1, 2, 3, 4))
        slots = {
            each: self._slots[each] if each in self._slots and rng.random() < 0.5 else rng.randrange(count)
            for each in BUNDLES
        }
        self._places = planner.place(slots, started=started)
        self._slots = slots
        self.world.sim.trace(f"{self.name} ASSIGNED {self._places}")

    def _round(self, blobs: BlobStore) -> None:
        """Hand out the next epoch of some bundles, and wait for the answers."""
        sim, by_id = self.world.sim, {}  # type: ignore[var-annotated]
        for bundle in BUNDLES:
            epoch = self.world.next_epoch(bundle)
            if epoch < _EPOCHS and sim.rng.random() < 0.7:
                place = self._places[bundle]
                by_id.setdefault(place.id, []).append(Step(bundle, epoch, place))
        replies = Mailbox(sim)
        for id_, steps in by_id.items():
            self._worker(id_).mailbox.put((steps, replies))
        waiting = {step for steps in by_id.values() for step in steps}
        # A run that does not wait makes strays of those that are at work.
        deadline = sim.now + (_ANSWER_S if sim.rng.random() < self.world.patient else sim.rng.uniform(0.0, 0.1))
        while waiting and (answer := replies.take(max(0.0, deadline - sim.now))) is not None:
            step, outcome = answer
            waiting.discard(step)
            if outcome == "given up" and self._old:
                raise LogError("STATE_MOVED", "the run is over")
            if outcome == "done":
                blobs.put_if_absent(_done(step.bundle, step.epoch), b"")
        for id_ in {step.place.id for step in waiting}:
            self._workers.pop(id_)  # it may go on all the same
        sim.sleep(0.05)

    def _worker(self, id_: str) -> _Worker:
        worker = self._workers.get(id_)
        if worker is None:
            self._replaced += 1
            name = f"{self.name} {id_} {self._replaced}"
            worker = self._workers[id_] = _Worker(self.world, name, lambda blobs: self.world.writer(blobs, self._old))
        return worker


@dataclass
class SlotWorld:
    """A checkpoint, a log, and runs that come and go. Without a lease: the protocol must hold without one."""

    sim: Sim
    rules: Rules
    runs: list[_Run] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng = self.sim.rng
        self.store = ObjectStore(self.sim, Network(lost=rng.choice((0, 0.02)), unknown=rng.choice((0, 0.02)),
                                                   late=rng.choice((0, 0.02))))  # fmt: skip
        self.broker = Broker(self.sim)
        self.clients = Clients(self.broker)
        self.clients.answer_lost = rng.choice((0.0, 0.05))
        self.sim.slow = rng.choice((0.0, 0.005, 0.02))
        self._crash, self._freeze = rng.choice((0.0, 0.002, 0.006)), rng.choice((0.0, 0.004))
        self._sleepy, self._deadly = tuple(rng.sample(_LABELS, 2)), rng.choice((*_LABELS, "-"))
        self.patient = rng.choice((0.4, 0.8, 1.0))
        self._refuse = rng.choice((0.0, 0.1))
        self._upgrade = rng.random() < 0.5
        self.broker.create_topic(OUT, 1, {})
        for name in ("a", "b"):
            self.broker.create_topic(markers_topic(name), rng.choice((1, 2)), {})
        self.sim.on_step = self._strike

    def blobs(self) -> BlobStore:
        sim = self.sim
        return self.store.blobs(Patience(8.0, monotonic=sim.monotonic, sleep=sim.sleep, chance=sim.rng.random))

    def new_process(self, name: str) -> Process:
        return self.sim.new_process(name, 0)

    def writer(self, blobs: BlobStore, old: bool) -> Slot | OwnIds:
        def refuses(_: Step) -> bool:
            return self.sim.rng.random() < self._refuse

        return OwnIds(self.clients, refuses) if old else Slot(blobs, self.clients, refuses)

    def next_epoch(self, bundle: Bundle) -> int:
        """The first epoch of a bundle that is not marked as done."""
        return next((n for n in range(_EPOCHS) if self.store.get(_done(bundle, n)) is None), _EPOCHS)

    def through(self) -> bool:
        return all(self.store.get(_done(each, _EPOCHS - 1)) is not None for each in BUNDLES)

    def _strike(self, process: Process, label: str) -> None:
        if self.sim.now > _STRUCK_S:
            return
        draw = self.sim.rng.random()
        # Each seed has kinds of steps at which processes prefer to fall asleep, or to die.
        freeze = 0.15 if label.startswith(self._sleepy) else self._freeze
        crash = 0.03 if label.startswith(self._deadly) else self._crash
        if draw < crash:
            process.crash()
        elif draw < crash + freeze:
            process.freeze(self.sim.rng.choice((0.3, 2.0, 6.0, 6.0, 15.0)))

    def _keep_running(self) -> None:
        """Now and then another run begins, whether that before has ended or not."""
        alive = [run for run in self.runs if not run.ended and run.process.alive and not run.process.frozen]
        if not alive or (self.sim.now < _STRUCK_S and self.sim.rng.random() < 0.1):
            old = self._upgrade and self.sim.now < _STRUCK_S and (not self.runs or self.sim.rng.random() < 0.3)
            self.runs.append(_Run(self, len(self.runs), old=old))
        if not self.through():
            self.sim.at(2.0, self._keep_running)

    def run(self) -> str:
        """Let all epochs be published and all strays wake; returns what is wrong."""
        self._keep_running()
        try:
            self.sim.run_until(self.through, _LIMIT_S)
        except Stuck as error:
            return str(error)
        self.sim.run_for(60.0)
        partition = self.broker.partition(OUT, 0)
        for bundle in BUNDLES:
            came = [int(each.value or b"") for each in partition.committed(0, partition.end)
                    if each.key == key_of(bundle)]  # fmt: skip
            if came != list(range(_EPOCHS)):
                return f"bundle {bundle} published {came}"
        return ""


def _done(bundle: Bundle, epoch: int) -> str:
    """The mark of an epoch."""
    return f"done/{'/'.join(bundle)}/{epoch:06d}"


def run_slots(seed: int, rules: Rules = _ALL_RULES, *, keep_trace: bool = False) -> Outcome:
    """Run one schedule."""
    sim = Sim(seed, keep_trace=keep_trace)
    world = SlotWorld(sim, rules)
    with in_place_of_s3(world.store.client), over(world.clients), planted(rules):
        try:
            problem = world.run()
        finally:
            sim.end()
    return Outcome(problem, sim.lines, sim.digest)
