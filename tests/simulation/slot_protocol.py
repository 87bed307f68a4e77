"""Slot producers, the product's code over the models of brokers and object store: with all rules, or without one.

The protocol is argued in `docs/decisions/20261125-slot-producers.md`. `Rules` says which of its rules are kept, and
`planted` leaves the others out of the product's code.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple
from unittest import mock

import greenlet
from tests.simulation.kafka_clients import Clients
from tests.simulation.scheduler import Mailbox, Sim

from hayase.core.errors import HayaseError, LogError, ProductionError
from hayase.log.assignments import LARGE_EPOCH_RECORDS, Assignment, Assignments, Place
from hayase.log.kafka import admin, slot_writer
from hayase.log.kafka import clients as kafka_clients
from hayase.log.kafka.markers import is_moved
from hayase.log.kafka.slot_ids import Owner, SlotIds
from hayase.log.kafka.slot_writer import SlotStep, SlotWriter
from hayase.log.kafka.transactions import TransactionalProducer
from hayase.log.kafka.writer import KafkaWriter
from hayase.log.protocol import LogConfig, Marker, OutgoingBatch, OutputBatch, StoredBatch
from hayase.runtime.epochs.slot_places import PlacedTopology, SlotPlaces, give_back
from hayase.runtime.worker.slot_publisher import publish_together
from hayase.storage.blobs import BlobStore

OUT = "out"
BUNDLES = (("a", "0-0"), ("a", "0-1"), ("b", "0-0"))
"""By topology. The order is that of places in the plan, by which markers of one topology share partitions."""
OWN = 3
"""In the place of a slot: the topology's bundles in slot 0 have an id to themselves."""
OWNER = Owner("runtime", "s3://simulated/app/")
_CHECKPOINT = "checkpoint"
_CONFIG = LogConfig("kafka", "simulated:1", {"producer.transaction.timeout.ms": "10000"})


@dataclasses.dataclass(frozen=True)
class Rules:
    """What the protocol does; each set to false is a bug to plant."""

    published_before_fencing: bool = True
    read_again_after_init: bool = True
    markers_of_all_bundles: bool = True
    markers_are_waited_for: bool = True
    place_is_numbered: bool = True
    all_earlier_are_fenced: bool = True
    large_ids_are_fenced: bool = True
    large_ids_need_deltas: bool = True
    moved_marker_is_left: bool = True
    old_ids_are_taken_again: bool = True
    going_back_looks_again: bool = True
    going_back_deletes_nothing: bool = True


Bundle = tuple[str, str]


class Step(NamedTuple):
    """An epoch of a bundle that is to be published; a place of number 0 is an id of its own.

    Attributes:
        outputs: so many, of an epoch without a delta; `None`: it has one.
    """

    bundle: Bundle
    epoch: int
    place: Place
    outputs: int | None = None

    @property
    def marker(self) -> Marker:
        return Marker(_CHECKPOINT, self.epoch, "digest")

    def batches(self, in_between: Callable[[Step], bool]) -> list[OutgoingBatch]:
        """Outputs; behind the first record it is asked whether the next one is refused."""

        def rest() -> OutputBatch:
            if in_between(self):
                raise ProductionError("RECORD_REFUSED", "planted")
            return OutputBatch(OUT, [], [], [])

        key, value = key_of(self.bundle), str(self.epoch).encode()
        count = self.outputs or (LARGE_EPOCH_RECORDS if self.epoch % 3 == 2 else 1)
        # The count is said only: one record tells what comes out.
        return [OutputBatch(OUT, [key], [value], [1]), StoredBatch(OUT, count, rest)]


@contextlib.contextmanager
def over(clients: Clients) -> Iterator[None]:
    """Inside, the product's Kafka code uses the model of the brokers."""
    with clients.in_place(), mock.patch.object(kafka_clients, "why_unanswered", lambda _, error: error):
        yield


def clocks(clients: Clients) -> dict[str, Any]:
    sim = clients.broker.sim
    return {"monotonic": sim.monotonic, "sleep": sim.sleep, "wall_clock_s": lambda: 1.0 + sim.now}


def at_once(sim: Sim, calls: Sequence[Callable[[], None]]) -> None:
    """Make calls at the same time, in the simulated process that asks for it; one by one where there is none."""
    process = getattr(greenlet.getcurrent(), "sim_process", None)
    if process is None:
        for call in calls:
            call()
        return
    ended = Mailbox(sim)

    def make(call: Callable[[], None]) -> None:
        try:
            call()
        except HayaseError as error:
            ended.put((error,))
        else:
            ended.put(())

    for call in calls:
        process.spawn(partial(make, call))
    for (error,) in filter(None, [ended.take() for _ in calls]):
        raise error


