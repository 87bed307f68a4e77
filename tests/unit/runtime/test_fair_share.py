"""The bound for epochs of a lagging topology beside others."""

from __future__ import annotations

import pytest
from tests.unit.runtime.planner_scene import Scene

from hayase.runtime.epochs.fair_share import EPOCH_S_MAX, FIRST_RECORDS_MAX, TARGET_S, FairShare


def settled(fixed_s: float, record_s: float) -> int:
    """The bound after many epochs that are cut at it and take that long."""
    share = FairShare()
    for _ in range(60):
        bound = share.records_max(others_want_slots=True)
        assert bound is not None
        share.completed(bound, fixed_s + bound * record_s)
    return bound


def test_a_topology_alone_has_no_bound() -> None:
    assert FairShare().records_max(others_want_slots=False) is None


@pytest.mark.parametrize("record_s", [1e-6, 1e-4, 1.0])
@pytest.mark.parametrize("fixed_s", [0.0, 0.015])
def test_epochs_come_to_take_a_tenth_of_a_second_or_have_one_record(record_s: float, fixed_s: float) -> None:
    bound = settled(fixed_s, record_s)
    assert bound == 1 or fixed_s + bound * record_s == pytest.approx(TARGET_S, rel=0.1)


@pytest.mark.parametrize(("fixed_s", "least"), [(0.03, 0.8), (0.05, 0.8), (0.1, 0.7)])
@pytest.mark.parametrize("record_s", [1e-6, 1e-4])
def test_where_an_epoch_without_records_takes_some_of_that_time_epochs_are_longer_and_most_of_it_is_for_records(
    record_s: float, fixed_s: float, least: float
) -> None:
    bound = settled(fixed_s, record_s)
    epoch_s = fixed_s + bound * record_s
    assert bound * record_s >= least * epoch_s
    assert epoch_s <= 1.1 * EPOCH_S_MAX


@pytest.mark.parametrize("fixed_s", [0.3, 1.0])
@pytest.mark.parametrize("record_s", [1e-6, 1e-4])
def test_where_an_epoch_without_records_takes_too_long_its_records_take_about_as_long(
    record_s: float, fixed_s: float
) -> None:
    """On a busy machine a bound that only fell would end at one record."""
    assert fixed_s / 4 <= settled(fixed_s, record_s) * record_s <= 2 * fixed_s


def test_an_epoch_of_few_records_says_nothing_about_how_long_they_take() -> None:
    share = FairShare()
    for _ in range(10):
        share.completed(1, 0.02)
    assert share.records_max(others_want_slots=True) == FIRST_RECORDS_MAX


def test_one_slow_epoch_changes_the_bound_by_a_factor_of_four_at_most() -> None:
    share = FairShare()
    share.completed(FIRST_RECORDS_MAX, 60.0)
    assert share.records_max(others_want_slots=True) == FIRST_RECORDS_MAX // 4


def test_a_planner_cuts_epochs_at_the_bound_and_reads_on_in_full_without_it(scene: Scene) -> None:
    scene.put(*range(16))
    planner = scene.planner()
    planner.bound_next_epoch(3)
    assert planner.next_epoch(-1) == 0
    assert planner.record(0).records <= 3 and planner.cut_by_bound
    planner.bound_next_epoch(None)
    assert planner.next_epoch(0) == 1
    assert planner.record(1).records == 10 and not planner.cut_by_bound


def test_a_bound_above_what_is_there_or_allowed_cuts_nothing(scene: Scene) -> None:
    scene.put(*range(4))
    planner = scene.planner()
    planner.bound_next_epoch(4)
    assert planner.next_epoch(-1) == 0
    assert planner.record(0).records == 4 and not planner.cut_by_bound
