"""What is measured about a task's input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hayase.core.metrics import E2E_LATENCY, LATENESS, PROCESSED, Measure, Metrics
from hayase.state.environment.memory import MemoryState
from hayase.task.clocks import STREAM_TIME, StateClocks
from hayase.task.input_merge import merge_order
from hayase.task.meter import TaskMeter

times = st.lists(st.integers(0, 1_000), max_size=20)


def lateness(metrics: Metrics) -> Measure | None:
    return next((measure for measure in metrics.measures() if measure.name == LATENESS), None)


@given(st.lists(times, min_size=1, max_size=4), st.integers(-1, 500))
def test_lateness_is_how_far_each_record_is_behind_the_stream_time_of_its_task(
    queues: list[list[int]], stream_time: int
) -> None:
    metrics = Metrics("DEBUG")
    meter = TaskMeter(metrics, lambda: 1_000, StateClocks(None), stream_time)
    arrays = [np.array(queue, np.int64) for queue in queues]
    number, row = merge_order(arrays)
    half = len(number) // 2
    for part in (slice(half), slice(half, None)):  # chunk by chunk
        meter.merged(arrays, (number[part], row[part]))
    late = []
    for queue, position in zip(number.tolist(), row.tolist(), strict=True):
        time = queues[queue][position]
        stream_time = max(stream_time, time)
        late.append(stream_time - time)
    found = lateness(metrics)
    if not late:
        assert found is None
    else:
        assert found is not None
        assert (found.number, found.total, found.highest) == (len(late), sum(late), max(late))
        assert meter.stream_time_ms == stream_time


def late_after(state: MemoryState, epoch: int, times_ms: list[int]) -> Measure | None:
    """Of an epoch in a process that knows nothing of earlier ones."""
    metrics = Metrics("DEBUG")
    begun = state.begin()
    clocks = StateClocks(begun.task("0_0"))
    TaskMeter(metrics, lambda: 1_000, clocks).merged([np.array(times_ms)], merge_order([np.array(times_ms)]))
    clocks.save()
    state.apply_changes(epoch, begun.changes())
    return lateness(metrics)


def test_a_task_that_keeps_its_stream_time_takes_it_along_to_the_process_that_runs_it_next() -> None:
    state = MemoryState()
    assert late_after(state, 0, [500, 400]) == Measure(LATENESS, "", "", 2, 100.0, 0.0, 100.0)
    begun = state.begin()
    clocks = StateClocks(begun.task("0_0"))
    clocks.set(STREAM_TIME, 500)
    clocks.save()
    state.apply_changes(1, begun.changes())
    assert late_after(state, 2, [450]) == Measure(LATENESS, "", "", 1, 50.0, 50.0, 50.0)


@pytest.mark.parametrize("level", ["INFO", "DEBUG", "TRACE"])
def test_nothing_is_written_to_the_state_whatever_is_measured(level: str) -> None:
    state = MemoryState()
    begun = state.begin()
    clocks = StateClocks(begun.task("0_0"))
    TaskMeter(Metrics(level), lambda: 1_000, clocks).merged([np.array([5])], merge_order([np.array([5])]))
    clocks.save()
    assert begun.changes() == state.begin().changes()


def test_latency_is_measured_at_every_level_and_lateness_only_from_debug_on() -> None:
    metrics = Metrics()
    meter = TaskMeter(metrics, lambda: 100, StateClocks(None))
    meter.received("source", np.array([40, 90]))
    meter.merged([np.array([40, 90])], merge_order([np.array([40, 90])]))
    meter.sent("sink", [100])
    assert metrics.rows() == [(PROCESSED, "source", 2)]
    assert metrics.measures() == [
        Measure(E2E_LATENCY, "", "sink", 1, 0.0, 0.0, 0.0),
        Measure(E2E_LATENCY, "", "source", 2, 70.0, 10.0, 60.0),
    ]