class Planner:
    """A run's hand on the assignments."""

    def __init__(self, blobs: BlobStore, clients: Clients) -> None:
        self.ids = SlotIds(_CONFIG, **clocks(clients), at_once=partial(at_once, clients.broker.sim))
        self._blobs = blobs
        self._places = SlotPlaces(OWNER, blobs, self.ids, 0, lambda _: blobs)

    def place(self, slots: Mapping[Bundle, int], *, started: bool) -> dict[Bundle, Place]:
        """Give bundles their slots; `started`: strays of earlier runs must give up."""
        topologies = {
            name: PlacedTopology(
                _CHECKPOINT,
                {bundle: 0 if slot == OWN else slot for (topology, bundle), slot in slots.items() if topology == name},
                {bundle: position(bundle) for topology, bundle in slots if topology == name},
                _CONFIG,
                frozenset({0} if any(slots[each] == OWN for each in slots if each[0] == name) else ()),
            )
            for name in sorted({topology for topology, _ in slots})
        }
        if not started:
            self._places._made = self._places._made or Assignments(self._blobs).newest()
        self._places.place(topologies, list(topologies) if started else ())
        return {each: self._places.of(each[0])[each[1]] for each in slots}

    def give_back(self) -> None:
        """Have all bundles published under ids of their own."""
        for name in sorted({topology for topology, _ in BUNDLES}):
            owner = self.ids.owner(name)
            if owner is not None:
                give_back(self.ids, name, owner, lambda _: self._blobs)


class Slot:
    """A process of a slot: publishes what it is handed."""

    def __init__(self, blobs: BlobStore, clients: Clients, in_between: Callable[[Step], bool]) -> None:
        self._writer = SlotWriter(_CONFIG, Assignments(blobs), **clocks(clients))
        self._in_between = in_between

    def publish(self, steps: Sequence[Step]) -> dict[Step, str]:
        """`done`, `given up` or `failed`, for each step; all have one place."""
        ready = {step: self._ready(step) for step in steps}
        outcomes: dict[Step, str] = {}
        for step in steps:
            if ready[step].id != step.place.id:  # large: alone
                outcomes |= self._publish([step])
        return outcomes | self._publish([step for step in steps if step not in outcomes])

    def _publish(self, steps: Sequence[Step]) -> dict[Step, str]:
        by_topology: dict[str, list[Step]] = {}
        for step in steps:
            by_topology.setdefault(step.bundle[0], []).append(step)
        ready = [[self._ready(each) for each in group] for group in by_topology.values()]
        outcomes = publish_together(ready, self._writer.publish, lambda number: self._writer.publish(ready[number]))
        return {
            step: _said(outcome)
            for group, outcome in zip(by_topology.values(), outcomes, strict=True)
            for step in group
        }

    def _ready(self, step: Step) -> SlotStep:
        topology, bundle = step.bundle
        batches = step.batches(self._in_between)
        is_closed = None if step.outputs is None else lambda: False
        return SlotStep(topology, bundle, step.place, position(bundle), step.marker, batches, is_closed)


class OwnIds:
    """A process that publishes bundles under ids of their own."""

    def __init__(self, clients: Clients, in_between: Callable[[Step], bool]) -> None:
        self._writer = KafkaWriter(_CONFIG, **clocks(clients))
        self._in_between = in_between

    def publish(self, steps: Sequence[Step]) -> dict[Step, str]:
        """As `Slot.publish`."""
        return {step: self._publish(step) for step in steps}

    def _publish(self, step: Step) -> str:
        try:
            batches = step.batches(self._in_between)
            topology, bundle = step.bundle
            self._writer.publish_epoch(topology, bundle, step.marker, batches, plan_position=position(bundle))
        except HayaseError as error:
            return _said(error)
        return "done"


def position(bundle: str) -> int:
    """In the plan of its topology."""
    return int(bundle[-1])


def key_of(bundle: Bundle) -> bytes:
    """Of a bundle's outputs."""
    return ":".join(bundle).encode()


def _said(outcome: object) -> str:
    if isinstance(outcome, LogError) and outcome.condition == "STATE_MOVED":
        return "given up"
    if isinstance(outcome, Exception):
        if not isinstance(outcome, HayaseError):
            raise outcome
        return "failed"
    return "done"


