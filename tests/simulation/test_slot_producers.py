"""Slot producers: whatever happens, each epoch of each bundle is published once, in order; each rule is needed."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from unittest import mock

import pytest
from tests.simulation.kafka_broker import Broker
from tests.simulation.kafka_clients import Clients
from tests.simulation.object_store import ObjectStore, in_place_of_s3
from tests.simulation.scheduler import Sim
from tests.simulation.slot_protocol import (
    MARKERS,
    OLD_MARKERS,
    OUT,
    Assignment,
    Publisher,
    Rules,
    SlotWriter,
    Step,
)
from tests.simulation.slot_world import run_slots

from hayase.core.steps import STEPS

_ALWAYS, _OFTEN, _ALL, _TOGETHER = 5, 50, 1000, 10
_PLANTED_SEEDS = 2000
_QUICK = {"markers_of_all_ids", "markers_of_all_bundles"}
_SELDOM = {"place_is_numbered", "old_ids_are_taken_again"}
"""Not expected of random seeds."""


def _seeds() -> list[object]:
    """As many as of the simulation of whole applications."""
    found: list[object] = [pytest.param([seed], id=str(seed)) for seed in range(_ALWAYS)]
    found += [pytest.param([seed], id=str(seed), marks=pytest.mark.long) for seed in range(_ALWAYS, _OFTEN)]
    for first in range(_OFTEN, _ALL, _TOGETHER):
        seeds = list(range(first, first + _TOGETHER))
        found.append(pytest.param(seeds, id=f"{first}-{seeds[-1]}", marks=pytest.mark.slow))
    return found


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
    without = dataclasses.replace(Rules(), **{rule: False})
    assert any(run_slots(seed, without).problem for seed in range(_PLANTED_SEEDS))


def test_a_world_of_slot_producers_leaves_no_request_behind_in_its_process() -> None:
    for seed in range(_ALWAYS):
        run_slots(seed)
        assert not STEPS.asking


def test_a_seed_of_slot_producers_gives_the_same_schedule_again() -> None:
    assert run_slots(3).digest == run_slots(3).digest


class _Bench:
    """The pieces of the protocol without processes: each call runs to its end, and a schedule says what comes next.

    Args:
        rules: that are kept.
    """

    def __init__(self, rules: Rules) -> None:
        self.sim = Sim(0)
        self.store = ObjectStore(self.sim)
        broker = Broker(self.sim)
        for topic in (OUT, MARKERS, OLD_MARKERS):
            broker.create_topic(topic, 1, {})
        self.clients = Clients(broker)
        self._rules = rules

    def publisher(self) -> Publisher:
        return Publisher(self.store.blobs(), self.clients, self._rules)

    def publisher_that_dies(self) -> Publisher:
        """It publishes an assignment, and takes no id."""
        made = self.publisher()
        for owner, name in ((made, "_fence"), (made, "_take_over"), (made._assignments, "forget")):
            mock.patch.object(owner, name).start()
        return made

    def writer(self, id_: str, before_markers: Callable[[], object] = lambda: None) -> SlotWriter:
        """A writer that comes to a halt between its outputs and its markers, while something else happens.

        What was committed before is decided: the brokers had the time for it.
        """
        self.sim.run_for(1.0)

        def halt(_: Step) -> bool:
            before_markers()
            self.sim.run_for(1.0)
            return False

        return SlotWriter(id_, self.store.blobs(), self.clients, self._rules, halt)

    def published(self) -> list[int]:
        self.sim.run_for(1.0)
        partition = self.clients.broker.partition(OUT, 0)
        return [int(each.value or b"") for each in partition.committed(0, partition.end)]


@pytest.fixture
def bench_of() -> Iterator[Callable[[Rules], _Bench]]:
    with contextlib.ExitStack() as stack:
        stack.callback(mock.patch.stopall)

        def make(rules: Rules) -> _Bench:
            bench = _Bench(rules)
            stack.enter_context(in_place_of_s3(bench.store.client))
            return bench

        yield make


def _step(assignment: Assignment) -> Step:
    return Step("b", 0, assignment.places["b"])


def _there_and_back(bench: _Bench) -> list[int]:
    """A bundle goes from x to y and back; a step of the first time at x is still on its way."""
    publisher, stray = bench.publisher(), bench.writer("x")
    first = _step(publisher.change({"b": "x"}, all_anew=False))
    second = _step(publisher.change({"b": "y"}, all_anew=False))

    def between() -> None:
        bench.publisher_that_dies().change({"b": "x"}, all_anew=False)
        stray.publish([first])

    bench.writer("y", between).publish([second])
    return bench.published()


def _died_before_it_took_the_ids(bench: _Bench) -> list[int]:
    """A run dies between publishing an assignment and taking the ids of that before; another one follows."""
    first = _step(bench.publisher().change({"b": "x"}, all_anew=True))

    def between() -> None:
        bench.publisher_that_dies().change({"b": "y"}, all_anew=True)
        step = _step(bench.publisher().change({"b": "z"}, all_anew=True))
        bench.writer("z").publish([step])

    bench.writer("x", between).publish([first])
    return bench.published()


_SCHEDULES = {
    "place_is_numbered": _there_and_back,
    "all_earlier_are_fenced": _died_before_it_took_the_ids,
}
"""Schedules that random seeds seldom come to, by the rule that excludes them."""


@pytest.mark.parametrize("rule", _SCHEDULES)
def test_slot_producers_exclude_a_schedule_that_doubles_an_epoch_without_the_rule(
    rule: str, bench_of: Callable[[Rules], _Bench]
) -> None:
    schedule = _SCHEDULES[rule]
    without = dataclasses.replace(Rules(), **{rule: False})
    assert (schedule(bench_of(Rules())), schedule(bench_of(without))) == ([0], [0, 0])
