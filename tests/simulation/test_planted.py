"""What the simulation is worth: bugs that are planted are found."""

from __future__ import annotations

import pytest
from tests.simulation.chaos import run_seed
from tests.simulation.planted import BUGS, HARD_TO_FIND, MORE_BUGS, Bug

_SEEDS = 300
_ALSO = 100
_QUICK = {
    "the marker is not compared",
    "the marker is committed before the outputs",
    "a commit without an answer counts as done",
    "outputs of an adopted delta are not published",
    "a snapshot misses what was written last",
}


def _marks(bug: Bug) -> list[pytest.MarkDecorator]:
    marks = [pytest.mark.long if bug.name in _QUICK else pytest.mark.slow]
    if bug.name in HARD_TO_FIND:
        marks.append(pytest.mark.xfail(reason=HARD_TO_FIND[bug.name], strict=False))
    return marks


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("bug", [pytest.param(bug, marks=_marks(bug), id=bug.name) for bug in BUGS])
def test_a_planted_bug_is_found(bug: Bug) -> None:
    with bug.plant():
        assert any(run_seed(seed, keep_trace=False).problem for seed in range(_SEEDS))


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.xfail(reason="not shown to be found", strict=False)
@pytest.mark.parametrize("bug", MORE_BUGS, ids=lambda bug: bug.name)
def test_a_bug_that_other_checks_stand_behind_may_be_found(bug: Bug) -> None:
    with bug.plant():
        assert any(run_seed(seed, keep_trace=False).problem for seed in range(_ALSO))


def test_of_twenty_bugs_nineteen_are_found() -> None:
    assert len(BUGS) >= 20
    assert len(HARD_TO_FIND) * 20 <= len(BUGS)
