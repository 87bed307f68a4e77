"""Clocks of a task keep their names in its state, whatever nodes are called."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hayase.state.environment.bundle import BundleState
from hayase.state.stores.protocol import TaskState
from hayase.task.clocks import CLOCK_STORE, STREAM_TIME, StateClocks, task_stream_time


@pytest.fixture
def state(tmp_path: Path) -> Iterator[TaskState]:
    bundle = BundleState(tmp_path / "0-0", application_id="app", checkpoint_id="L", bundle="0-0")
    with bundle.begin() as epoch:
        yield epoch.task("0_0")
    bundle.close()


def moved(state: TaskState, names: dict[str, str] | None = None, **times: int) -> StateClocks:
    clocks = StateClocks(state, names)
    for name, time_ms in times.items():
        clocks.set(name.replace("_", "/"), time_ms)
    clocks.save()
    return clocks


def test_a_node_that_is_called_otherwise_goes_on_with_its_clocks(state: TaskState) -> None:
    moved(state, count=7, count_first=3)
    clocks = StateClocks(state, {"counted": "count"})
    assert (clocks.get("counted"), clocks.get("counted/first")) == (7, 3)
    moved(state, {"counted": "count"}, counted=9)
    assert StateClocks(state).get("count") == 9


def test_a_node_that_takes_the_name_of_another_begins_with_none(state: TaskState) -> None:
    moved(state, count=7)
    assert StateClocks(state, {"count": "count@2"}).get("count") == -1
    moved(state, {"count": "count@2"}, count=8)
    assert (StateClocks(state).get("count"), StateClocks(state, {"count": "count@2"}).get("count")) == (7, 8)


def test_the_stream_time_of_a_task_is_no_nodes(state: TaskState) -> None:
    clocks = StateClocks(state, {"task": "task@1"})
    clocks.set(STREAM_TIME, 5)
    clocks.save()
    assert task_stream_time(state.store(CLOCK_STORE)) == 5
