"""Windows of all kinds, cogroups, results on close and late records, through the public API in the test driver."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import examples

from hayase import (
    BufferConfig,
    Consumed,
    EmitStrategy,
    Grouped,
    Materialized,
    Produced,
    Serdes,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    TopologyError,
    UnlimitedWindows,
    Window,
    Windowed,
    Windows,
    avg,
    collect_list,
    count,
    earliest_by_offset,
    latest_by_offset,
    max_,
    sum_,
)
from hayase.testing import TopologyTestDriver

TEXT, JSON = Serdes.string(), Serdes.json()
CLOSE = EmitStrategy.on_window_close()


def ms(count_: int) -> timedelta:
    return timedelta(milliseconds=count_)


def shown(key: Windowed[str], value: Any) -> str:
    return f"{key.key}@{key.window.start_ms}-{key.window.end_ms}"


def run(
    make: Callable[[Any], Any], records: list[tuple[str, Any, int]], caching: bool = False
) -> tuple[list[tuple[str, Any, int]], TopologyTestDriver]:
    """What the table that `make` makes of the grouped stream sends, keys as text, and the driver."""
    builder = StreamsBuilder()
    table = make(builder.stream("in", Consumed.with_(TEXT, JSON)).group_by_key())
    table.to_stream().select_key(shown).to("out", Produced.with_(TEXT, JSON))
    driver = TopologyTestDriver(builder.build(), {} if caching else {"statestore.cache.max.bytes": 0})
    source, sink = driver.create_input_topic("in", TEXT, JSON), driver.create_output_topic("out", TEXT, JSON)
    for key, value, time_ms in records:
        source.pipe_input(key, value, time_ms)
    return [(found.key, found.value, found.timestamp_ms) for found in sink.read_records_to_list()], driver


def condition_of(function: Callable[[], Any]) -> str:
    with pytest.raises(TopologyError) as caught:
        function()
    return caught.value.condition


@pytest.fixture
def grouped() -> Any:
    return StreamsBuilder().stream("in", Consumed.with_(TEXT, JSON)).group_by_key()


times = st.lists(st.integers(0, 60), max_size=12)


@given(times, st.integers(0, 15))
@settings(max_examples=examples(60), deadline=None)
def test_sliding_windows_hold_every_combination_of_near_records(found: list[int], difference: int) -> None:
    windows = SlidingWindows.of_time_difference_and_grace(ms(difference), ms(1000))
    sent, _ = run(
        lambda grouped: grouped.windowed_by(windows).aggregate(list, lambda k, v, agg: [*agg, v]),
        [("k", time, time) for time in found],
    )
    starts = {max(time - difference, 0) for time in found}
    starts |= {time + 1 for time in found if any(time < other <= time + 1 + difference for other in found)}
    wanted = {
        f"k@{start}-{start + difference}": sorted(t for t in found if start <= t <= start + difference)
        for start in starts
    }
    last = {key: sorted(value) for key, value, _ in sent}
    assert {key: last[key] for key in wanted} == wanted
    assert all(last[key] == wanted.get(key, last[key]) for key in last)


@given(times, st.integers(1, 12))
@settings(max_examples=examples(60), deadline=None)
def test_sessions_are_the_runs_of_records_without_a_longer_gap(found: list[int], gap: int) -> None:
    windows = SessionWindows.of_inactivity_gap_and_grace(ms(gap), ms(1000))
    sent, driver = run(
        lambda grouped: grouped.windowed_by(windows).aggregate(
            list, lambda k, v, agg: [*agg, v], lambda k, left, right: left + right, Materialized.as_("s")
        ),
        [("k", time, time) for time in found],
    )
    runs: list[list[int]] = []
    for time in sorted(found):
        if runs and time - runs[-1][-1] <= gap:
            runs[-1].append(time)
        else:
            runs.append([time])
    wanted = {f"k@{run[0]}-{run[-1]}": run for run in runs}
    last = {key: value for key, value, _ in sent}
    assert {key: sorted(value) for key, value in last.items() if value is not None} == wanted
    assert {shown(key, 0): sorted(value) for key, value in driver.store("s").all()} == wanted


def test_a_record_in_time_does_not_overwrite_a_session_of_its_instant_that_the_store_hides() -> None:
    windows = SessionWindows.of_inactivity_gap_and_grace(ms(10), ms(5))
    records = [("a", 1, 20), ("b", 1, 35), ("a", 1, 20), ("a", 1, 19)]
    sent, driver = run(lambda grouped: grouped.windowed_by(windows).count(), records)
    assert sent == [("a@20-20", 1, 20), ("b@35-35", 1, 35), ("a@20-20", 2, 20)]
    assert driver.metrics.total("late-records-total") == 1


@pytest.mark.parametrize("caching", [True, False])
def test_a_session_of_one_instant_is_replaced_in_the_table_that_groups_it(caching: bool) -> None:
    windows = SessionWindows.of_inactivity_gap_with_no_grace(ms(10))
    builder = StreamsBuilder()
    counts = builder.stream("in", Consumed.with_(TEXT, JSON)).group_by_key().windowed_by(windows).count()
    by_key = counts.group_by(lambda key, n: (key.key, n), Grouped.with_(TEXT, JSON))
    by_key.reduce(lambda total, n: total + n, lambda total, n: total - n, Materialized.as_("total"))
    with TopologyTestDriver(builder.build(), {} if caching else {"statestore.cache.max.bytes": 0}) as driver:
        source = driver.create_input_topic("in", TEXT, JSON)
        for time_ms in (4, 4, 4, 7):
            source.pipe_input("k", 1, time_ms)
        assert driver.store("total").get("k").value == 4


def test_the_driver_reads_session_stores_by_key_and_by_bounds() -> None:
    windows = SessionWindows.of_inactivity_gap_with_no_grace(ms(10))
    _, driver = run(
        lambda grouped: grouped.windowed_by(windows).count(Materialized.as_("s")),
        [("k", 1, 1), ("k", 1, 9), ("k", 1, 19)],
    )
    store = driver.store("s")
    assert list(store.fetch("k")) == [(Windowed("k", Window(1, 19)), 3)]
    assert store.fetch_session("k", 1, 19) == 3
    assert list(store.find_sessions("k", 20, 30)) == []


closing: dict[str, Callable[[Any], Any]] = {
    "tumbling": lambda g: g.windowed_by(TimeWindows.of_size_and_grace(ms(10), ms(3))),
    "hopping": lambda g: g.windowed_by(TimeWindows.of_size_and_grace(ms(10), ms(3)).advance_by(ms(5))),
    "sliding": lambda g: g.windowed_by(SlidingWindows.of_time_difference_and_grace(ms(7), ms(3))),
    "session": lambda g: g.windowed_by(SessionWindows.of_inactivity_gap_and_grace(ms(4), ms(3))),
}


@pytest.mark.parametrize("kind", closing)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 90)), max_size=15))
@settings(max_examples=examples(25), deadline=None)
def test_on_close_every_window_is_sent_once_with_its_last_value(kind: str, found: list[tuple[str, int]]) -> None:
    records = [*((key, 1, time) for key, time in found), ("end", 1, 1000)]
    updates, _ = run(lambda g: closing[kind](g).count(), records)
    closed, _ = run(lambda g: closing[kind](g).emit_strategy(CLOSE).count(), records)
    last = {key: value for key, value, _ in updates}
    wanted = {key: value for key, value in last.items() if value is not None and not key.startswith("end@")}
    assert {key: value for key, value, _ in closed} == wanted
    assert len(closed) == len(wanted)


@pytest.mark.parametrize("kind", closing)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 45)), max_size=15))
@settings(max_examples=examples(25), deadline=None)
def test_suppressed_until_windows_close_each_is_sent_once_with_its_last_value(
    kind: str, found: list[tuple[str, int]]
) -> None:
    until = Suppressed.until_window_closes(BufferConfig.unbounded())
    records = [*((key, 1, 2 * time) for key, time in found), ("end", 1, 1000)]  # none at the very moment of closing
    updates, _ = run(lambda g: closing[kind](g).count(), records)
    final, _ = run(lambda g: closing[kind](g).count().suppress(until), records)
    last = {key: value for key, value, _ in updates}
    wanted = {key: value for key, value in last.items() if value is not None and not key.startswith("end@")}
    assert {key: value for key, value, _ in final} == wanted
    assert len(final) == len(wanted)


def test_results_on_close_carry_the_time_of_the_last_update() -> None:
    sent, _ = run(
        lambda g: g.windowed_by(TimeWindows.of_size_with_no_grace(ms(10))).emit_strategy(CLOSE).count(),
        [("b", 1, 2), ("a", 1, 7), ("b", 1, 5), ("a", 1, 500)],
    )
    assert sent == [("a@0-10", 1, 7), ("b@0-10", 2, 5)]


def test_a_row_that_an_aggregator_removed_is_not_sent_on_close() -> None:
    sent, _ = run(
        lambda g: (
            g.windowed_by(TimeWindows.of_size_with_no_grace(ms(10)))
            .emit_strategy(CLOSE)
            .aggregate(int, lambda key, value, agg: None if value == 0 else agg + value)
        ),
        [("a", 1, 1), ("b", 1, 1), ("a", 0, 2), ("c", 1, 50)],
    )
    assert sent == [("b@0-10", 1, 1)]


class Shifts(Windows):
    """Day and night: 6 to 18, 18 to 30, in units of a millisecond."""

    size_ms, grace_ms = 12, 2

    def windows_for(self, timestamp_ms: int) -> list[Window]:
        start = (timestamp_ms - 6) // 12 * 12 + 6
        return [Window(max(start, 0), start + 12)]


def test_windows_of_ones_own_are_used_as_they_say() -> None:
    sent, driver = run(
        lambda g: g.windowed_by(Shifts()).count(Materialized.as_("c")),
        [("a", 1, 3), ("a", 1, 6), ("a", 1, 17), ("a", 1, 20), ("a", 1, 17), ("a", 1, 18)],
    )
    assert [value for _, value, _ in sent] == [1, 1, 2, 1, 2]
    assert [key for key, _, _ in sent] == ["a@0-6", "a@6-18", "a@6-18", "a@18-30", "a@18-30"]
    assert driver.metrics.total("late-records-total") == 1


def test_an_unlimited_window_never_ends() -> None:
    windows = UnlimitedWindows.of().start_on(datetime(1970, 1, 1, 0, 0, 0, 5000, tzinfo=UTC))
    sent, driver = run(
        lambda g: g.windowed_by(windows).count(Materialized.as_("c")), [("a", 1, 4), ("a", 1, 5), ("a", 1, 10**15)]
    )
    assert [value for _, value, _ in sent] == [1, 2]
    assert next(iter(driver.store("c").all()))[0].window == Window(5, 2**63 - 1)


def late_of(make: Callable[[Any], Any], records: list[tuple[str, Any, int]]) -> list[tuple[str, Any, int]]:
    builder = StreamsBuilder()
    table = make(builder.stream("in", Consumed.with_(TEXT, JSON)).group_by_key())
    table.late_records().select_key(shown).to("late", Produced.with_(TEXT, JSON))
    with TopologyTestDriver(builder.build()) as driver:
        source, sink = driver.create_input_topic("in", TEXT, JSON), driver.create_output_topic("late", TEXT, JSON)
        for key, value, time_ms in records:
            source.pipe_input(key, value, time_ms)
        found = [(record.key, record.value, record.timestamp_ms) for record in sink.read_records_to_list()]
        assert driver.metrics.total("late-records-total") == len(found)
        return found


@pytest.mark.parametrize("caching", [True, False])
def test_late_records_come_as_they_were_under_the_window_that_refused_them(caching: bool) -> None:
    options = Materialized.as_("c") if caching else Materialized.as_("c").with_caching_disabled()
    windows = TimeWindows.of_size_and_grace(ms(10), ms(5)).advance_by(ms(5))
    records = [("a", "x", 12), ("b", "y", 22), ("a", "late", 7), ("b", "for one", 11)]
    found = late_of(lambda g: g.windowed_by(windows).count(options), records)
    assert found == [("a@0-10", "late", 7), ("a@5-15", "late", 7), ("b@5-15", "for one", 11)][: len(found)]
    assert ("a@0-10", "late", 7) in found


def test_a_late_record_of_sessions_names_the_session_it_would_be_in() -> None:
    windows = SessionWindows.of_inactivity_gap_with_no_grace(ms(10))
    assert late_of(lambda g: g.windowed_by(windows).count(), [("a", 1, 50), ("a", 2, 5)]) == [("a@5-5", 2, 5)]


def test_a_late_record_of_sliding_windows_names_its_own_window() -> None:
    windows = SlidingWindows.of_time_difference_with_no_grace(ms(10))
    assert late_of(lambda g: g.windowed_by(windows).count(), [("a", 1, 90), ("a", 2, 15)]) == [("a@5-15", 2, 15)]


def test_the_table_is_not_disturbed_by_who_takes_its_late_records() -> None:
    windows = TimeWindows.of_size_with_no_grace(ms(10))

    def make(grouped: Any) -> Any:
        table = grouped.windowed_by(windows).count()
        table.late_records(name="late").foreach(lambda key, value: None)
        return table

    records = [("a", 1, 1), ("a", 1, 30), ("a", 1, 2)]
    assert run(make, records)[0] == run(lambda g: g.windowed_by(windows).count(), records)[0]


def test_built_in_aggregates_of_sessions_are_merged() -> None:
    windows = SessionWindows.of_inactivity_gap_and_grace(ms(10), ms(100))
    sent, _ = run(
        lambda g: g.windowed_by(windows).agg(
            n=count(), total=sum_("x"), top=max_("x"), mean=avg("x"), all=collect_list("x"),
            first=earliest_by_offset("x"), last=latest_by_offset("x"), two=latest_by_offset("x", 2),
        ),
        [("a", {"x": 5}, 30), ("a", {"x": 1}, 10), ("a", {"x": 3}, 20)],
    )  # fmt: skip
    assert sent[-1] == (
        "a@10-30",
        {"n": 3, "total": 9, "top": 5, "mean": 3.0, "all": [1, 5, 3], "first": 1, "last": 3, "two": [5, 3]},
        30,
    )


def test_a_session_that_grows_is_deleted_under_its_old_bounds_with_the_cache_on_as_well() -> None:
    windows = SessionWindows.of_inactivity_gap_and_grace(ms(10), ms(100))
    assert run(lambda g: g.windowed_by(windows).count(), [("a", 1, 1), ("a", 1, 5)], caching=True)[0] == [
        ("a@1-1", 1, 1),
        ("a@1-1", None, 1),
        ("a@1-5", 2, 5),
    ]


def cogrouped(builder: StreamsBuilder, **options: Any) -> Any:
    left = builder.stream("left", Consumed.with_(TEXT, JSON)).group_by_key()
    right = builder.stream("right", Consumed.with_(TEXT, JSON)).group_by_key()
    return left.cogroup(lambda key, value, agg: agg + value).cogroup(right, lambda key, value, agg: agg - value)


def test_a_cogroup_aggregates_its_streams_into_one_row() -> None:
    builder = StreamsBuilder()
    table = cogrouped(builder).aggregate(int, Materialized.as_("sum"), name="both")
    table.to_stream().to("out", Produced.with_(TEXT, JSON))
    topology = builder.build()
    assert "both-cogroup-agg-1 (stores: [sum])" in topology.describe()
    assert "both-cogroup-merge (stores: [])" in topology.describe()
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("left", TEXT, JSON).pipe_input("k", 5, 1)
        driver.create_input_topic("right", TEXT, JSON).pipe_input("k", 2, 7)
        out = driver.create_output_topic("out", TEXT, JSON).read_records_to_list()
        assert [(record.value, record.timestamp_ms) for record in out] == [(5, 1), (3, 7)]
        assert driver.store("sum").get("k").value == 3


def test_a_lagging_stream_of_a_cogroup_does_not_overwrite_a_window_that_has_expired() -> None:
    builder = StreamsBuilder()
    table = cogrouped(builder).windowed_by(TimeWindows.of_size_with_no_grace(ms(10))).aggregate(int)
    table.to_stream().select_key(shown).to("out", Produced.with_(TEXT, JSON))
    table.late_records().select_key(shown).to("late", Produced.with_(TEXT, JSON))
    with TopologyTestDriver(builder.build()) as driver:
        left = driver.create_input_topic("left", TEXT, JSON)
        left.pipe_input("k", 5, 1), left.pipe_input("k", 6, 100)
        driver.create_input_topic("right", TEXT, JSON).pipe_input("k", 2, 1)
        out, late = (driver.create_output_topic(name, TEXT, JSON) for name in ("out", "late"))
        assert [r.value for r in out.read_records_to_list()] == [5, 6]
        assert [(r.key, r.value) for r in late.read_records_to_list()] == [("k@0-10", 2)]


def test_what_cannot_be_is_refused_with_its_condition(grouped: Any) -> None:
    session = SessionWindows.of_inactivity_gap_with_no_grace(ms(10))
    sliding = SlidingWindows.of_time_difference_and_grace(ms(10), ms(5))
    short = Materialized.as_("s").with_retention(ms(5))
    wrong = {
        lambda: grouped.windowed_by("day"): "INVALID_WINDOW",
        lambda: grouped.windowed_by(type("W", (Shifts,), {"size_ms": 0})()): "INVALID_WINDOW",
        lambda: SessionWindows.of_inactivity_gap_with_no_grace(ms(-1)): "INVALID_DURATION",
        lambda: SlidingWindows.of_time_difference_with_no_grace(ms(-1)): "INVALID_DURATION",
        lambda: UnlimitedWindows.of().start_on(datetime(2026, 1, 1)): "INVALID_WINDOW",  # noqa: DTZ001
        lambda: grouped.windowed_by(UnlimitedWindows.of()).emit_strategy(CLOSE): "INVALID_EMIT_STRATEGY",
        lambda: grouped.windowed_by(session).emit_strategy("close"): "INVALID_EMIT_STRATEGY",
        lambda: grouped.windowed_by(session).count(short): "INVALID_RETENTION",
        lambda: grouped.windowed_by(sliding).count(short): "INVALID_RETENTION",
        lambda: grouped.count().late_records(): "NO_LATE_RECORDS",
        lambda: grouped.windowed_by(session).count().filter(lambda k, v: True).late_records(): "NO_LATE_RECORDS",
        lambda: grouped.cogroup(lambda k, v, agg: agg).cogroup(grouped, lambda k, v, agg: agg): "INVALID_COGROUP",
        lambda: grouped.cogroup(lambda k, v, agg: agg).cogroup("in", lambda k, v, agg: agg): "INVALID_COGROUP",
    }
    assert {condition_of(function): None for function in wrong}.keys() == set(wrong.values())
    for function, condition in wrong.items():
        assert condition_of(function) == condition


def test_the_keys_of_sessions_are_written_as_kafka_streams_does(grouped: Any) -> None:
    builder = StreamsBuilder()
    windows = SessionWindows.of_inactivity_gap_with_no_grace(ms(10))
    builder.stream("in", Consumed.with_(TEXT, JSON)).group_by_key().windowed_by(windows).count().to_stream().to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", TEXT, JSON).pipe_input("a", 1, 7)
        assert driver.output_queue("out")[0].key == b"a" + (7).to_bytes(8, "big") * 2
