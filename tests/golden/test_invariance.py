"""However the input of a golden topology is cut into epochs, interrupted and assigned to bundles.

What comes out is the same.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.budget import examples
from tests.golden.cases import DATA, Case
from tests.golden.invariance import Outcome, Runner, Way, cut_anywhere, differences, several_writers, through_topics
from tests.golden.run import load
from tests.golden.spark_engine import groups

pytestmark = pytest.mark.long

TOGETHER = 24
ALL = list(groups(list(load(DATA)), TOGETHER))
SAMPLE = random.Random(1).sample([case for group in ALL for case in group], 3 * TOGETHER)
# A run takes seconds: no time for smaller examples, the seed is printed.
FEW = settings(
    max_examples=examples(2),
    deadline=None,
    print_blob=True,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def outcome(runner: Runner, way: Way) -> Mapping[str, Outcome]:
    with tempfile.TemporaryDirectory(prefix="hayase-invariance-") as folder:
        return runner.run(Path(folder), way)


def cuts_of(records: int, most: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(st.integers(1, records - 1), min_size=1, max_size=most, unique=True).map(tuple)


def expect_the_same_however_it_is_cut(cases: list[Case]) -> None:
    runner = Runner(cases)
    at_once = outcome(runner, Way())
    anywhere = {case["name"] for case in cases if cut_anywhere(case)}

    @FEW
    @given(
        cuts_of(runner.records, 12),
        st.dictionaries(st.integers(0, 12), st.integers(0, 20), max_size=3),
        st.sampled_from(["rows", "auto"]),
    )
    def check(cuts: tuple[int, ...], crashes: dict[int, int], form: str) -> None:
        interrupted = outcome(runner, Way(cuts, crashes, form=form))
        undisturbed = at_once
        if len(anywhere) < len(cases):
            undisturbed = {**outcome(runner, Way(cuts, form=form)), **{name: at_once[name] for name in anywhere}}
        assert not list(differences(undisturbed, interrupted)), "\n".join(differences(undisturbed, interrupted))

    check()


def expect_the_same_in_one_and_in_three_bundles(cases: list[Case]) -> None:
    # In a topic that tasks write side by side and an epoch reads back, the order is that of their transactions.
    cases = [case for case in cases if not through_topics(case)]
    if not cases:
        pytest.skip("what comes back through topics has no order that could be compared")
    runner = Runner(cases)
    unordered = frozenset(case["name"] for case in cases if several_writers(case))

    @FEW
    @given(cuts_of(runner.records, 6))
    def check(cuts: tuple[int, ...]) -> None:
        one = outcome(runner, Way(cuts, partitions=3, threads=1))
        three = outcome(runner, Way(cuts, partitions=3, threads=3))
        assert not list(differences(one, three, unordered)), "\n".join(differences(one, three, unordered))

    check()


def groups_of(cases: list[Case]) -> list[list[Case]]:
    return list(groups(cases, TOGETHER))


@pytest.mark.parametrize("cases", groups_of(SAMPLE[:TOGETHER]), ids=lambda cases: f"{len(cases)} cases")
def test_a_sample_comes_to_the_same_however_it_is_cut_and_interrupted(cases: list[Case]) -> None:
    expect_the_same_however_it_is_cut(cases)


@pytest.mark.parametrize("cases", groups_of(SAMPLE[-TOGETHER:]), ids=lambda cases: f"{len(cases)} cases")
def test_a_sample_with_keys_spread_comes_to_the_same_in_one_and_in_three_bundles(cases: list[Case]) -> None:
    expect_the_same_in_one_and_in_three_bundles(cases)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("cases", ALL, ids=lambda cases: cases[0]["name"])
def test_every_golden_topology_comes_to_the_same_however_it_is_cut_and_interrupted(cases: list[Case]) -> None:
    expect_the_same_however_it_is_cut(cases)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("cases", ALL, ids=lambda cases: cases[0]["name"])
def test_every_golden_topology_comes_to_the_same_in_one_and_in_three_bundles(cases: list[Case]) -> None:
    expect_the_same_in_one_and_in_three_bundles(cases)