@contextlib.contextmanager
def planted(rules: Rules) -> Iterator[None]:
    """Leave out of the product's code what the rules say."""
    with contextlib.ExitStack() as stack:
        for rule, patches in _PLANTED.items():
            if not getattr(rules, rule):
                for patch in patches():
                    stack.enter_context(patch)
        yield


def _changed(owner: Any, name: str, make: Callable[[Any], Any]) -> Any:
    return mock.patch.object(owner, name, make(getattr(owner, name)))


def _fenced_first(_: Any) -> Any:
    def make_true(self: Any, assignments: Any, made: Any, ids: Any, topic: Any) -> None:
        lost = {*ids}.union(*(each.ids_lost_to(made) for each in assignments.earlier(made.number)))
        for id_ in sorted(lost):
            self._take(id_, topic)
        assignments.create(made)

    return make_true


def _first_assignment_kept(real: Any) -> Any:
    def begin(self: Any, *args: Any) -> Any:
        session = real(self, *args)
        self.read_first = session.assignment = getattr(self, "read_first", session.assignment)
        return session

    return begin


def _one_marker_read(real: Any) -> Any:
    def learn(self: Any, session: Any, writes: Any) -> None:
        new = [each for each in writes if (each.partition, each.key) not in session.last]
        real(self, session, new[:1])
        session.last |= {(each.partition, each.key): None for each in new[1:]}

    return learn


def _stable_end(real: Any) -> Any:
    def offsets(self: Any, wanted: Any, *, committed: bool = True) -> Any:
        return real(self, wanted, committed=True)

    return offsets


def _same_id_is_enough(_: Any) -> Any:
    def is_placed(step: Any, assignment: Any) -> bool:
        place = assignment.place(step.application_id, step.bundle)
        return place is not None and place.id == step.place.id

    return is_placed


def _one_before(real: Any) -> Any:
    return lambda self, number: real(self, number)[-1:]


def _first_ids_only(real: Any) -> Any:
    return lambda self, later: {id_ for id_ in real(self, later) if not id_.endswith("@large")}


def _by_outputs_alone(_: Any) -> Any:
    return property(lambda step: step.place.id_for(sum(map(len, step.batches))))


def _moved_not_left(real: Any) -> Any:
    def write(self: Any, writes: Any, now_ms: int) -> None:
        kept = [each for each in writes if not is_moved(each.marker)]
        if kept:
            real(self, kept, now_ms)

    return write


def _never_always(real: Any) -> Any:
    return lambda self, *args, always: real(self, *args, always=False)


def _not_looked_again(real: Any) -> Any:
    def give_back(self: Any, name: Any, bundle: Any, partition: Any, assignments: Any, made: Any) -> Any:
        return real(self, name, bundle, partition, mock.Mock(newest=lambda: made), made)

    return give_back


def _settles(real: Any) -> Any:
    def give_back(self: Any, name: Any, assignments: Any, owner: Any) -> None:
        real(self, name, assignments, owner)
        self.settle(assignments, assignments.newest())

    return give_back


_PLANTED: Mapping[str, Callable[[], Sequence[Any]]] = {
    "published_before_fencing": lambda: [_changed(SlotIds, "_publish_and_fence", _fenced_first)],
    "read_again_after_init": lambda: [_changed(SlotWriter, "_begin", _first_assignment_kept)],
    "markers_of_all_bundles": lambda: [_changed(SlotWriter, "_learn", _one_marker_read)],
    "markers_are_waited_for": lambda: [_changed(admin.KafkaAdmin, "offsets", _stable_end)],
    "place_is_numbered": lambda: [_changed(slot_writer, "_is_placed", _same_id_is_enough)],
    "all_earlier_are_fenced": lambda: [_changed(Assignments, "earlier", _one_before)],
    "large_ids_are_fenced": lambda: [_changed(Assignment, "ids_lost_to", _first_ids_only)],
    "large_ids_need_deltas": lambda: [_changed(SlotStep, "id", _by_outputs_alone)],
    "moved_marker_is_left": lambda: [_changed(TransactionalProducer, "write", _moved_not_left)],
    "old_ids_are_taken_again": lambda: [_changed(SlotIds, "take_over", _never_always)],
    "going_back_deletes_nothing": lambda: [_changed(SlotIds, "give_back", _settles)],
    "going_back_looks_again": lambda: [_changed(SlotIds, "_give_bundle_back", _not_looked_again)],
}
