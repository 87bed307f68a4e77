"""The wall clock of epochs never goes back, and goes on also where the machine's clock was once far ahead."""

from __future__ import annotations

from itertools import pairwise

import pytest

from hayase.core.time import ManualClock
from hayase.runtime.epochs.wall_clock import BEHIND_MAX_MS, WallClock

NOW = 1_700_000_000_000
YEAR = 365 * 86_400_000


class Machine:
    """A machine whose clock can be set."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOW)
        self.passed_ms = 0
        self.wall = self.started()

    def started(self) -> WallClock:
        """The clock of a new process."""
        return WallClock(self.clock, lambda: self.passed_ms / 1000)

    def pass_ms(self, milliseconds: int) -> None:
        self.passed_ms += milliseconds
        self.clock.advance_ms(milliseconds)

    def set_by(self, milliseconds: int) -> None:
        self.clock.advance_ms(milliseconds)


def test_it_is_the_machines_clock_as_long_as_that_goes_forward() -> None:
    machine = Machine()
    assert machine.wall.now_ms() == NOW
    machine.pass_ms(10)
    assert machine.wall.now_ms() == NOW + 10
    machine.set_by(YEAR)
    assert machine.wall.now_ms() == NOW + 10 + YEAR


def test_after_a_restart_it_goes_on_at_its_speed_though_the_machine_was_once_years_ahead(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine = Machine()
    wall = machine.started()
    ahead = NOW + 3 * YEAR
    wall.at_least(ahead)
    times = []
    for _ in range(60):
        machine.pass_ms(1_000)
        times.append(wall.now_ms())
    assert times == [ahead + 1_000 * (number + 1) for number in range(60)]
    assert len(caplog.records) == 1
    assert "clock" in caplog.text


def test_a_clock_that_was_set_back_for_years_while_it_runs_does_not_stall_it() -> None:
    machine = Machine()
    before = machine.wall.now_ms()
    machine.set_by(-YEAR)
    machine.pass_ms(5_000)
    assert machine.wall.now_ms() == before + 5_000


def test_a_clock_that_was_set_back_a_little_is_caught_up_with_and_nothing_waits_for_more_than_a_second() -> None:
    machine = Machine()
    machine.wall.now_ms()
    machine.set_by(-5_000)
    times = []
    for _ in range(120):
        machine.pass_ms(100)
        times.append(machine.wall.now_ms())
    assert times == sorted(times)
    assert max(times.count(time) for time in times) <= 12  # tenths of a second
    assert times[-1] == machine.clock.now_ms()


def test_at_the_bound_it_never_goes_back_nor_stands_still() -> None:
    machine = Machine()
    machine.wall.at_least(NOW + BEHIND_MAX_MS + 500)
    times = [machine.wall.now_ms()]
    for step in (0, 1, 700, -300, 5, 2_000):
        machine.set_by(step)
        machine.pass_ms(100)
        times.append(machine.wall.now_ms())
    assert all(one < other for one, other in pairwise(times))


def test_a_time_of_an_older_epoch_changes_nothing() -> None:
    machine = Machine()
    machine.wall.at_least(NOW - 5)
    assert machine.wall.now_ms() == NOW
