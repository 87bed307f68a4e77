"""Slot producers, the protocol: which transactional id may write a bundle, and what is looked at first.

A model in the terms of `docs/decisions/20261125-slot-producers.md`, over the models of the object store (below the
product's `S3Blobs`) and of the brokers. `Rules` says which of its steps are taken, so that each can be left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
from confluent_kafka import KafkaError, KafkaException
from tests.simulation.kafka_broker import Entry as LogRecord
from tests.simulation.kafka_clients import Clients, ModelProducer

from hayase.storage.blobs import BlobStore
from hayase.storage.numbered_names import numbers_of

OUT, MARKERS, OLD_MARKERS = "out", "markers", "old-markers"
MOVED = 1 << 40
"""The epoch of the marker that an upgrade leaves for writers of before it: later than any of theirs."""
_FOLDER, _DIGITS = "assignments/", 12
_ATTEMPTS = 5
_OPEN_S = 10.0


@dataclass(frozen=True)
class Rules:
    """What the protocol does; each set to false is a bug to plant."""

    published_before_fencing: bool = True
    read_again_after_init: bool = True
    markers_of_all_bundles: bool = True
    markers_are_waited_for: bool = True
    place_is_numbered: bool = True
    all_earlier_are_fenced: bool = True
    moved_marker_is_left: bool = True
    markers_of_all_ids: bool = True
    old_ids_are_taken_again: bool = True
    going_back_looks_again: bool = True


class Place(msgspec.Struct, frozen=True):
    """Where a bundle is published: a transactional id, and the number of the assignment that gave it that one."""

    id: str
    since: int


class Step(NamedTuple):
    """An epoch of a bundle that is to be published."""

    bundle: str
    epoch: int
    place: Place


class Assignment(NamedTuple):
    """A numbered assignment."""

    number: int
    places: Mapping[str, Place]


class Superseded(Exception):
    """There is a later assignment than that of this run."""


class Assignments:
    """The numbered assignments of a checkpoint."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs

    def numbers(self) -> list[int]:
        return numbers_of(self._blobs.list(_FOLDER), _FOLDER, _DIGITS)

    def get(self, number: int) -> Assignment | None:
        data = self._blobs.get(_name(number))
        return None if data is None else Assignment(number, msgspec.json.decode(data, type=dict[str, Place]))

    def newest(self) -> Assignment:
        """The one that counts; number 0 is that of before the first."""
        while True:
            number = max(self.numbers(), default=0)
            if number == 0:
                return Assignment(0, {})
            found = self.get(number)
            if found is not None:  # else it was deleted since, so there is a later one
                return found

    def create(self, assignment: Assignment) -> None:
        """Publish it.

        Raises:
            Superseded: another run did so first, or has come further since.
        """
        data = msgspec.json.encode(dict(assignment.places))
        if not self._blobs.put_if_absent(_name(assignment.number), data):
            raise Superseded
        if max(self.numbers(), default=0) > assignment.number:
            raise Superseded

    def earlier(self, number: int) -> list[Assignment]:
        found = (self.get(each) for each in self.numbers() if each < number)
        return [each for each in found if each is not None]

    def forget(self, earlier: Iterable[Assignment]) -> None:
        for each in earlier:
            self._blobs.delete(_name(each.number))


def _name(number: int) -> str:
    return f"{_FOLDER}{number:0{_DIGITS}d}"


