"""When an epoch is begun without input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hayase import Processor, Topology
from hayase.core.time import ManualClock
from hayase.runtime.epochs.wall_clock import PunctuationTrigger
from hayase.runtime.wire.driver_control import DriverControl
from hayase.runtime.wire.planner_control import PlannerControl
from hayase.task.summary import BundleSummary


class Nothing(Processor[Any, Any, Any, Any]):
    """Does nothing."""

    def process(self, record: Any) -> None: ...


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000)


@pytest.fixture
def control(tmp_path: Path) -> DriverControl:
    return DriverControl(tmp_path)


def calls(control: DriverControl, clock: ManualClock) -> PunctuationTrigger:
    return PunctuationTrigger(
        Topology().add_source("s", "in").add_processor("p", Nothing, "s"), PlannerControl(control._folder), clock
    )


def test_without_processors_never(control: DriverControl, clock: ManualClock) -> None:
    control.publish_due(0, 0)
    made = PunctuationTrigger(
        Topology().add_source("s", "in").add_sink("t", "out", "s"), PlannerControl(control._folder), clock
    )
    assert not made.wanted(0, first=True) and not made.wanted(0, first=False)


def test_the_first_epoch_of_a_run_schedules_what_there_is(control: DriverControl, clock: ManualClock) -> None:
    assert calls(control, clock).wanted(7, first=True)


def test_then_only_what_the_epoch_before_left_due(control: DriverControl, clock: ManualClock) -> None:
    made = calls(control, clock)
    assert not made.wanted(0, first=False)
    control.publish_due(0, 1500)
    assert not made.wanted(0, first=False)
    clock.advance_ms(500)
    assert made.wanted(0, first=False)
    assert not made.wanted(1, first=False)


def test_what_the_planner_knows_of_an_epoch_itself_nobody_need_tell(control: DriverControl, clock: ManualClock) -> None:
    def summary(due_ms: int | None) -> bytes:
        return BundleSummary("0-0", 3, False, False, [], {}, [], due_ms=due_ms).to_bytes()

    made = calls(control, clock)
    made.note_completed(3, [summary(None), summary(2000), summary(1500)])
    assert not made.wanted(3, first=False)
    clock.advance_ms(500)
    assert made.wanted(3, first=False) and not made.wanted(4, first=False)
    made.note_completed(4, [summary(None)])
    assert not made.wanted(4, first=False)
