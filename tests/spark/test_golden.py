"""What Kafka Streams recorded, replayed on Spark: many cases in one application, an epoch for each of their inputs."""

from __future__ import annotations

import contextlib
import random

import pytest
from tests.golden.cases import Case, Unsupported
from tests.golden.run import DATA, deviation, load
from tests.golden.spark_engine import alone, groups, run_alone, run_together

SIZE = 75
SAMPLE = 150
CASES = [case for case in load(DATA) if deviation(case) is None and not case["topology_name"].startswith("ties")]
"""Which of several topics goes next whose records have one timestamp is a matter of the test driver.

Nothing promises it.
"""

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]


def differences(cases: list[Case], form: str) -> list[str]:
    """What they did differently."""
    found = run_together(cases, form)
    return [f"{name}: {each}" for name, several in found.items() for each in several]


def test_a_sample_of_all_families_comes_out_as_in_kafka_streams(spark: None) -> None:
    sample = random.Random(1).sample(CASES, SAMPLE)
    for group in groups(sample, SIZE):
        assert not differences(group, "auto")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["rows", "auto"])
def test_all_cases_come_out_as_in_kafka_streams(spark: None, form: str) -> None:
    for group in groups(CASES, SIZE):
        assert not differences(group, form)


def run_those_alone(cases: list[Case]) -> int:
    """How many could be run."""
    count = 0
    for case in filter(alone, cases):
        with contextlib.suppress(Unsupported):
            found = run_alone(case)
            assert not found, f"{case['name']}: " + "; ".join(map(str, found))
            count += 1
    return count


@pytest.mark.slow
def test_cases_that_end_with_an_error_do_so_at_the_same_input(spark: None) -> None:
    assert run_those_alone(CASES) > 15
