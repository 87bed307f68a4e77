"""How often the log is looked at while records come, and while none do."""

from __future__ import annotations

import pytest

from hayase.runtime.epochs.poll_pace import BUSY_POLL_S, IDLE_POLL_S, PollPace, idle_poll_s


@pytest.fixture
def now() -> list[float]:
    return [100.0]


def pauses(pace: PollPace, now: list[float], looks: int, *, came: bool = False) -> list[float]:
    """The pauses behind so many looks, each waited for."""
    found = []
    for _ in range(looks):
        pace.looked(came=came)
        found.append(round(pace.pause_s, 3))
        now[0] += pace.pause_s
    return found


def test_the_log_is_looked_at_often_for_a_second_after_something_came_and_then_less_and_less_often(
    now: list[float],
) -> None:
    pace = PollPace(monotonic=lambda: now[0])
    assert pauses(pace, now, 1, came=True) == [BUSY_POLL_S]
    assert set(pauses(pace, now, 90)) == {BUSY_POLL_S}
    now[0] += 0.2
    assert pauses(pace, now, 6) == [0.02, 0.03, 0.04, 0.05, IDLE_POLL_S, IDLE_POLL_S]
    assert not pace.is_busy


def test_the_first_record_after_a_rest_makes_it_often_again(now: list[float]) -> None:
    pace = PollPace(monotonic=lambda: now[0])
    assert pauses(pace, now, 3) == [IDLE_POLL_S] * 3
    assert pauses(pace, now, 1, came=True) == [BUSY_POLL_S]
    assert pace.is_busy


@pytest.mark.parametrize(("commit_interval_s", "longest_s"), [(0.0, 0.01), (0.02, 0.01), (0.06, 0.03), (10.0, 0.05)])
def test_an_application_with_a_short_commit_interval_rests_no_longer_than_half_of_it(
    now: list[float], commit_interval_s: float, longest_s: float
) -> None:
    pace = PollPace(idle_poll_s(commit_interval_s), lambda: now[0])
    assert pauses(pace, now, 8)[-1] == pytest.approx(longest_s)
