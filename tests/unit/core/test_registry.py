"""Where metrics are added up: totals, rates and measurements over the last samples, gauges."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from hayase.core.metrics import DROPPED_RECORDS, LATENESS, Measure, Metrics, joined
from hayase.core.metrics_registry import MetricsRegistry
from hayase.core.sampled import SampledStat, SampleWindows

TASK = (("thread-id", "t"), ("task-id", "0_0"))


class Hands:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


def values(registry: MetricsRegistry) -> dict[str, float | str]:
    return {name.name: value for name, value in registry.snapshot().items()}


def test_a_counter_is_a_total_and_a_rate_per_second_over_the_last_samples() -> None:
    clock = Hands()
    registry = MetricsRegistry(clock, SampleWindows(1_000, 2))
    registry.count("g", "process", TASK, 10, "records")
    clock.now_ms = 1_000
    registry.count("g", "process", TASK, 30, "records")
    clock.now_ms = 1_500
    assert values(registry) == {"process-rate": 40 / 1.5, "process-total": 40}
    clock.now_ms = 60_000
    assert values(registry) == {"process-rate": 0.0, "process-total": 40}


def test_a_rate_does_not_begin_with_a_peak() -> None:
    clock = Hands()
    registry = MetricsRegistry(clock, SampleWindows(30_000, 2))
    registry.count("g", "process", TASK, 600, "records")
    clock.now_ms = 1
    assert values(registry)["process-rate"] < 21


def test_measurements_are_averages_and_extremes_and_nan_when_nothing_happened_lately() -> None:
    clock = Hands()
    registry = MetricsRegistry(clock, SampleWindows(1_000, 2))
    registry.measure("g", "latency", TASK, (2, 30.0, 10.0, 20.0), "time", ("avg", "min", "max"))
    registry.measure("g", "latency", TASK, (1, 90.0, 90.0, 90.0), "time", ("avg", "min", "max"))
    assert values(registry) == {"latency-avg": 40.0, "latency-max": 90.0, "latency-min": 10.0}
    clock.now_ms = 10_000
    assert all(math.isnan(float(value)) for value in values(registry).values())


def test_gauges_are_read_when_somebody_looks() -> None:
    registry, state = MetricsRegistry(Hands()), ["CREATED"]
    registry.gauge("g", "state", (), lambda: state[0], "the state")
    state[0] = "RUNNING"
    assert values(registry) == {"state": "RUNNING"}


def test_the_same_name_with_other_tags_is_another_metric() -> None:
    registry = MetricsRegistry(Hands())
    registry.count("g", "process", TASK, 1, "records")
    registry.count("g", "process", (("thread-id", "t"), ("task-id", "0_1")), 2, "records")
    assert registry.total("g", "process-total") == 3
    assert registry.total("g", "process-total", task_id="0_1") == 2
    assert {name.tag("task-id") for name in registry.snapshot()} == {"0_0", "0_1"}


@given(st.lists(st.tuples(st.integers(0, 5_000), st.floats(-1e6, 1e6)), max_size=40))
def test_a_sampled_stat_knows_exactly_what_is_not_older_than_its_samples(recorded: list[tuple[int, float]]) -> None:
    stat, now = SampledStat(SampleWindows(700, 3)), 0
    kept: list[tuple[int, float]] = []
    start = -10_000
    for step, value in recorded:
        now += step
        if now - start >= 700:
            start = now
        stat.record(now, 1, value, value, value)
        kept.append((start, value))
    alive = [value for began, value in kept if began > now - 700 * 3]
    if alive:
        assert math.isclose(stat.average(now), sum(alive) / len(alive), abs_tol=1e-6)
        assert (stat.lowest(now), stat.highest(now)) == (min(alive), max(alive))
    else:
        assert math.isnan(stat.average(now))


@given(st.lists(st.lists(st.integers(-(2**40), 2**40), min_size=1), min_size=1))
def test_measuring_batch_by_batch_is_measuring_all_at_once(batches: list[list[int]]) -> None:
    parts, whole = Metrics(), Metrics()
    for batch in batches:
        parts.measure(LATENESS, "n", batch)
    whole.measure(LATENESS, "n", [value for batch in batches for value in batch])
    assert parts.measures() == whole.measures()


def test_views_of_tasks_add_up_in_one_place() -> None:
    metrics = Metrics("DEBUG")
    metrics.for_task("0_0").add(DROPPED_RECORDS, "n", 2)
    metrics.for_task("0_1").add(DROPPED_RECORDS, "n", 3)
    assert metrics.for_task("0_1").debug
    assert metrics.total(DROPPED_RECORDS) == 5
    assert metrics.rows() == [(DROPPED_RECORDS, "n", 5)]
    assert [tuple(count) for count in metrics.counts()] == [
        (DROPPED_RECORDS, "0_0", "n", 2),
        (DROPPED_RECORDS, "0_1", "n", 3),
    ]


def test_measurements_of_two_are_joined() -> None:
    one, other = Measure("m", "t", "n", 2, 5.0, 1.0, 4.0), Measure("m", "t", "n", 1, 9.0, 9.0, 9.0)
    assert joined(one, other) == Measure("m", "t", "n", 3, 14.0, 1.0, 9.0)
