"""Slot producers: whatever happens, each epoch of each bundle is published once, in order; each rule is needed."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from unittest import mock

import pytest
from tests.simulation.kafka_broker import Broker
from tests.simulation.kafka_clients import Clients
from tests.simulation.object_store import ObjectStore, in_place_of_s3
from tests.simulation.scheduler import Sim
from tests.simulation.slot_protocol import OUT, Bundle, OwnIds, Planner, Rules, Slot, Step, over, planted
from tests.simulation.slot_world import run_slots

from hayase.core import failpoints
from hayase.core.errors import LogError
from hayase.core.steps import STEPS
from hayase.log.assignments import LARGE_EPOCH_RECORDS, Assignments, Place
from hayase.log.kafka.markers import markers_topic
from hayase.log.kafka.slot_ids import SlotIds, own_id

_ALWAYS, _OFTEN, _ALL, _TOGETHER = 5, 50, 1000, 10
_PLANTED_SEEDS = 2000
_QUICK = {"markers_of_all_bundles"}
_SELDOM = {
    "place_is_numbered",
    "old_ids_are_taken_again",
    "published_before_fencing",
    "large_ids_are_fenced",
    "large_ids_need_deltas",
}
"""Not expected of random seeds."""
_BUNDLE = ("b", "0-0")


def _seeds() -> list[object]:
    """As many as of the simulation of whole applications."""
    found: list[object] = [pytest.param([seed], id=str(seed)) for seed in range(_ALWAYS)]
    found += [pytest.param([seed], id=str(seed), marks=pytest.mark.long) for seed in range(_ALWAYS, _OFTEN)]
    for first in range(_OFTEN, _ALL, _TOGETHER):
        seeds = list(range(first, first + _TOGETHER))
        found.append(pytest.param(seeds, id=f"{first}-{seeds[-1]}", marks=pytest.mark.slow))
    return found


@pytest.mark.long
@pytest.mark.parametrize("seeds", _seeds())
def test_slot_producers_publish_each_epoch_once_and_in_order(seeds: list[int]) -> None:
    for seed in seeds:
        outcome = run_slots(seed)
        assert not outcome.problem, f"seed {seed}: {outcome.problem}"


def _mark(rule: str) -> pytest.MarkDecorator:
    return pytest.mark.long if rule in _QUICK else pytest.mark.slow


@pytest.mark.timeout(2400)
@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(each.name, id=each.name, marks=_mark(each.name))
        for each in dataclasses.fields(Rules)
        if each.name not in _SELDOM
    ],
)
def test_a_seed_finds_that_a_rule_of_slot_producers_is_left_out(rule: str) -> None:
    assert any(run_slots(seed, _without(rule)).problem for seed in range(_PLANTED_SEEDS))


@pytest.mark.long
def test_a_world_of_slot_producers_leaves_no_request_behind_in_its_process() -> None:
    for seed in range(_ALWAYS):
        run_slots(seed)
        assert not STEPS.asking


@pytest.mark.long
def test_a_seed_of_slot_producers_gives_the_same_schedule_again() -> None:
    assert run_slots(3).digest == run_slots(3).digest


class _AsleepError(Exception):
    """A process sleeps here."""


class _Bench:
    """The pieces of the protocol without processes: each call runs to its end, and a schedule says what comes next."""

    def __init__(self) -> None:
        self.sim = Sim(0)
        self.store = ObjectStore(self.sim)
        broker = Broker(self.sim)
        for topic in (OUT, markers_topic("b")):
            broker.create_topic(topic, 1, {})
        self.clients = Clients(broker)

    def place(self, slot: int, *, started: bool) -> Step:
        """A planner gives the bundle a slot; its epoch at that place."""
        self.sim.run_for(1.0)
        return self._step(Planner(self.store.blobs(), self.clients).place({_BUNDLE: slot}, started=started))

    def place_and_die(self, slot: int, *, started: bool) -> Step:
        """As `place`, by a planner that publishes the assignment and takes no id."""
        with contextlib.ExitStack() as stack:
            for owner, name in ((SlotIds, "_take"), (SlotIds, "take_over"), (Assignments, "forget")):
                stack.enter_context(mock.patch.object(owner, name))
            return self.place(slot, started=started)

    def begin_to_place(self, slot: int) -> Callable[[], Step]:
        """A planner sleeps between publishing the assignment and taking ids, whichever comes first; the rest of it."""
        kinds = {"create": Assignments, "_take": SlotIds}
        done: list[str] = []

        def first_only(kind: str) -> Callable[..., None]:
            real = getattr(kinds[kind], kind)

            def call(*args: object) -> None:
                if done and done[0] != kind:
                    raise _AsleepError
                done.append(kind)
                real(*args)

            return call

        with contextlib.ExitStack() as stack:
            for kind, owner in kinds.items():
                stack.enter_context(mock.patch.object(owner, kind, first_only(kind)))
            stack.enter_context(contextlib.suppress(_AsleepError))
            self.place(slot, started=False)

        def rest() -> Step:
            ids = mock.patch.object(SlotIds, "_take") if done[0] == "_take" else contextlib.nullcontext()
            with ids:
                return self.place(slot, started=False)

        return rest

    def give_back(self, in_between: Callable[[], object]) -> None:
        """A StreamsApp takes the bundle back; something else happens before it commits the bundle's marker."""
        self.sim.run_for(1.0)
        waiting = [in_between]

        def reached(*_: object) -> None:
            while waiting:
                waiting.pop()()

        with mock.patch.object(failpoints, "listener", reached), contextlib.suppress(LogError):
            Planner(self.store.blobs(), self.clients).give_back()

    def publish_by_own_id(self, epoch: int) -> None:
        """By a process that publishes the bundle under the bundle's own id."""
        self.sim.run_for(1.0)
        OwnIds(self.clients, lambda _: False).publish([Step(_BUNDLE, epoch, Place(own_id(*_BUNDLE), 0))])

    def publish(self, step: Step, in_between: Callable[[], object] = lambda: None) -> dict[Step, str]:
        """By a process of its own; something else happens between its outputs and its markers."""
        return self.slot(in_between).publish([step])

    def slot(self, in_between: Callable[[], object] = lambda: None) -> Slot:
        # What was committed before is decided: the brokers have the time for it.
        self.sim.run_for(1.0)

        def halt(_: Step) -> bool:
            in_between()
            self.sim.run_for(1.0)
            return False

        return Slot(self.store.blobs(), self.clients, halt)

    def published(self) -> list[int]:
        self.sim.run_for(1.0)
        partition = self.clients.broker.partition(OUT, 0)
        return [int(each.value or b"") for each in partition.committed(0, partition.end)]

    def _step(self, places: dict[Bundle, Place]) -> Step:
        return Step(_BUNDLE, 0, places[_BUNDLE])


