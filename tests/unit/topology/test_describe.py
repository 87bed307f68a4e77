"""The text of `describe` against that of the real Kafka Streams, for every golden case that can be built."""

from __future__ import annotations

import pytest
from tests.golden.build import build
from tests.golden.cases import Case, Unsupported, load_cases

from hayase.core.errors import TopologyError


def _cases() -> list[Case]:
    """One case for each different topology that can be built."""
    found: dict[str, Case] = {}
    for case in load_cases():
        try:
            build(case)
        except Unsupported:
            continue
        except TopologyError:
            pass
        found.setdefault(str(case["topology"]), case)
    return list(found.values())


CASES = _cases()


def test_most_golden_topologies_of_this_slice_are_there():
    assert len(CASES) > 80


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_description_is_kafka_streams_own(case):
    expected = case["expected"].get("describe")
    if expected is None:
        with pytest.raises(TopologyError):
            build(case)
    else:
        assert build(case).topology.describe() == expected
