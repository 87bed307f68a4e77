"""What Kafka Streams recorded, replayed in the test driver."""

from __future__ import annotations

from fnmatch import filter as fnmatch_filter

import pytest
from tests.golden.build import unsupported
from tests.golden.cases import DATA, Case, Unsupported
from tests.golden.run import Deviation, deviation, deviations, load, run_case

CASES = [case for case in load(DATA) if unsupported(case) is None]
FORMS = ("rows", "auto")


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("family", sorted({case["family"] for case in CASES}))
def test_a_family_of_cases_comes_out_as_in_kafka_streams(family: str, form: str) -> None:
    replayed = 0
    for case in CASES:
        if case["family"] == family and deviation(case) is None and _replay(case, form):
            replayed += 1
    assert replayed, f"no case of {family} was replayed"


def _replay(case: Case, form: str) -> bool:
    try:
        differences = run_case(case, form)
    except Unsupported:
        return False
    assert not differences, f"{case['name']}: " + "; ".join(map(str, differences))
    return True


@pytest.mark.long
@pytest.mark.parametrize("listed", deviations(), ids=lambda listed: listed.cases[0])
def test_listed_deviations_do_deviate(listed: Deviation) -> None:
    """Which inputs run into a deviation is written down: each of them does, and no other."""
    mine = [case for case in CASES if deviation(case) == listed]
    assert mine
    for case in mine:
        assert run_case(case), f"{case['name']} comes out as in Kafka Streams: list it as alike"


def test_deviations_are_few_and_every_pattern_of_theirs_is_needed() -> None:
    """Not more than sixty cases; no pattern that matches nothing."""
    names = [case["name"] for case in load(DATA)]
    assert sum(deviation(case) is not None for case in load(DATA)) <= 60
    for listed in deviations():
        matched = [fnmatch_filter(names, pattern) for pattern in listed.cases]
        assert all(matched), listed
        together = {name for several in matched for name in several}
        assert all(fnmatch_filter(together, pattern) for pattern in listed.alike), listed
