"""Transactional ids of a shared runtime's slots, and how bundles come to them and go.

The order of the steps is what makes it safe; `docs/decisions/20261125-slot-producers.md` says why.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial

import msgspec
from confluent_kafka import KafkaException

from hayase.core.decoding import decode_json
from hayase.core.errors import CheckpointError, LeaseHeldError, LogError
from hayase.core.records import TopicPartition
from hayase.log.assignments import Assignment, Assignments, Place
from hayase.log.kafka.admin import KafkaAdmin
from hayase.log.kafka.clients import explained_error, kafka_error
from hayase.log.kafka.markers import MarkerTopics, is_moved, markers_topic, moved_marker, slot_key
from hayase.log.kafka.transactions import (
    EpochWrite,
    TransactionalProducer,
    TransactionTimeoutError,
    given_transaction_timeout_s,
)
from hayase.log.protocol import LogConfig, Marker
from hayase.storage.open import open_blobs

_LOG = logging.getLogger("hayase.log.kafka.slots")

_ATTEMPTS = 5
_AT_ONCE = 8
"""So many ids are taken at a time: each has a client with threads of its own meanwhile."""


def in_threads(calls: Sequence[Callable[[], None]]) -> None:
    """Make calls at the same time, a few of them; when all have ended, an error of one is raised."""
    if len(calls) < 2:
        for call in calls:
            call()
        return
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="hayase-ids") as threads:
        made = [threads.submit(copy_context().run, call) for call in calls]
    for each in made:
        each.result()


class Owner(msgspec.Struct, frozen=True):
    """The runtime whose slots publish an application's bundles.

    Attributes:
        runtime: its `application.id`.
        checkpoint: where its checkpoint is, with the assignments.
    """

    runtime: str
    checkpoint: str


class SlotIds:
    """Changes assignments, and takes the ids of those who wrote by earlier ones.

    Args:
        config: the log.
        timeout_s: how long a step may take without an answer.
        monotonic: the clock for that, in seconds.
        wall_clock_s: the time that marker records carry, in seconds since 1970.
        sleep: waits that many seconds between two attempts.
        at_once: makes calls at the same time; returns, or raises one's error, when all have ended.
    """

    def __init__(
        self,
        config: LogConfig,
        *,
        timeout_s: float = 60.0,
        monotonic: Callable[[], float] = time.monotonic,
        wall_clock_s: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
        at_once: Callable[[Sequence[Callable[[], None]]], None] = in_threads,
    ) -> None:
        self._config = config
        self._timeout_s = timeout_s
        self._transaction_timeout_s = given_transaction_timeout_s(config)
        self._monotonic = monotonic
        self._wall_clock_s = wall_clock_s
        self._admin = KafkaAdmin(config, timeout_s=timeout_s, monotonic=monotonic, sleep=sleep)
        self._markers = MarkerTopics(config, self._admin, timeout_s=timeout_s, monotonic=monotonic)
        self._partition_counts: dict[str, int] = {}  # of markers topics, by application id
        self._at_once = at_once

    def close(self) -> None:
        """Let go of connections."""
        self._markers.close()
        self._admin.close()

    def assign(
        self,
        assignments: Assignments,
        wanted: Mapping[str, Mapping[str, str]],
        *,
        renewed: Collection[str],
        ids: Iterable[str] = (),
    ) -> Assignment:
        """Give bundles their ids; steps that name the places may be handed out when it returns.

        Args:
            assignments: of the runtime.
            wanted: application id → bundle → transactional id; bundles that are not in it lose theirs.
            renewed: applications whose bundles get new places also where the id stays, so that strays give up.
            ids: to be taken in any case.

        Raises:
            LeaseHeldError: `LEASE_LOST`: another run has come further.
            LogError: the log could not be reached; calling again is safe.
        """
        before = assignments.newest()
        number = before.number + 1
        places = {
            application_id: {
                bundle: _place(before.place(application_id, bundle), id_, number, renewed=application_id in renewed)
                for bundle, id_ in bundles.items()
            }
            for application_id, bundles in wanted.items()
        }
        given_back = {each for earlier in assignments.earlier(number) for each in earlier.given_back}
        made = Assignment(number, places, sorted(given_back - wanted.keys()))
        for application_id in set(renewed) & wanted.keys():
            self._partition_counts[application_id] = self._markers.ensure(application_id)
        self._publish_and_fence(assignments, made, ids, markers_topic(next(iter(wanted))) if wanted else None)
        return made

    def given_back_before(self, assignments: Assignments, made: Assignment) -> set[str]:
        """Applications that an earlier assignment, which is there still, has given back."""
        return {each for earlier in assignments.earlier(made.number) for each in earlier.given_back}

    def settle(self, assignments: Assignments, made: Assignment) -> None:
        """Delete earlier assignments, once what follows from an assignment is done."""
        assignments.forget(assignments.earlier(made.number))

    def owner(self, application_id: str) -> Owner | None:
        """The runtime whose slots publish an application's bundles; `None`: they have ids of their own.

        Waits for no open transaction: what was open when a bundle was taken over has ended before.
        """
        return owner_in(self._markers.stored(application_id, wait=False))

    def own_markers(self, bundles: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, Marker]]:
        """The markers under the bundles' own keys, of several applications at once; waits as `owner` does.

        Args:
            bundles: application id → bundle → its position in the plan.
        """
        keys = {
            (partition, bundle): application_id
            for application_id, positions in bundles.items()
            for bundle, partition in self._partitions(application_id, positions).items()
        }
        found: dict[str, dict[str, Marker]] = {application_id: {} for application_id in bundles}
        for key, marker in self._markers.last_of(keys, wait=False).items():
            found[keys[key]][key[1]] = marker
        return found

    def end_attempts(self, application_id: str, bundles: Iterable[str]) -> None:
        """Take all ids under which bundles may be published: see `Log.end_attempts`.

        Sessions of slots begin again; what other topologies have in them is published then.

        Raises:
            CheckpointError: `RUNTIME_CHECKPOINT_MISSING`: a runtime has the application, and its assignments are not
                there.
            LogError: the log could not be reached; calling again is safe.
        """
        self._markers.ensure(application_id)
        owner, taken = self.owner(application_id), {own_id(application_id, bundle) for bundle in bundles}
        if owner is not None:
            assignments = Assignments(open_blobs(owner.checkpoint, fsync=False))
            newest = assignments.newest()
            if newest.number == 0:
                raise _no_assignments(application_id, owner)
            # Both ids of each place. What is published under second ones has a delta, too, which is looked for.
            for each in (*assignments.earlier(newest.number), newest):
                taken.update(*(place.ids for place in each.places.get(application_id, {}).values()))
        for id_ in sorted(taken):
            self._take(id_, markers_topic(application_id))

    def take_over(
        self,
        application_id: str,
        checkpoint_id: str,
        bundles: Mapping[str, int],
        owner: Owner,
        known: Mapping[str, Marker],
        *,
        always: bool,
    ) -> None:
        """Permanently end processes that publish an application's bundles under ids of their own.

        In one transaction of that id the bundle's last marker goes under its key for slots, and a marker of *moved*
        takes its place.

        Args:
            application_id: whose bundles.
            checkpoint_id: of the application.
            bundles: the bundles, and their places in the plan.
            owner: the runtime.
            known: what `own_markers` gave. Transactions that were open end when the ids are taken; a marker behind one
                is found then.
            always: also those whose marker says that they are moved: one that gives them back may be at work.
        """
        partitions = self._partitions(application_id, bundles)
        moved = moved_marker(checkpoint_id, msgspec.json.encode(owner).decode())
        due = [each for each in partitions.items() if always or not _is_moved_by(known.get(each[0]), checkpoint_id)]
        for first in range(0, len(due), _AT_ONCE):
            self._take_some_over(application_id, dict(due[first : first + _AT_ONCE]), moved)

    def _take_some_over(self, application_id: str, bundles: Mapping[str, TopicPartition], moved: Marker) -> None:
        producers: dict[str, TransactionalProducer] = {}

        def take(bundle: str) -> None:
            with self._explained(bundle):
                producers[bundle] = self._producer(own_id(application_id, bundle), bundles[bundle].topic)

        def move(bundle: str) -> None:
            last = found.get((bundles[bundle], bundle))
            if _is_moved_by(last, moved.checkpoint_id):
                return  # by another start
            writes = [EpochWrite(bundle, bundle, bundles[bundle], moved, ())]
            if last is not None and not is_moved(last):
                writes.insert(0, EpochWrite(bundle, slot_key(bundle), bundles[bundle], last, ()))
            with self._explained(bundle):
                producers[bundle].write(writes, self._now_ms())

        try:
            self._at_once([partial(take, bundle) for bundle in bundles])
            found = self._markers.last_of({(partition, bundle) for bundle, partition in bundles.items()})
            self._at_once([partial(move, bundle) for bundle in bundles])
        finally:
            for producer in producers.values():
                producer.discard()

    def give_back(self, application_id: str, assignments: Assignments, owner: Owner) -> None:
        """Have an application's bundles published under ids of their own again.

        Deletes no assignment: a run that is to take over others by one of them may be at work.

        The caller holds the application's lease; the runtime may be running, without that application.

        Args:
            application_id: the application.
            assignments: of the runtime that has it.
            owner: that runtime.

        Raises:
            CheckpointError: `RUNTIME_CHECKPOINT_MISSING`: the runtime's assignments are not there.
            LeaseHeldError: `LEASE_LOST`: a runtime has begun with the application meanwhile.
            LogError: the log could not be reached; calling again is safe.
        """
        for _ in range(_ATTEMPTS):
            before = assignments.newest()
            if before.number == 0:
                raise _no_assignments(application_id, owner)
            places = {each: bundles for each, bundles in before.places.items() if each != application_id}
            made = Assignment(before.number + 1, places, sorted({*before.given_back, application_id}))
            self._publish_and_fence(assignments, made, (), markers_topic(application_id))
            located = self._markers.located(application_id)
            moved = [(key, partition) for key, (partition, marker) in located.items() if is_moved(marker)]
            if all(self._give_bundle_back(application_id, *each, assignments, made) for each in sorted(moved)):
                _LOG.info("bundles of %s are published under ids of their own again", application_id)
                return
        raise _overtaken(application_id)

    def _give_bundle_back(
        self, application_id: str, bundle: str, partition: TopicPartition, assignments: Assignments, made: Assignment
    ) -> bool:
        """Whether it has an id of its own now; not if the runtime has changed its assignment meanwhile."""
        with self._taken(own_id(application_id, bundle), partition, bundle) as producer:
            found = self._markers.last_of({(partition, bundle), (partition, slot_key(bundle))})
            moved = found.get((partition, bundle))
            if moved is None or not is_moved(moved):
                return True
            newest = assignments.newest()
            if application_id in newest.places:
                raise _overtaken(application_id)
            if newest.number != made.number:
                return False
            # Where nothing was ever published there is no epoch.
            last = found.get((partition, slot_key(bundle)), Marker(moved.checkpoint_id, -1, ""))
            producer.write([EpochWrite(bundle, bundle, partition, last, ())], self._now_ms())
            return True

    def _publish_and_fence(
        self, assignments: Assignments, made: Assignment, ids: Iterable[str], topic: str | None
    ) -> None:
        """Publish an assignment, and end the sessions of earlier ones that it does not allow."""
        assignments.create(made)
        # Listed after the creation: what was the newest up to now is there, or its ids have been taken.
        lost = {*ids}.union(*(each.ids_lost_to(made) for each in assignments.earlier(made.number)))
        self._at_once([partial(self._take, id_, topic) for id_ in sorted(lost)])

    def _take(self, id_: str, topic: str | None) -> None:
        try:
            self._producer(id_, topic).discard()
        except KafkaException as error:
            raise explained_error(
                self._config, "producer", kafka_error(error), "taking a transactional id", id=id_
            ) from error

    @contextmanager
    def _taken(self, id_: str, partition: TopicPartition, bundle: str) -> Iterator[TransactionalProducer]:
        """An id's producer, for one transaction."""
        with self._explained(bundle):
            producer = self._producer(id_, partition.topic)
            try:
                yield producer
            finally:
                producer.discard()

    @contextmanager
    def _explained(self, bundle: str) -> Iterator[None]:
        """Errors of a producer inside say what was being done."""
        try:
            yield
        except TransactionTimeoutError as error:
            raise LogError(
                "BROKER_UNAVAILABLE",
                f"moving a bundle to another producer took longer than {self._transaction_timeout_s:g} s. Trying "
                "again is safe",
                bundle=bundle,
            ) from error
        except KafkaException as error:
            raise explained_error(
                self._config, "producer", kafka_error(error), "moving a bundle to another producer", bundle=bundle
            ) from error

    def _producer(self, id_: str, topic: str | None) -> TransactionalProducer:
        return TransactionalProducer(
            self._config, id_, topic,
            timeout_s=self._timeout_s, transaction_timeout_s=self._transaction_timeout_s, monotonic=self._monotonic,
        )  # fmt: skip

    def _partitions(self, application_id: str, bundles: Mapping[str, int]) -> dict[str, TopicPartition]:
        count = self._partition_counts.get(application_id)
        if count is None:
            count = self._partition_counts[application_id] = self._markers.ensure(application_id)
        return {
            bundle: self._markers.partition_of(application_id, bundle, count, position)
            for bundle, position in bundles.items()
        }

    def _now_ms(self) -> int:
        return int(self._wall_clock_s() * 1000)