class Publisher:
    """Makes a new assignment true: publishes it, and fences those who wrote by an earlier one."""

    def __init__(self, blobs: BlobStore, clients: Clients, rules: Rules) -> None:
        self._assignments = Assignments(blobs)
        self._clients = clients
        self._rules = rules

    def newest(self) -> Assignment:
        return self._assignments.newest()

    def change(self, ids: Mapping[str, str], *, all_anew: bool) -> Assignment:
        """Give each bundle its id; nothing may be handed out before this returns.

        Args:
            ids: of all bundles.
            all_anew: also bundles that keep their id get a new place, so that strays of earlier runs give up.
        """
        before = self._assignments.newest()
        number = before.number + 1
        places = {
            bundle: kept
            if (kept := before.places.get(bundle)) is not None and kept.id == id_ and not all_anew
            else Place(id_, number)
            for bundle, id_ in ids.items()
        }
        made = Assignment(number, places)
        if self._rules.published_before_fencing:
            self._assignments.create(made)
            # Listed after the creation: what was the newest up to now is there, or has been fenced.
            earlier = self._assignments.earlier(number) if self._rules.all_earlier_are_fenced else [before]
            self._fence(earlier, made)
        else:
            earlier = self._assignments.earlier(number)
            self._fence(earlier, made)
            self._assignments.create(made)
        given_back = any(not each.places for each in earlier)
        if places and (all_anew or given_back):
            self._take_over(places, always=given_back and self._rules.old_ids_are_taken_again)
        self._assignments.forget(earlier)
        return made

    def _fence(self, earlier: Iterable[Assignment], made: Assignment) -> None:
        lost = {
            place.id for each in earlier for bundle, place in each.places.items() if made.places.get(bundle) != place
        }
        for id_ in sorted(lost):
            open_producer(self._clients, id_)

    def _take_over(self, bundles: Iterable[str], *, always: bool) -> None:
        """Fence the ids that each bundle had of its own before there were assignments, permanently.

        In one transaction of the old id the bundle's last marker comes to the new topic, and a marker of an epoch that
        no writer of before will reach takes its place in the old one.

        Args:
            bundles: to take over.
            always: also those whose marker says that they are; one that gives them back may be at work.
        """
        for bundle in bundles:
            if not always and last_markers(self._clients, OLD_MARKERS).get(bundle) == MOVED:
                continue
            producer = open_producer(self._clients, old_id(bundle))
            last = last_markers(self._clients, OLD_MARKERS).get(bundle, -1)
            if last == MOVED:
                continue  # by another start
            producer.begin_transaction()
            send(producer, MARKERS, 0, bundle, last)
            if self._rules.moved_marker_is_left:
                send(producer, OLD_MARKERS, 0, bundle, MOVED)
            producer.commit_transaction(_OPEN_S)

    def give_back(self, bundles: Iterable[str]) -> None:
        """Let a release without assignments go on: each bundle's last marker comes back to where it looks.

        Raises:
            Superseded: a run with assignments has begun meanwhile.
        """
        made = self.change({}, all_anew=True)
        for bundle in bundles:
            producer = open_producer(self._clients, old_id(bundle))
            if last_markers(self._clients, OLD_MARKERS).get(bundle) != MOVED:
                continue
            if self._rules.going_back_looks_again and self.newest().number != made.number:
                raise Superseded
            last = last_markers(self._clients, MARKERS).get(bundle, -1)
            producer.begin_transaction()
            send(producer, OLD_MARKERS, 0, bundle, last)
            producer.commit_transaction(_OPEN_S)


def old_id(bundle: str) -> str:
    """The id of a bundle before there were assignments."""
    return f"app-{bundle}"


def open_producer(clients: Clients, id_: str) -> ModelProducer:
    """Take an id: its producer of before can no longer write, and what that left open has ended."""
    producer = clients.producer({"transactional.id": id_, "transaction.timeout.ms": int(_OPEN_S * 1000)})
    producer.init_transactions(60.0)
    return producer


def send(producer: ModelProducer, topic: str, partition: int, bundle: str, epoch: int) -> None:
    producer.produce(topic, str(epoch).encode(), bundle.encode(), partition)


def marker_partition(clients: Clients, id_: str) -> int:
    """The partition of an id's markers."""
    return sum(id_.encode()) % len(clients.broker.topics[MARKERS].partitions)


def last_markers(
    clients: Clients, topic: str, *, wait: bool = True, partitions: Iterable[int] | None = None
) -> dict[str, int]:
    """The newest marker of every bundle; what is written at the time of the call is waited for."""
    stored = clients.broker.topics[topic].partitions
    numbers = list(range(len(stored)) if partitions is None else partitions)
    ends = {number: clients.request(f"end of {topic}-{number}", lambda n=number: stored[n].end) for number in numbers}
    markers: dict[str, int] = {}
    for number, end in ends.items():
        deadline = clients.broker.sim.now + 60.0
        while wait and stored[number].stable < end:
            if clients.broker.sim.now > deadline:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            clients.broker.sim.sleep(0.05)
        records: list[LogRecord] = clients.request(
            f"fetch {topic}-{number}", lambda n=number, e=end: stored[n].committed(0, e)
        )
        for bundle, epoch in ((str(each.key, "utf-8"), int(each.value or b"0")) for each in records if each.key):
            # An old topic has one writer at a time, whose last word counts; else that of the later epoch does.
            markers[bundle] = epoch if topic == OLD_MARKERS else max(epoch, markers.get(bundle, -1))
    return markers


@dataclass
class _Session:
    """A transactional id from one `init_transactions` to the next."""

    producer: ModelProducer
    assignment: Assignment
    last: dict[str, int] = field(default_factory=dict)


