from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hayase.core.errors import TopologyError
from hayase.core.records import Window
from hayase.core.windows import TimeWindows, to_ms


def ms(count):
    return timedelta(milliseconds=count)


def test_tumbling_windows_do_not_overlap():
    windows = TimeWindows.of_size_and_grace(ms(10), ms(5))
    assert windows.windows_for(9) == [Window(0, 10)]
    assert windows.windows_for(10) == [Window(10, 20)]
    assert windows.retention_ms == 15


def test_a_record_falls_into_every_hopping_window_by_start():
    windows = TimeWindows.of_size_with_no_grace(ms(30)).advance_by(ms(10))
    assert windows.windows_for(25) == [Window(0, 30), Window(10, 40), Window(20, 50)]
    assert windows.windows_for(5) == [Window(0, 30)]


@given(st.integers(1, 100), st.integers(1, 100), st.integers(0, 10_000))
def test_the_windows_of_a_time_are_exactly_those_that_contain_it(size, advance, time):
    windows = TimeWindows(size, min(size, advance), 0)
    starts = range(0, time + 1, windows.advance_ms)
    assert windows.windows_for(time) == [Window(s, s + size) for s in starts if s <= time < s + size]


@pytest.mark.parametrize("advance", [ms(0), ms(11)])
def test_an_advance_beyond_the_size_or_of_nothing_is_refused(advance):
    with pytest.raises(TopologyError):
        TimeWindows.of_size_with_no_grace(ms(10)).advance_by(advance)


@pytest.mark.parametrize("value", [5, timedelta(microseconds=1), ms(-1), None])
def test_a_duration_is_a_timedelta_of_whole_milliseconds_and_not_negative(value):
    with pytest.raises(TopologyError) as caught:
        to_ms("grace", value)
    assert caught.value.condition == "INVALID_DURATION"
    assert "grace" in caught.value.message


def test_a_window_of_no_size_is_refused():
    with pytest.raises(TopologyError):
        TimeWindows.of_size_with_no_grace(ms(0))
