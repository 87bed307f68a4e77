"""Jobs of a shared runtime: spans, and rounds where a span cannot be."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from tests.unit.runtime.pool_scene import Task, in_thread, request, wait_until, waiting, work

from hayase.core.socket_folder import socket_folder
from hayase.runtime.epochs.slot_jobs import SlotJobs
from hayase.runtime.epochs.slot_pool import SlotPool, Work
from hayase.runtime.epochs.span_backoff import FIRST_JOIN_TIMEOUT_S, JOIN_TIMEOUT_S, SPAN_BACKOFF_S
from hayase.runtime.wire.endpoints import RunEndpoints
from hayase.runtime.wire.round_results import ROUNDS_FOLDER, RoundResults
from hayase.runtime.wire.slot_messages import TopologyRequest, TopologyResult
from hayase.storage.posix_blobs import PosixBlobs

SPAN_S = 60.0


class Scene:
    """Two slots, their jobs, and a clock that stands still."""

    def __init__(self, folder: Path) -> None:
        self.now = 0.0
        self.contended = False
        self.blobs = PosixBlobs(folder / "checkpoint", fsync=False)
        self.pool = SlotPool(2, RunEndpoints(str(folder), str(socket_folder("hayase-test-"))), lambda: self.now)

    def jobs(self, span_s: float = SPAN_S) -> SlotJobs:
        return SlotJobs(self.pool, span_s, lambda: self.contended, self.blobs, lambda: self.now)

    def ask(self, name: str, *slots: int) -> tuple[threading.Thread, Work]:
        some = work(name, *slots)
        before = waiting(self.pool, slots[0])
        thread = in_thread(self.pool, some)
        wait_until(lambda: waiting(self.pool, slots[0]) > before)
        return thread, some

    def run_round(self, jobs: SlotJobs, job: int) -> list[str]:
        """As the tasks of a job do; the topologies, in each slot."""
        done = []
        for order in jobs.orders(job):
            assert order.round is not None
            names = [msgspec.msgpack.decode(each, type=TopologyRequest).application_id for each in order.round.requests]
            results = [TopologyResult(summaries=[name.encode()]) for name in names]
            RoundResults(self.blobs, order.round.run).publish(order.round.job, order.slot, results)
            done += names
        return done

    def join(self, *slots: int, job: int) -> list[Task]:
        tasks = [Task(self.pool, slot, job) for slot in slots]
        wait_until(lambda: self.pool.all_joined or (len(slots) < self.pool.size and self.pool.has_tasks))
        return tasks


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.pool.close()


def expect_span(jobs: SlotJobs, after: int) -> None:
    assert jobs.begin(after) == after + 1
    assert [(order.slot, order.round) for order in jobs.orders(after + 1)] == [(0, None), (1, None)]


def expect_round(scene: Scene, jobs: SlotJobs, after: int) -> None:
    """Nothing waits, so there is no job; what waits is a round of its own."""
    assert jobs.begin(after) == after
    thread, some = scene.ask("a", 0)
    assert jobs.begin(after) == after + 1
    assert scene.run_round(jobs, after + 1) == ["a"]
    assert jobs.begin(after + 1) == after + 1
    thread.join(20)
    assert [result.summaries for result in some.results] == [[b"a"]]


def test_a_round_is_run_only_if_something_waits_and_for_all_that_does(scene: Scene) -> None:
    jobs = scene.jobs(span_s=0)
    assert jobs.begin(0) == 0
    asked = [scene.ask("a", 0, 1), scene.ask("b", 1)]
    assert jobs.begin(0) == 1
    assert [order.slot for order in jobs.orders(1)] == [0, 1]
    assert sorted(scene.run_round(jobs, 1)) == ["a", "a", "b"]
    assert jobs.begin(1) == 1
    for thread, _ in asked:
        thread.join(20)
        assert not thread.is_alive()
    assert scene.blobs.list(ROUNDS_FOLDER) == []


def test_work_orders_are_the_same_when_spark_asks_for_them_again(scene: Scene) -> None:
    jobs = scene.jobs(span_s=0)
    scene.ask("a", 0)
    jobs.begin(0)
    assert jobs.orders(1) == jobs.orders(1)
    assert jobs.orders(1)[0].round is not None and jobs.orders(1)[0].round.requests == [request("a")]


def test_results_that_an_earlier_planner_did_not_take_are_removed(scene: Scene) -> None:
    RoundResults(scene.blobs, "earlier").publish(1, 0, [TopologyResult()])
    jobs = scene.jobs(span_s=0)
    scene.ask("a", 0)
    jobs.begin(0)
    assert scene.blobs.is_empty()


def test_a_round_whose_results_are_damaged_is_run_again(scene: Scene) -> None:
    jobs = scene.jobs(span_s=0)
    _, some = scene.ask("a", 0)
    job = jobs.begin(-1)
    (order,) = jobs.orders(job)
    assert order.round is not None
    scene.run_round(jobs, job)
    name = f"{ROUNDS_FOLDER}{order.round.run}/{job}-0"
    data = scene.blobs.get(name)
    assert data is not None
    scene.blobs.delete(name)
    scene.blobs.put_if_absent(name, data[:1] + bytes([data[1] ^ 1]) + data[2:])
    job = jobs.begin(job)
    assert not some.done.is_set() and scene.run_round(jobs, job) == ["a"]
    jobs.begin(job)
    assert some.done.is_set() and not some.results[0].error


def test_jobs_are_rounds_while_others_want_the_cores(scene: Scene) -> None:
    jobs = scene.jobs()
    scene.contended = True
    expect_round(scene, jobs, 0)
    scene.contended = False
    expect_span(jobs, 1)


def cannot_join(scene: Scene, jobs: SlotJobs) -> None:
    """The tasks end at once: they cannot reach the planner."""


def one_core(scene: Scene, jobs: SlotJobs) -> None:
    """One task has a core and keeps it, so the other one does not come in time."""
    (task,) = scene.join(0, job=1)
    scene.now += FIRST_JOIN_TIMEOUT_S
    jobs.check()
    assert not task.returned.is_set()
    scene.now += 1
    jobs.check()
    assert task.returned.wait(20)


@pytest.mark.parametrize("why", [cannot_join, one_core])
def test_jobs_are_rounds_for_a_while_after_a_span_to_which_not_all_tasks_came(
    scene: Scene, why: Callable[[Scene, SlotJobs], None]
) -> None:
    jobs = scene.jobs()
    expect_span(jobs, 0)
    why(scene, jobs)
    expect_round(scene, jobs, 1)
    scene.now += SPAN_BACKOFF_S
    expect_span(jobs, 2)


def test_tasks_of_later_jobs_have_less_time_to_join_than_those_of_the_first_whose_processes_begin(scene: Scene) -> None:
    jobs = scene.jobs()
    expect_span(jobs, 0)
    expect_round(scene, jobs, 1)
    scene.now += SPAN_BACKOFF_S
    expect_span(jobs, 2)
    (task,) = scene.join(0, job=3)
    scene.now += JOIN_TIMEOUT_S + 1
    jobs.check()
    assert task.returned.wait(20)


def test_a_span_that_all_tasks_joined_is_followed_by_a_span(scene: Scene) -> None:
    jobs = scene.jobs()
    expect_span(jobs, 0)
    tasks = scene.join(0, 1, job=1)
    scene.now += FIRST_JOIN_TIMEOUT_S + 1
    jobs.check()
    assert not any(task.returned.is_set() for task in tasks)
    scene.pool.end_job()
    assert all(task.returned.wait(20) for task in tasks)
    expect_span(jobs, 1)
