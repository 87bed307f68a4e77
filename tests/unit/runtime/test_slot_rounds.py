"""Rounds of a slot pool: the requests that one Spark job takes along, and its results."""

from __future__ import annotations

import threading

import msgspec
import pytest
from tests.unit.runtime.pool_scene import (
    WAIT_S,
    Task,
    in_thread,
    request,
    wait_until,
    waiting,
    work,
)

from hayase.runtime.epochs import slot_pool, slot_queue
from hayase.runtime.epochs.slot_pool import SlotPool
from hayase.runtime.wire.slot_messages import (
    ReleaseTopology,
    TopologyResult,
)


def test_a_round_takes_along_what_waits_for_each_slot_and_brings_the_results(pool: SlotPool) -> None:
    all_work = [work("a", 0, 1), work("b", 1)]
    threads = []
    for number, some in enumerate(all_work, 1):
        threads.append(in_thread(pool, some))
        wait_until(lambda number=number: waiting(pool, 1) == number)  # type: ignore[misc]
    taken = pool.begin_round()
    assert taken == {0: [request("a")], 1: [request("a"), request("b")]}
    assert not pool.wait_for_requests(0)
    pool.complete_round(
        {0: [TopologyResult([], [], [b"a0"])], 1: [TopologyResult([], [], [n]) for n in (b"a1", b"b1")]}
    )
    for thread in threads:
        thread.join(WAIT_S)
    assert [sorted(r.summaries[0] for r in some.results) for some in all_work] == [[b"a0", b"a1"], [b"b1"]]


def test_a_slot_that_brings_nothing_from_its_round_has_died_and_its_requests_are_tried_alone(pool: SlotPool) -> None:
    good, bad = work("good", 0), work("bad", 0)
    threads = [in_thread(pool, good)]
    wait_until(lambda: pool.wait_for_requests(0))
    threads.append(in_thread(pool, bad))
    wait_until(lambda: waiting(pool, 0) == 2)
    assert len(pool.begin_round()[0]) == 2
    pool.complete_round({0: []})
    assert pool.begin_round() == {0: [request("good")]}
    pool.complete_round({0: [TopologyResult(summaries=[b"good"])]})
    for _ in range(slot_pool.DEATHS_MAX):
        assert pool.begin_round() == {0: [request("bad")]}
        pool.complete_round({0: []})
    for thread in threads:
        thread.join(WAIT_S)
    assert (good.died, bad.died, pool.begin_round()) == (0, slot_pool.DEATHS_MAX, {})


def test_a_round_takes_no_more_along_than_spark_sends(pool: SlotPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_queue, "ROUND_BYTES_MAX", 2 * len(request("a")))
    for name in ("a", "b", "c"):
        in_thread(pool, work(name, 0))
    wait_until(lambda: waiting(pool, 0) == 3)
    assert len(pool.begin_round()[0]) == 2
    pool.complete_round({0: [TopologyResult(), TopologyResult()]})
    assert len(pool.begin_round()[0]) == 1


def test_a_slot_closes_what_it_keeps_of_a_topology_in_a_round_too(pool: SlotPool) -> None:
    pool.begin_round()
    released = threading.Thread(target=pool.release, args=("a", WAIT_S), daemon=True)
    released.start()
    wait_until(lambda: pool.wait_for_requests(0))
    taken = pool.begin_round()
    assert taken == {slot: [msgspec.msgpack.encode(ReleaseTopology("a"))] for slot in (0, 1)}
    pool.complete_round({slot: [TopologyResult()] for slot in taken})
    released.join(WAIT_S)
    assert not released.is_alive()


def test_a_task_of_a_job_before_has_no_part_in_a_round(pool: SlotPool) -> None:
    pool.begin_job(1, 60)
    lost = Task(pool, 0, 1)
    wait_until(lambda: pool.has_tasks)
    in_thread(pool, work("a", 1))
    wait_until(lambda: pool.wait_for_requests(0))
    assert pool.begin_round() == {1: [request("a")]}
    assert lost.returned.wait(WAIT_S)
    assert Task(pool, 0, 1).returned.wait(WAIT_S)