class SlotWriter:
    """Publishes what a slot has ready, with one transactional id."""

    def __init__(
        self, id_: str, blobs: BlobStore, clients: Clients, rules: Rules, refuses: Callable[[Step], bool]
    ) -> None:
        self._id = id_
        self._assignments = Assignments(blobs)
        self._clients = clients
        self._rules = rules
        self._refuses = refuses
        self._session: _Session | None = None
        self._read_first: Assignment | None = None

    def publish(self, steps: list[Step]) -> dict[Step, str]:
        """`done`, `given up` or `failed`, for each step."""
        for _ in range(_ATTEMPTS):
            try:
                return self._try(steps)
            except KafkaException:
                self._session = None
                self._clients.broker.sim.sleep(0.05)
        return dict.fromkeys(steps, "failed")

    def _try(self, steps: list[Step]) -> dict[Step, str]:
        if self._session is None:
            self._session = self._begin()
        session = self._session
        if not all(self._is_ours(step, session.assignment) for step in steps):
            session.assignment = self._assignments.newest()
        ours = [step for step in steps if self._is_ours(step, session.assignment)]
        outcome = {step: "given up" for step in steps if step not in ours}
        self._learn(session, [step.bundle for step in ours])
        missing = [step for step in ours if session.last.get(step.bundle, -1) < step.epoch]
        outcome |= {step: "done" for step in ours if step not in missing}
        if missing and self._commit(session, missing):
            return outcome | dict.fromkeys(missing, "done")
        for step in missing:  # one of them was refused, and all were aborted
            outcome[step] = "done" if self._commit(session, [step]) else "failed"
        return outcome

    def _begin(self) -> _Session:
        producer = open_producer(self._clients, self._id)
        if self._rules.read_again_after_init or self._read_first is None:
            self._read_first = self._assignments.newest()
        return _Session(producer, self._read_first)

    def _is_ours(self, step: Step, assignment: Assignment) -> bool:
        place = assignment.places.get(step.bundle)
        if place is None or place.id != self._id:
            return False
        return place == step.place or not self._rules.place_is_numbered

    def _learn(self, session: _Session, bundles: list[str]) -> None:
        """Read the markers of bundles that this session has not met."""
        if all(bundle in session.last for bundle in bundles):
            return
        partitions = None if self._rules.markers_of_all_ids else [marker_partition(self._clients, self._id)]
        found = last_markers(self._clients, MARKERS, wait=self._rules.markers_are_waited_for, partitions=partitions)
        new = [bundle for bundle in bundles if bundle not in session.last]
        for bundle in new if self._rules.markers_of_all_bundles else new[:1]:
            session.last[bundle] = found.get(bundle, -1)

    def _commit(self, session: _Session, steps: list[Step]) -> bool:
        """Outputs and markers of all steps in one transaction; false if a record was refused, and all is aborted."""
        producer = session.producer
        producer.begin_transaction()
        for step in steps:
            send(producer, OUT, 0, step.bundle, step.epoch)
        if any(self._refuses(step) for step in steps):
            producer.abort_transaction(_OPEN_S)
            return False
        for step in steps:
            send(producer, MARKERS, marker_partition(self._clients, self._id), step.bundle, step.epoch)
        producer.commit_transaction(_OPEN_S)
        session.last |= {step.bundle: step.epoch for step in steps}
        return True


class OldWriter:
    """Publishes a bundle with an id of its own, as before there were assignments."""

    def __init__(self, bundle: str, clients: Clients) -> None:
        self._bundle = bundle
        self._clients = clients
        self._session: tuple[ModelProducer, int] | None = None

    def publish(self, steps: list[Step]) -> dict[Step, str]:
        """As `SlotWriter.publish`."""
        return {step: self._publish(step) for step in steps}

    def _publish(self, step: Step) -> str:
        for _ in range(_ATTEMPTS):
            try:
                if self._session is None:
                    producer = open_producer(self._clients, old_id(self._bundle))
                    self._session = producer, last_markers(self._clients, OLD_MARKERS).get(self._bundle, -1)
                producer, last = self._session
                if last >= step.epoch:
                    return "done" if last < MOVED else "given up"
                producer.begin_transaction()
                send(producer, OUT, 0, step.bundle, step.epoch)
                send(producer, OLD_MARKERS, 0, step.bundle, step.epoch)
                producer.commit_transaction(_OPEN_S)
                self._session = producer, step.epoch
                return "done"
            except KafkaException:
                self._session = None
                self._clients.broker.sim.sleep(0.05)
        return "failed"
