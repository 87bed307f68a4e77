"""The pool of a shared runtime's slots: queues that outlive the Spark jobs whose tasks work them off."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import msgspec
import pytest
from tests.unit.runtime.pool_scene import (
    WAIT_S,
    Task,
    in_thread,
    wait_until,
    work,
)

from hayase.core.socket_folder import socket_folder
from hayase.runtime.epochs import slot_pool
from hayase.runtime.epochs.slot_pool import SlotPool
from hayase.runtime.wire.endpoints import RunEndpoints
from hayase.runtime.wire.slot_messages import (
    JoinPool,
    SlotHung,
    TopologyResult,
)
from hayase.runtime.wire.span_protocol import RowFile, connect
from hayase.runtime.wire.step_hung import heading


def test_requests_of_several_topologies_are_worked_off_in_the_order_in_which_they_came(pool: SlotPool) -> None:
    all_work = [work(name, 0) for name in ("a", "b", "c")]
    threads = []
    for some in all_work:
        threads.append(in_thread(pool, some))
        time.sleep(0.02)
    pool.begin_job(1, 60)
    task = Task(pool, 0, 1)
    for thread in threads:
        thread.join(WAIT_S)
    assert task.done == ["a", "b", "c"]
    assert [some.results[0].summaries for some in all_work] == [[b"a"], [b"b"], [b"c"]]


def test_a_request_that_no_job_worked_off_is_worked_off_by_the_next_job(pool: SlotPool) -> None:
    pool.begin_job(1, 60)
    first = Task(pool, 0, 1)
    pool.end_job()
    assert first.returned.wait(WAIT_S)
    some = work("a", 0)
    thread = in_thread(pool, some)
    pool.begin_job(2, 60)
    Task(pool, 0, 2)
    thread.join(WAIT_S)
    assert [result.summaries for result in some.results] == [[b"a"]]


def test_a_task_of_an_earlier_job_is_sent_away(pool: SlotPool) -> None:
    pool.begin_job(2, 60)
    assert Task(pool, 0, 1).returned.wait(WAIT_S)


def done_in_slot(pool: SlotPool, slot: int, *tasks: Task) -> list[list[str]]:
    """Has a slot work; what each task has done."""
    in_thread(pool, work("a", slot)).join(WAIT_S)
    return [task.done for task in tasks]


def test_a_process_has_the_slot_that_it_had_in_the_job_before_whatever_the_number_of_its_task(pool: SlotPool) -> None:
    pool.begin_job(1, 60)
    first, second = Task(pool, 0, 1, process="P"), Task(pool, 1, 1, process="Q")
    assert done_in_slot(pool, 0, first, second) == [["a"], []]
    pool.end_job()
    assert first.returned.wait(WAIT_S) and second.returned.wait(WAIT_S)
    pool.begin_job(2, 60)
    second, first = Task(pool, 0, 2, process="Q"), Task(pool, 1, 2, process="P")
    assert done_in_slot(pool, 0, first, second) == [["a"], []]


def test_a_new_process_has_the_slot_of_the_one_that_died(pool: SlotPool) -> None:
    pool.begin_job(1, 60)
    at_it = threading.Event()

    def die(name: str) -> TopologyResult:
        at_it.set()
        raise EOFError

    dying, other = Task(pool, 0, 1, die, process="P"), Task(pool, 1, 1, process="Q")
    thread = in_thread(pool, work("a", 0))
    assert at_it.wait(WAIT_S)
    dying.connection.close()
    again = Task(pool, 0, 1, process="R")
    thread.join(WAIT_S)
    pool.end_job()
    assert again.returned.wait(WAIT_S) and other.returned.wait(WAIT_S)
    pool.begin_job(2, 60)
    again, other = Task(pool, 1, 2, process="R"), Task(pool, 0, 2, process="Q")
    assert done_in_slot(pool, 0, again, other) == [["a"], []]


def test_what_a_task_was_at_when_it_died_is_for_its_next_attempt(pool: SlotPool) -> None:
    pool.begin_job(1, 60)
    at_it = threading.Event()

    def die(name: str) -> TopologyResult:
        at_it.set()
        raise EOFError

    dying = Task(pool, 0, 1, die)
    some = work("a", 0)
    thread = in_thread(pool, some)
    assert at_it.wait(WAIT_S)
    dying.connection.close()
    again = Task(pool, 0, 1)
    thread.join(WAIT_S)
    assert (again.done, some.died) == (["a"], 1)


def test_a_topology_whose_requests_killed_two_tasks_is_waited_for_no_longer(pool: SlotPool) -> None:
    pool.begin_job(1, 60)

    def die(name: str) -> TopologyResult:
        raise EOFError

    some = work("bad", 0)
    thread = in_thread(pool, some)
    for _ in range(slot_pool.DEATHS_MAX):
        task = Task(pool, 0, 1, die)
        task.join(WAIT_S)
        task.connection.close()
        time.sleep(0.05)
    thread.join(WAIT_S)
    assert some.died == slot_pool.DEATHS_MAX and not some.results
    good = work("good", 0)
    thread = in_thread(pool, good)
    pool.begin_job(2, 60)
    Task(pool, 0, 2)
    thread.join(WAIT_S)
    assert good.results


def test_a_task_that_hung_says_so_before_it_dies(pool: SlotPool) -> None:
    pool.begin_job(1, 60)
    some = work("bad", 0)
    thread = in_thread(pool, some)
    for number in range(slot_pool.DEATHS_MAX):
        with connect(pool.address) as connection:
            connection.send_bytes(msgspec.msgpack.encode(JoinPool(0, 1, "process 0")))
            connection.recv_bytes()
            for answer in (SlotHung("another", "not it"), SlotHung("bad", f"hung {number}")):
                connection.send_bytes(msgspec.msgpack.encode(answer))
    thread.join(WAIT_S)
    assert (some.died, some.hung) == (slot_pool.DEATHS_MAX, f"hung {slot_pool.DEATHS_MAX - 1}")


@pytest.mark.long
def test_deaths_do_not_use_up_the_attempts_that_spark_gives_a_task(pool: SlotPool) -> None:
    pool.begin_job(1, 60)

    def die(name: str) -> TopologyResult:
        raise EOFError

    bad = [work(f"bad-{number}", 0) for number in range(3)]
    threads = [in_thread(pool, each) for each in bad]
    joined = 0
    while threads[-1].is_alive():
        for attempt in range(4):
            assert attempt < 3, "the fourth attempt of a task: Spark would fail the job if it failed"
            task = Task(pool, 0, 1 + joined, die)
            task.join(WAIT_S)
            task.connection.close()
            time.sleep(0.05)
            if task.returned.is_set():
                break
        joined += 1
        pool.begin_job(1 + joined, 60)
    assert [each.died for each in bad] == [slot_pool.DEATHS_MAX] * 3


@pytest.mark.long
def test_idle_slots_do_not_hold_up_a_job_that_ends_early_because_a_task_has_died(pool: SlotPool) -> None:
    pool.begin_job(1, 60)
    idle = Task(pool, 1, 1)
    time.sleep(0.1)

    def die(name: str) -> TopologyResult:
        raise EOFError

    some = work("a", 0)
    thread = in_thread(pool, some)
    dying = Task(pool, 0, 1, die)
    dying.join(WAIT_S)
    dying.connection.close()
    time.sleep(0.05)
    again = Task(pool, 0, 1)
    thread.join(WAIT_S)
    assert some.results
    assert again.returned.wait(WAIT_S) and idle.returned.wait(WAIT_S)


def test_cancelled_requests_are_not_begun(pool: SlotPool) -> None:
    some, other = work("a", 0), work("b", 0)
    threads = [in_thread(pool, some), in_thread(pool, other)]
    time.sleep(0.05)
    pool.cancel("a")
    threads[0].join(WAIT_S)
    pool.begin_job(1, 60)
    task = Task(pool, 0, 1)
    threads[1].join(WAIT_S)
    assert some.cancelled and task.done == ["b"]


def test_an_error_is_known_before_other_slots_have_completed(pool: SlotPool) -> None:
    pool.begin_job(1, 60)
    gate = threading.Event()

    def late(name: str) -> TopologyResult:
        gate.wait(WAIT_S)
        return TopologyResult()

    Task(pool, 0, 1, lambda name: TopologyResult(error="boom"))
    Task(pool, 1, 1, late)
    some = work("a", 0, 1)
    in_thread(pool, some).join(WAIT_S)
    assert [result.error for result in some.results] == ["boom"]
    gate.set()


def test_a_task_returns_when_its_job_is_over_and_a_late_one_has_its_turn(pool: SlotPool) -> None:
    pool.begin_job(1, 0.05)
    first = Task(pool, 0, 1)
    assert first.returned.wait(WAIT_S)
    some = work("a", 1)
    thread = in_thread(pool, some)
    late = Task(pool, 1, 1)
    thread.join(WAIT_S)
    assert late.returned.wait(WAIT_S) and late.done == ["a"]


def test_the_end_of_a_job_lets_idle_tasks_go(pool: SlotPool) -> None:
    pool.begin_job(1, 60)
    task = Task(pool, 0, 1)
    pool.end_job()
    assert task.returned.wait(WAIT_S)


def test_a_topology_knows_whether_others_had_requests_lately_or_wait_for_a_slot(tmp_path: Path) -> None:
    now = [100.0]
    folder = socket_folder("hayase-test-")
    pool = SlotPool(1, RunEndpoints(str(tmp_path), str(folder)), lambda: now[0])
    try:
        pool.begin_job(1, 1e6)
        Task(pool, 0, 1)
        in_thread(pool, work("a", 0)).join(WAIT_S)
        assert not pool.others_want_slots("a")
        assert pool.others_want_slots("b")
        now[0] += 60
        assert not pool.others_want_slots("b")
    finally:
        pool.close()


def test_a_topology_that_has_waited_long_for_a_slot_still_counts_as_one_that_wants_it(tmp_path: Path) -> None:
    now = [100.0]
    folder = socket_folder("hayase-test-")
    pool = SlotPool(1, RunEndpoints(str(tmp_path), str(folder)), lambda: now[0])
    try:
        some = work("a", 0)
        in_thread(pool, some)
        deadline = time.monotonic() + WAIT_S
        while not pool.others_want_slots("b") and time.monotonic() < deadline:
            time.sleep(0.01)
        now[0] += 60
        assert pool.others_want_slots("b") and not pool.others_want_slots("a")
        pool.cancel("a")
    finally:
        pool.close()


@pytest.mark.long
def test_work_tells_how_long_its_slowest_slot_was_at_it_without_the_wait_before(pool: SlotPool) -> None:
    some = work("a", 0, 1)
    thread = in_thread(pool, some)
    time.sleep(0.5)
    pool.begin_job(1, 60)
    Task(pool, 0, 1, lambda name: TopologyResult(busy_s=0.1))
    Task(pool, 1, 1, lambda name: TopologyResult(busy_s=0.2))
    thread.join(WAIT_S)
    assert some.busy_s == 0.2
    assert some.done.is_set()


def test_a_slot_gets_all_that_waits_for_it_at_once(pool: SlotPool) -> None:
    threads = [in_thread(pool, work(name, 0)) for name in ("a", "b", "c")]
    time.sleep(0.1)
    pool.begin_job(1, 60)
    task = Task(pool, 0, 1)
    for thread in threads:
        thread.join(WAIT_S)
    assert [sorted(names) for names in task.together] == [["a", "b", "c"]]


@pytest.mark.long
def test_requests_that_a_task_died_with_are_tried_alone_and_only_the_one_to_blame_fails(pool: SlotPool) -> None:
    bad, good = work("bad", 0), work("good", 0)
    threads = []
    for some in (bad, good):
        threads.append(in_thread(pool, some))
        time.sleep(0.05)

    def die(name: str) -> TopologyResult:
        if name == "bad":
            raise EOFError
        return TopologyResult()

    for job in range(1, slot_pool.DEATHS_MAX + 2):
        pool.begin_job(job, 60)
        task = Task(pool, 0, job, die)
        task.join(WAIT_S)
        task.connection.close()
        time.sleep(0.05)
    pool.begin_job(job + 1, 60)
    Task(pool, 0, job + 1, die)
    for thread in threads:
        thread.join(WAIT_S)
    assert (bad.died, good.died) == (slot_pool.DEATHS_MAX, 0)
    assert good.results and not bad.results


def test_a_process_that_its_timer_ended_says_so_by_the_account_that_it_leaves(pool: SlotPool, tmp_path: Path) -> None:
    account = tmp_path / "account"
    pool.begin_job(1, 60)
    some = work("bad", 0)
    waiting_for_it = in_thread(pool, some)
    for _ in range(slot_pool.DEATHS_MAX):
        stack = '  File "/home/ada/shop.py", line 7 in slow\n'
        account.write_text(f"{heading('0:0', 3, 300.0)}Timeout (0:06:16)!\n{stack}")
        connection = connect(pool.address)
        connection.send_bytes(msgspec.msgpack.encode(JoinPool(0, 1, "process 0", account=str(account))))
        connection.recv_bytes()
        connection.close()
        wait_until(lambda: not account.exists())
    waiting_for_it.join(WAIT_S)
    assert some.died == slot_pool.DEATHS_MAX
    assert "STEP_HUNG" in some.hung and "shop.py:7 in slow" in some.hung


def test_a_process_that_died_of_something_else_did_not_hang(pool: SlotPool, tmp_path: Path) -> None:
    account = tmp_path / "account"
    account.write_text(heading("0:0", 3, 300.0))
    pool.begin_job(1, 60)
    some = work("bad", 0)
    waiting_for_it = in_thread(pool, some)
    for _ in range(slot_pool.DEATHS_MAX):
        connection = connect(pool.address)
        connection.send_bytes(msgspec.msgpack.encode(JoinPool(0, 1, "process 0", account=str(account))))
        connection.recv_bytes()
        connection.close()
    waiting_for_it.join(WAIT_S)
    assert (some.died, some.hung) == (slot_pool.DEATHS_MAX, "")


def test_files_with_rows_that_nobody_takes_are_removed(tmp_path: Path) -> None:
    removed: list[str] = []
    pool = SlotPool(1, RunEndpoints(str(tmp_path), str(socket_folder("hayase-test-"))), remove_rows=removed.append)
    begun, go_on = threading.Event(), threading.Event()

    def answer(name: str) -> TopologyResult:
        if name == "cancelled":
            begun.set()
            assert go_on.wait(WAIT_S)
        return TopologyResult(files=[RowFile(1, 0, f"rows of {name}")])

    try:
        pool.begin_job(1, 60)
        Task(pool, 0, 1, answer)
        taken = work("taken", 0)
        in_thread(pool, taken).join(WAIT_S)
        given_up = in_thread(pool, work("cancelled", 0))
        assert begun.wait(WAIT_S)
        pool.cancel("cancelled")
        given_up.join(WAIT_S)
        go_on.set()
        wait_until(lambda: removed == ["rows of cancelled"])
        assert [file.path for result in taken.results for file in result.files] == ["rows of taken"]
    finally:
        pool.close()