def owner_in(markers: Mapping[str, Marker]) -> Owner | None:
    """The runtime that markers of *moved* name; `None` if none is among them."""
    moved = next((marker for marker in markers.values() if is_moved(marker)), None)
    return None if moved is None else decode_json(moved.digest, as_type=Owner)


def own_id(application_id: str, bundle: str) -> str:
    """The transactional id that a bundle has of its own."""
    return f"{application_id}-{bundle}"


def slot_id(runtime_id: str, slot: int, application_id: str = "") -> str:
    """The transactional id of a slot of a shared runtime; no bundle has such a name.

    Args:
        runtime_id: the runtime.
        slot: the slot.
        application_id: of a topology whose bundles in that slot have an id to themselves.
    """
    return f"{runtime_id}-@slot-{slot}" + (f"-{application_id}" if application_id else "")


def _place(before: Place | None, id_: str, number: int, *, renewed: bool) -> Place:
    return before if before is not None and before.id == id_ and not renewed else Place(id_, number)


def _is_moved_by(marker: Marker | None, checkpoint_id: str) -> bool:
    return marker is not None and is_moved(marker) and marker.checkpoint_id == checkpoint_id


def _no_assignments(application_id: str, owner: Owner) -> CheckpointError:
    return CheckpointError(
        "RUNTIME_CHECKPOINT_MISSING",
        f"{application_id} was last run by the shared runtime {owner.runtime!r}, whose checkpoint ({owner.checkpoint}) "
        "is not there: it says who may still write. Put it back, or start the topology in that runtime; or, if no "
        f"process of the runtime is left anywhere, `hayase app reset --markers-only {application_id}`",
    )


def _overtaken(application_id: str) -> LeaseHeldError:
    return LeaseHeldError(
        "LEASE_LOST",
        f"a shared runtime has begun with {application_id} while its bundles were given back: stop one of the two, and "
        "start the other again",
    )
