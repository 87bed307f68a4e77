"""What Kafka Streams recorded, replayed in the test driver."""

from __future__ import annotations

import pytest
from tests.golden.build import DATA, Case, Unsupported, unsupported
from tests.golden.run import deviation, load, run_case

CASES = [case for case in load(DATA) if unsupported(case) is None]
FORMS = ("rows", "auto")


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


@pytest.mark.parametrize("case", [case for case in CASES if deviation(case)], ids=lambda case: case["name"])
def test_a_listed_deviation_does_deviate(case: Case) -> None:
    assert run_case(case)
