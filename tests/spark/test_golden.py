"""What Kafka Streams recorded, replayed on Spark: many cases in one application, an epoch for each of their inputs."""

from __future__ import annotations

import random

import pytest
from tests.golden.run import DATA, deviation, load
from tests.golden.spark_engine import groups, run_together

SIZE = 75
SAMPLE = 150
CASES = [case for case in load(DATA) if deviation(case) is None]

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]


def differences(cases: list[object], form: str) -> list[str]:
    """What they did differently."""
    found = run_together(cases, form)  # type: ignore[arg-type]
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
