"""How far an epoch reads when the application lags."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hayase.core.records import TopicPartition
from hayase.runtime.epochs.epoch_input import TimeCut, fair_ends

partition_times = st.lists(st.lists(st.integers(0, 5_000), max_size=60).map(sorted), min_size=1, max_size=4).filter(any)


def partitions(count: int) -> list[TopicPartition]:
    return [TopicPartition("t", number) for number in range(count)]


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=6), st.integers(1, 500))
def test_fair_shares_stay_inside_the_log_and_the_bound_and_always_advance(lags: list[int], most: int) -> None:
    names = partitions(len(lags))
    starts, ends = dict.fromkeys(names, 7), {p: 7 + lag for p, lag in zip(names, lags, strict=True)}
    chosen = fair_ends(starts, ends, most)
    taken = sum(chosen[p] - starts[p] for p in names)
    assert all(starts[p] <= chosen[p] <= ends[p] for p in names)
    assert taken <= most
    assert taken > 0 or sum(lags) == 0


def test_a_short_partition_is_taken_whole_and_the_rest_goes_to_the_long_one() -> None:
    a, b = partitions(2)
    assert fair_ends({a: 0, b: 0}, {a: 10, b: 10_000}, 1_000) == {a: 10, b: 990}


@given(partition_times, st.integers(1, 40))
def test_cuts_by_time_cover_everything_in_bounded_epochs_that_are_prefixes_of_time(
    times: list[list[int]], most: int
) -> None:
    names = partitions(len(times))
    ends = {p: len(t) for p, t in zip(names, times, strict=True)}
    at = dict.fromkeys(names, 0)
    cut = TimeCut()

    def offsets_for_time(time_ms: int) -> dict[TopicPartition, int]:
        return {p: sum(1 for t in column if t < time_ms) for p, column in zip(names, times, strict=True)}

    def firsts() -> dict[TopicPartition, tuple[int, int]]:
        return {p: (at[p], column[at[p]]) for p, column in zip(names, times, strict=True) if at[p] < len(column)}

    for _ in range(1000):
        lag = sum(ends[p] - at[p] for p in names)
        if lag <= most:
            return
        new = cut.ends(at, ends, most, firsts, offsets_for_time)
        taken = sum(new[p] - at[p] for p in names)
        assert 0 < taken <= most
        assert all(at[p] <= new[p] <= ends[p] for p in names)
        at = new
    raise AssertionError("it did not come to the end")


def test_a_cut_by_time_is_found_behind_a_gap_larger_than_the_bound() -> None:
    a, b = partitions(2)
    times = {a: {1_000: 5_000, 1_001: 6_000}, b: {offset: 100 * offset for offset in range(40)}}
    starts, ends = {a: 0, b: 0}, {a: 1_002, b: 40}

    def offsets_for_time(time_ms: int) -> dict[TopicPartition, int]:
        return {p: min((o for o, t in times[p].items() if t >= time_ms), default=ends[p]) for p in (a, b)}

    def firsts() -> dict[TopicPartition, tuple[int, int]]:
        return {p: min(times[p].items()) for p in (a, b)}

    found = TimeCut().ends(starts, ends, 20, firsts, offsets_for_time)
    assert found[a] == 1_000  # behind the gap, none of its records
    assert 0 < found[b] <= 20
