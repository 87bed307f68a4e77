"""Random topologies: both forms agree, and both agree with the real Kafka Streams where it can be run."""

from __future__ import annotations

import pytest
from tests.budget import examples
from tests.golden.run import run_case
from tests.parity.kafka_streams import kafka_streams
from tests.parity.topologies import Random

pytestmark = pytest.mark.slow

TOPOLOGIES = 2000
DERIVED = frozenset({464, 583, 1371, 1372, 1945})
"""A stored join of a table with one derived from it, regrouped: Kafka Streams names old results that it never sent."""
OPEN = frozenset({1056})
"""A re-keyed stream joined with its own reduce: whether the row is there for its first record."""


@pytest.mark.timeout(1800)
def test_random_topologies_come_out_in_both_forms_as_in_kafka_streams() -> None:
    with kafka_streams() as real:
        for seed in range(examples(TOPOLOGIES)):
            if seed in DERIVED | OPEN:
                continue
            case = real.record(Random(seed).case())
            for form in ("rows", "auto"):
                differences = run_case(case, form)
                assert not differences, f"seed {seed}, {form}: " + "; ".join(map(str, differences))