def _there_and_back(bench: _Bench) -> list[int]:
    """A bundle goes from 0 to 1 and back; a step of the first time at 0 is still on its way."""
    stray = bench.slot()
    first = bench.place(0, started=True)
    second = bench.place(1, started=False)

    def between() -> None:
        bench.place_and_die(0, started=False)
        stray.publish([first])

    bench.publish(second, between)
    return bench.published()


def _died_before_it_took_the_ids(bench: _Bench) -> list[int]:
    """A run dies between publishing an assignment and taking the ids of that before; another one follows."""
    first = bench.place(0, started=True)

    def between() -> None:
        bench.place_and_die(1, started=True)
        bench.publish(bench.place(2, started=True))

    bench.publish(first, between)
    return bench.published()


def _asleep_between_publishing_and_taking(bench: _Bench) -> list[int]:
    """A stray takes its id again while a planner sleeps in the middle of a change."""
    first = bench.place(0, started=True)
    rest = bench.begin_to_place(1)
    woken: list[object] = []

    def wake() -> None:
        woken.append(bench.publish(rest()))

    bench.publish(first, wake)
    if not woken:
        wake()
    return bench.published()


def _asleep_in_a_large_epoch(bench: _Bench) -> list[int]:
    """A bundle goes to another slot while its large epoch is being written; the writer wakes."""
    first = bench.place(0, started=True)
    bench.publish(first)
    bench.publish(first._replace(epoch=1))
    large = first._replace(epoch=2)
    bench.publish(large, lambda: bench.publish(bench.place(1, started=False)._replace(epoch=2)))
    return bench.published()


def _second_attempt_has_more_outputs(bench: _Bench) -> list[int]:
    """A process sleeps while it publishes an epoch without a delta; another attempt of it makes more outputs."""
    first = bench.place(0, started=True)
    bench.publish(first)
    few = first._replace(epoch=1, outputs=1)
    bench.publish(few, lambda: bench.publish(few._replace(outputs=LARGE_EPOCH_RECORDS)))
    return bench.published()


def _given_back_and_taken_over_at_once(bench: _Bench) -> list[int]:
    """A StreamsApp freezes as it takes the bundle back; the runtime starts and publishes; then it goes on."""
    bench.publish(bench.place(0, started=True))
    bench.give_back(lambda: bench.publish(bench.place(0, started=True)._replace(epoch=1)))
    bench.publish_by_own_id(1)
    return bench.published()


_SCHEDULES = {
    "old_ids_are_taken_again": _given_back_and_taken_over_at_once,
    "published_before_fencing": _asleep_between_publishing_and_taking,
    "place_is_numbered": _there_and_back,
    "all_earlier_are_fenced": _died_before_it_took_the_ids,
    "large_ids_are_fenced": _asleep_in_a_large_epoch,
    "large_ids_need_deltas": _second_attempt_has_more_outputs,
}
"""Schedules that random seeds seldom come to, by the rule that excludes them."""


@pytest.mark.parametrize("rule", _SCHEDULES)
def test_slot_producers_exclude_a_schedule_that_doubles_an_epoch_without_the_rule(rule: str) -> None:
    once, doubled = _run(_SCHEDULES[rule], Rules()), _run(_SCHEDULES[rule], _without(rule))
    assert once == list(range(len(once)))
    assert doubled == [*once, once[-1]]


def _run(schedule: Callable[[_Bench], list[int]], rules: Rules) -> list[int]:
    bench = _Bench()
    with in_place_of_s3(bench.store.client), over(bench.clients), planted(rules):
        return schedule(bench)


def _without(rule: str) -> Rules:
    return dataclasses.replace(Rules(), **{rule: False})
