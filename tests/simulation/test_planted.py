"""What the simulation is worth: bugs that are planted are found."""

from __future__ import annotations

import pytest
from tests.simulation.chaos import run_seed
from tests.simulation.planted import BUGS, Bug

_SEEDS = 1000
_QUICK = {
    "the marker is not compared",
    "the marker is committed before the outputs",
    "a commit without an answer counts as done",
    "outputs of an adopted delta are not published",
    "a snapshot misses what was written last",
}


def _mark(bug: Bug) -> pytest.MarkDecorator:
    return pytest.mark.long if bug.name in _QUICK else pytest.mark.slow


@pytest.mark.timeout(2400)
@pytest.mark.parametrize("bug", [pytest.param(bug, marks=_mark(bug), id=bug.name) for bug in BUGS])
def test_a_planted_bug_is_found(bug: Bug) -> None:
    with bug.plant():
        assert any(run_seed(seed, keep_trace=False).problem for seed in range(_SEEDS))


def test_more_than_twenty_bugs_are_planted() -> None:
    assert len({bug.name for bug in BUGS}) >= 20
