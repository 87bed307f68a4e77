"""Random topologies: both forms do what Kafka Streams was recorded to do, and every way to run them comes to the same."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from tests.golden.build import build
from tests.golden.cases import Case
from tests.golden.invariance import Outcome, Runner, Way, cut_anywhere, differences, several_writers, through_topics
from tests.golden.run import run_case
from tests.parity.kafka_streams import kafka_streams
from tests.parity.traces import TOPOLOGIES, digest, traced

FEW = 48
TOGETHER = 40
DERIVED = frozenset({464, 583, 1371, 1372, 1945})
"""A stored join of a table with one derived from it, regrouped: Kafka Streams names old results that it never sent."""
OPEN = frozenset({1056})
"""A re-keyed stream joined with its own reduce: whether the row is there for its first record."""

pytestmark = pytest.mark.long


def groups(seeds: range) -> Iterator[list[Case]]:
    """Cases that can share an application: all of them optimized, or none."""
    for start in seeds[::TOGETHER]:
        cases = [traced(seed) for seed in range(start, min(start + TOGETHER, seeds.stop))]
        for optimized in (False, True):
            if some := [case for case in cases if bool(case["config"].get("optimize")) is optimized]:
                yield some


def outcome(runner: Runner, way: Way) -> Mapping[str, Outcome]:
    with tempfile.TemporaryDirectory(prefix="hayase-parity-") as folder:
        return runner.run(Path(folder), way)


def expect_what_kafka_streams_did(seeds: range) -> None:
    for seed in seeds:
        if seed in DERIVED | OPEN:
            continue
        for form in ("rows", "auto"):
            found = run_case(traced(seed), form)
            assert not found, f"seed {seed}, {form}: " + "; ".join(map(str, found))


def expect_the_same_cut_and_interrupted(cases: Sequence[Case], chance: random.Random) -> None:
    runner = Runner(cases)
    cuts = tuple(chance.sample(range(1, runner.records), 6))
    crashes = {chance.randint(0, 6): chance.randint(0, 20)}
    at_once = outcome(runner, Way())
    anywhere = {case["name"] for case in cases if cut_anywhere(case)}
    for form in ("rows", "auto"):
        way = f"cuts {cuts}, crashes {crashes}, {form}"
        undisturbed = at_once
        if len(anywhere) < len(cases):  # of the others only the crash may not matter
            undisturbed = {**outcome(runner, Way(cuts, form=form)), **{name: at_once[name] for name in anywhere}}
        found = list(differences(undisturbed, outcome(runner, Way(cuts, crashes, form=form))))
        assert not found, "\n".join([way, *found])


def expect_the_same_in_one_and_in_three_slots(cases: Sequence[Case], chance: random.Random) -> None:
    cases = [case for case in cases if not through_topics(case)]  # their order is that of the tasks' transactions
    if not cases:
        return
    runner = Runner(cases)
    unordered = frozenset(case["name"] for case in cases if several_writers(case))
    cuts = tuple(chance.sample(range(1, runner.records), 3))
    one, three = (outcome(runner, Way(cuts, partitions=3, threads=slots)) for slots in (1, 3))
    found = list(differences(one, three, unordered))
    assert not found, "\n".join([f"cuts {cuts}", *found])


def test_some_random_topologies_come_out_in_both_forms_as_in_kafka_streams() -> None:
    expect_what_kafka_streams_did(range(FEW))


def test_describe_prints_random_topologies_as_kafka_streams_does_unless_they_are_optimized() -> None:
    cases = [case for case in map(traced, range(TOPOLOGIES)) if not case["config"]]
    others = [case["name"] for case in cases if digest(build(case).topology.describe()) != case["expected"]["describe"]]
    assert not others


def test_some_random_topologies_come_to_the_same_in_every_way() -> None:
    for number, cases in enumerate(groups(range(FEW))):
        expect_the_same_cut_and_interrupted(cases, random.Random(number))
        expect_the_same_in_one_and_in_three_slots(cases, random.Random(number))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_random_topologies_come_out_in_both_forms_as_in_kafka_streams() -> None:
    expect_what_kafka_streams_did(range(TOPOLOGIES))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_random_topologies_come_to_the_same_cut_into_epochs_and_interrupted() -> None:
    for number, cases in enumerate(groups(range(TOPOLOGIES))):
        expect_the_same_cut_and_interrupted(cases, random.Random(number))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_random_topologies_come_to_the_same_in_one_and_in_three_slots() -> None:
    for number, cases in enumerate(groups(range(TOPOLOGIES))):
        expect_the_same_in_one_and_in_three_slots(cases, random.Random(number))


@pytest.mark.slow
def test_what_was_recorded_is_what_kafka_streams_does_where_it_can_be_run() -> None:
    with kafka_streams() as real:
        for seed in range(FEW):
            case = traced(seed)
            found = real.record(case)["expected"]
            assert {**found, "describe": digest(found["describe"])} == case["expected"], seed
