"""The pool of a shared runtime's slots: queues that outlive the Spark jobs whose tasks work them off."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
import pytest
from tests.unit.runtime.planner_scene import Scene

from hayase.core.logs import log_context, place_of
from hayase.core.socket_folder import socket_folder
from hayase.log.assignments import Place
from hayase.log.open import open_log
from hayase.runtime.epochs import pool_queues, slot_pool, slot_queue
from hayase.runtime.epochs.log_watch import LogWatch
from hayase.runtime.epochs.slot_pool import SlotPool
from hayase.runtime.epochs.slot_queue import Work
from hayase.runtime.epochs.topology_loop import TopologyLoop
from hayase.runtime.wire.endpoints import RunEndpoints
from hayase.runtime.wire.row_files import RowFiles
from hayase.runtime.wire.slot_messages import (
    JOB_ENDED,
    Begun,
    Join,
    JoinAsSpare,
    JoinPool,
    OfferSpares,
    Order,
    PoolRequest,
    ReleaseTopology,
    SlotHung,
    StartSpare,
    TopologyRequest,
    TopologyResult,
    Withdraw,
)
from hayase.runtime.wire.span_protocol import connect
from hayase.state.delta.journal import EdgeRow

WAIT_S = 20.0


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[SlotPool]:
    folder = socket_folder("hayase-test-")
    opened = SlotPool(2, RunEndpoints(str(tmp_path), str(folder)))
    yield opened
    opened.close()


def request(topology: str, level: int = 0) -> bytes:
    return msgspec.msgpack.encode(TopologyRequest(topology, {}, b"record", level, 0, [], []))


def work(topology: str, *slots: int) -> Work:
    return Work(topology, {slot: request(topology) for slot in slots})


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def waiting(pool: SlotPool, slot: int) -> int:
    """How many requests wait for a slot."""
    return len(pool._queues.slots[slot].works)


def wait() -> None:
    """Nothing is done while a pool is waited for."""


class Task(threading.Thread):
    """A Spark task in a slot: answers every request with the topology's name."""

    def __init__(
        self,
        pool: SlotPool,
        slot: int,
        job: int,
        answer: Callable[[str], TopologyResult] | None = None,
        join: Join | None = None,
        process: str = "",
    ) -> None:
        super().__init__(daemon=True)
        self.connection: Connection = connect(pool.address)
        joins = join or JoinPool(slot, job, process or f"process {slot}")
        self.connection.send_bytes(msgspec.msgpack.encode(joins))
        self.done: list[str] = []
        self.together: list[list[str]] = []
        self.places: list[dict[str, Place]] = []
        self.returned = threading.Event()
        self._answer = answer or (lambda name: TopologyResult(summaries=[name.encode()]))
        self.start()

    def run(self) -> None:
        try:
            while (message := self.connection.recv_bytes()) != JOB_ENDED:
                order = msgspec.msgpack.decode(message, type=Order)
                assert not isinstance(order, Withdraw)
                requests = [msgspec.msgpack.decode(each, type=PoolRequest) for each in order]
                names = [each.application_id for each in requests]
                self.together.append(names)
                self.places += [each.places for each in requests if isinstance(each, TopologyRequest)]
                for name in names:
                    result = self._answer(name)
                    self.done.append(name)
                    self.connection.send_bytes(msgspec.msgpack.encode(result))
        except (EOFError, OSError):
            return
        self.returned.set()


def in_thread(pool: SlotPool, some: Work) -> threading.Thread:
    thread = threading.Thread(target=pool.run, args=(some, wait), daemon=True)
    thread.start()
    return thread


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


class Spare(Task):
    """A spare process, as a source would start it."""

    def __init__(
        self, pool: SlotPool, order: StartSpare, answer: Callable[[str], TopologyResult] | None = None
    ) -> None:
        super().__init__(pool, order.slot, 0, answer, join=JoinAsSpare(order.slot, order.application_id))


class Source:
    """A process that starts spare processes; here it only says what it was asked for."""

    def __init__(self, pool: SlotPool) -> None:
        self._connection = connect(pool.address)
        self._connection.send_bytes(msgspec.msgpack.encode(OfferSpares("here")))
        self._sources = pool._queues.sources
        wait_until(lambda: bool(self._sources))

    def order(self) -> StartSpare:
        """The next order."""
        assert self._connection.poll(WAIT_S), "the pool has asked for no process"
        return msgspec.msgpack.decode(self._connection.recv_bytes(), type=StartSpare)

    def end(self) -> None:
        self._connection.close()
        wait_until(lambda: not self._sources)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request is slow soon."""
    for name in ("SLOW_STEP_S", "FIRST_STEP_S"):
        monkeypatch.setattr(pool_queues, name, 0.3)
    monkeypatch.setattr(slot_pool, "SLOW_STEP_S", 0.3)
    monkeypatch.setattr(slot_pool, "_LOOK_S", 0.05)


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Until it is set, requests of `slow` go on."""
    opened = threading.Event()
    yield opened
    opened.set()


def slow_until(gate: threading.Event) -> Callable[[str], TopologyResult]:
    def answer(name: str) -> TopologyResult:
        if name == "slow":
            gate.wait(WAIT_S)
        return TopologyResult(summaries=[name.encode()])

    return answer


def completed(*some: Work) -> list[bool]:
    return [each.done.wait(WAIT_S) for each in some]


@pytest.mark.usefixtures("impatient")
def test_a_spare_process_takes_the_place_of_a_slot_that_a_slow_request_keeps(
    pool: SlotPool, gate: threading.Event
) -> None:
    source = Source(pool)
    pool.begin_job(1, 60)
    task = Task(pool, 0, 1, slow_until(gate))
    slow, other, later = work("slow", 0), work("other", 0), work("later", 0)
    in_thread(pool, slow)
    time.sleep(0.05)
    in_thread(pool, other)
    order = source.order()
    assert order == StartSpare(0, "")
    spare = Spare(pool, order)
    in_thread(pool, later)
    assert completed(other, later) == [True, True]
    assert (spare.done, task.done, slow.done.is_set()) == (["other", "later"], [], False)
    gate.set()
    assert completed(slow) == [True]
    assert spare.returned.wait(WAIT_S), "the task has its slot back"
    last = work("last", 0)
    in_thread(pool, last)
    assert completed(last) == [True]
    assert task.done == ["slow", "last"]


@pytest.mark.usefixtures("impatient")
def test_the_warning_about_a_slow_request_is_of_its_topology_whichever_thread_logs_it(
    pool: SlotPool, gate: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    source = Source(pool)
    pool.begin_job(1, 60)
    Task(pool, 0, 1, slow_until(gate))
    slow, other = work("slow", 0), work("other", 0)

    def run(request: Work) -> None:
        with log_context(application_id="neighbour"):
            pool.run(request, wait)

    threading.Thread(target=run, args=(slow,)).start()
    time.sleep(0.05)
    threading.Thread(target=run, args=(other,)).start()
    Spare(pool, source.order())
    assert completed(other) == [True]
    gate.set()
    assert completed(slow) == [True]
    (record,) = [each for each in caplog.records if "has kept slot" in each.getMessage()]
    assert place_of(record) == {"application_id": "slow"}


@pytest.mark.usefixtures("impatient")
def test_what_a_task_was_sent_beside_a_slow_request_is_for_the_spare_process(
    pool: SlotPool, gate: threading.Event
) -> None:
    source = Source(pool)
    before, slow, behind = work("before", 0), work("slow", 0), work("behind", 0)
    for some in (before, slow, behind):
        in_thread(pool, some)
        time.sleep(0.05)
    withdrawn: list[int] = []

    class Together(Task):
        """Answers when all is done, as a slot does that publishes its requests together."""

        def run(self) -> None:
            self.connection.recv_bytes()
            self.connection.send_bytes(msgspec.msgpack.encode(Begun(1)))
            gate.wait(WAIT_S)
            withdrawn.append(msgspec.msgpack.decode(self.connection.recv_bytes(), type=Withdraw).keep)
            for name in ("", "slow", ""):
                self.connection.send_bytes(msgspec.msgpack.encode(TopologyResult(summaries=[name.encode()])))

    pool.begin_job(1, 60)
    Together(pool, 0, 1)
    spare = Spare(pool, source.order())
    assert completed(before, behind) == [True, True]
    gate.set()
    assert completed(slow) == [True]
    assert (spare.done, withdrawn) == (["before", "behind"], [1])
    assert [each.results[0].summaries for each in (before, slow, behind)] == [[b"before"], [b"slow"], [b"behind"]]
    assert [each.died for each in (before, slow, behind)] == [0, 0, 0]


@pytest.mark.usefixtures("impatient")
def test_a_process_that_is_stopped_while_it_gets_requests_holds_up_no_other(pool: SlotPool) -> None:
    source = Source(pool)
    large = msgspec.msgpack.encode(
        TopologyRequest("large", {}, b"record", 0, 0, [EdgeRow("1-0", "edge", "0-1", 0, bytes(1 << 20))], [])
    )
    some = [Work("large", {0: large}), work("behind", 0), work("neighbour", 1)]
    in_thread(pool, some[0])
    in_thread(pool, some[1])
    wait_until(lambda: waiting(pool, 0) == 2)
    pool.begin_job(1, 60)
    stopped = connect(pool.address)
    stopped.send_bytes(msgspec.msgpack.encode(JoinPool(0, 1, "process 0")))
    spare = Spare(pool, source.order())
    Task(pool, 1, 1)
    in_thread(pool, some[2])
    assert completed(*some[1:]) == [True, True]
    assert spare.done == ["behind"]
    order = msgspec.msgpack.decode(stopped.recv_bytes(), type=Order)
    assert order == [large, request("behind")], "when it goes on, what it gets is whole"
    stopped.close()


@pytest.mark.usefixtures("impatient")
def test_a_topology_that_was_slow_has_a_process_of_its_own_until_it_returns(
    pool: SlotPool, gate: threading.Event
) -> None:
    source = Source(pool)
    pool.begin_job(1, 60)
    task = Task(pool, 0, 1, slow_until(gate))
    first, other = work("slow", 0), work("other", 0)
    in_thread(pool, first)
    time.sleep(0.05)
    in_thread(pool, other)
    substitute = Spare(pool, source.order())
    assert completed(other) == [True]
    gate.set()
    assert completed(first) == [True]
    assert pool.own_slots("slow") == {0} and pool.own_slots("other") == frozenset()
    second = work("slow", 0)
    in_thread(pool, second)
    order = source.order()
    assert order == StartSpare(0, "slow")
    own = Spare(pool, order)
    assert completed(second) == [True]
    assert (own.done, task.done) == (["slow"], ["slow"])
    pool.rejoin("slow")
    assert own.returned.wait(WAIT_S) and substitute.returned.wait(WAIT_S)
    third = work("slow", 0)
    in_thread(pool, third)
    assert completed(third) == [True]
    assert task.done == ["slow", "slow"]


@pytest.mark.usefixtures("impatient")
def test_a_topology_that_was_not_slow_lately_needs_no_process_of_its_own(
    pool: SlotPool, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source(pool)
    pool.begin_job(1, 60)
    Task(pool, 0, 1, slow_until(gate))
    slow = work("slow", 0)
    in_thread(pool, slow)
    time.sleep(0.05)
    in_thread(pool, work("other", 0))
    source.order()
    gate.set()
    assert completed(slow) == [True]
    assert pool.own_slots("slow") == {0}
    monkeypatch.setattr(pool_queues, "QUIET_S", 0.0)
    assert pool.own_slots("slow") == frozenset()


def test_a_topology_that_is_separated_has_a_process_of_its_own_before_it_was_slow(pool: SlotPool) -> None:
    source = Source(pool)
    pool.begin_job(1, 60)
    task = Task(pool, 0, 1)
    assert pool.separate("behind", [0])
    assert pool.own_slots("behind") == {0}
    some = work("behind", 0), work("other", 0)
    for each in some:
        in_thread(pool, each)
    order = source.order()
    assert order == StartSpare(0, "behind")
    own = Spare(pool, order)
    assert completed(*some) == [True, True]
    assert (own.done, task.done) == (["behind"], ["other"])


def test_a_topology_is_not_separated_where_no_process_can_be_started(pool: SlotPool) -> None:
    pool.begin_job(1, 60)
    assert not pool.separate("behind", [0])
    assert pool.own_slots("behind") == frozenset()


def test_only_so_many_topologies_are_separated(pool: SlotPool) -> None:
    source = Source(pool)
    pool.begin_job(1, 60)
    names = [f"t{number}" for number in range(pool_queues.OWN_PROCESSES_MAX // 2 + 1)]
    assert [pool.separate(name, [0, 1]) for name in names] == [True] * (len(names) - 1) + [False]
    assert pool.separate(names[0], [0, 1]), "it keeps what it has"
    source.end()
    assert not pool.separate(names[0], [0, 1])


@pytest.mark.long
@pytest.mark.usefixtures("impatient")
def test_a_job_goes_on_while_a_task_is_at_something_slow_and_ends_when_it_is_back(
    pool: SlotPool, gate: threading.Event
) -> None:
    source = Source(pool)
    pool.begin_job(1, 3)
    task, neighbour = Task(pool, 0, 1, slow_until(gate)), Task(pool, 1, 1)
    slow = work("slow", 0)
    in_thread(pool, slow)
    time.sleep(0.05)
    in_thread(pool, work("other", 0))
    spare = Spare(pool, source.order())
    time.sleep(3.2)
    late, here = work("late", 1), work("here", 0)
    in_thread(pool, late)
    in_thread(pool, here)
    assert completed(late, here) == [True, True]
    assert not neighbour.returned.is_set()
    gate.set()
    assert neighbour.returned.wait(WAIT_S) and task.returned.wait(WAIT_S)
    after = work("after", 0)
    in_thread(pool, after)
    assert completed(after) == [True]
    assert spare.done[-1] == "after", "it has the slot until there is a task"


@pytest.mark.usefixtures("impatient")
def test_a_slow_request_keeps_its_slot_where_no_others_wait_or_there_are_no_spare_processes(
    pool: SlotPool, gate: threading.Event
) -> None:
    pool.begin_job(1, 60)
    task = Task(pool, 0, 1, slow_until(gate))
    slow, other = work("slow", 0), work("other", 0)
    in_thread(pool, slow)
    time.sleep(0.6)
    source = Source(pool)
    time.sleep(0.2)
    source.end()
    in_thread(pool, other)
    time.sleep(0.6)
    assert not other.done.is_set() and pool.own_slots("slow") == frozenset()
    gate.set()
    assert completed(slow, other) == [True, True]
    assert task.done == ["slow", "other"]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("refused_first", [False, True])
def test_a_request_that_was_refused_for_a_place_is_sent_again_when_its_bundles_have_others(
    pool: SlotPool, gate: threading.Event, refused_first: bool
) -> None:
    source = Source(pool)

    def refuse(name: str) -> TopologyResult:
        gate.wait(WAIT_S)
        return TopologyResult(error="moved", place_lost=True)

    pool.begin_job(1, 60)
    Task(pool, 0, 1, refuse)
    slow = work("slow", 0)
    in_thread(pool, slow)
    time.sleep(0.05)
    in_thread(pool, work("other", 0))
    Spare(pool, source.order())
    wait_until(lambda: bool(slow.slow_in))
    again = {0: request("slow at its new place")}
    pool.begin_to_move(slow, slow.slow_in)
    if refused_first:
        gate.set()
        time.sleep(0.3)
        assert not slow.done.is_set()
        pool.moved(slow, again)
    else:
        pool.moved(slow, again)
        gate.set()
    own = Spare(pool, source.order())
    assert completed(slow) == [True]
    assert own.done == ["slow at its new place"]
    assert [result.error for result in slow.results] == [""]


@pytest.mark.usefixtures("impatient")
def test_requests_of_a_topology_go_to_its_slot_again_when_no_spare_process_can_be_started(
    pool: SlotPool, gate: threading.Event
) -> None:
    source = Source(pool)
    pool.begin_job(1, 60)
    task = Task(pool, 0, 1, slow_until(gate))
    slow = work("slow", 0)
    in_thread(pool, slow)
    time.sleep(0.05)
    in_thread(pool, work("other", 0))
    source.order()
    gate.set()
    source.end()
    second = work("slow", 0)
    in_thread(pool, second)
    assert completed(slow, second) == [True, True]
    assert task.done[0] == "slow" and sorted(task.done) == ["other", "slow", "slow"]


@pytest.mark.usefixtures("impatient")
def test_requests_of_a_topology_go_to_its_slot_again_when_no_process_comes_for_it(
    pool: SlotPool, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_queues, "_SPARE_TIMEOUT_S", 0.3)
    source = Source(pool)
    pool.begin_job(1, 60)
    task = Task(pool, 0, 1, slow_until(gate))
    first, second = work("slow", 0), work("slow", 0)
    in_thread(pool, first)
    time.sleep(0.05)
    in_thread(pool, work("other", 0))
    source.order()
    gate.set()
    assert completed(first) == [True]
    in_thread(pool, second)
    assert source.order() == StartSpare(0, "slow")
    assert completed(second) == [True]
    assert task.done.count("slow") == 2 and pool.own_slots("slow") == frozenset()


@pytest.mark.usefixtures("impatient")
def test_a_release_does_not_wait_for_a_process_that_is_at_something_slow(pool: SlotPool, gate: threading.Event) -> None:
    source = Source(pool)
    pool.begin_job(1, 60)
    Task(pool, 0, 1, slow_until(gate))
    in_thread(pool, work("slow", 0))
    time.sleep(0.05)
    in_thread(pool, work("other", 0))
    source.order()
    began = time.monotonic()
    pool.release("other", WAIT_S)
    assert time.monotonic() - began < WAIT_S / 2


@pytest.mark.parametrize("opened", [False, True], ids=["first request", "later request"])
def test_the_first_request_of_a_topology_in_a_process_may_take_longer(
    pool: SlotPool, gate: threading.Event, monkeypatch: pytest.MonkeyPatch, opened: bool
) -> None:
    """It opens the topology's program and states, as each other process would have to."""
    monkeypatch.setattr(pool_queues, "SLOW_STEP_S", 0.3)
    source = Source(pool)
    pool.begin_job(1, 60)
    if opened:
        gate.set()
    Task(pool, 0, 1, slow_until(gate))
    if opened:
        first = work("slow", 0)
        in_thread(pool, first)
        assert completed(first) == [True]
        gate.clear()
        pool.begin_job(2, 60)
        Task(pool, 0, 2, slow_until(gate))  # of the same process
    slow = work("slow", 0)
    in_thread(pool, slow)
    time.sleep(0.05)
    other = work("other", 0)
    in_thread(pool, other)
    if opened:
        assert source.order() == StartSpare(0, "")
        assert slow.slow_in == {0}
    else:
        time.sleep(0.7)
        assert slow.slow_in == set()
        gate.set()
        assert completed(slow, other) == [True, True]


def test_an_epoch_that_ends_as_soon_as_it_is_found_slow_leaves_the_slots_id_to_the_slot(
    pool: SlotPool, scene: Scene, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes that publish under one id would take it from each other with every epoch."""
    for name in ("SLOW_STEP_S", "FIRST_STEP_S"):
        monkeypatch.setattr(pool_queues, name, 0.2)
    monkeypatch.setattr(slot_pool, "_LOOK_S", WAIT_S)  # the topology itself does not look before it has its results
    placed: list[tuple[str, frozenset[int]]] = []
    bundles = [bundle.id for bundle in scene.app.plan.bundles]

    def place(application_id: str, own: frozenset[int]) -> dict[str, Place]:
        placed.append((application_id, own))
        return dict.fromkeys(bundles, Place("its-own", 2))

    def answer(name: str) -> TopologyResult:
        if name == "app":
            gate.wait(WAIT_S)
        return TopologyResult()

    scene.put(1)
    source, watch = Source(pool), LogWatch(open_log(scene.log_config))
    pool.begin_job(1, 60)
    Task(pool, 0, 1, answer)
    loop = TopologyLoop(
        scene.planner(watch), {"digest": "d"}, pool, watch, RowFiles(scene.blobs),
        bounded=False, places=dict.fromkeys(bundles, Place("the-slots", 1)), place=place,
    )  # fmt: skip
    loop.start()
    try:
        wait_until(lambda: pool._queues.slots[0].holder is not None and bool(pool._workers[0].at_work))
        time.sleep(0.3)
        in_thread(pool, work("other", 0))
        assert source.order() == StartSpare(0, "")
        assert placed == []
        gate.set()
        wait_until(lambda: bool(placed))
        assert placed == [("app", frozenset({0}))]
        scene.put(2)
        own = Spare(pool, source.order(), answer)
        wait_until(lambda: own.done == ["app"])
        assert own.places == [dict.fromkeys(bundles, Place("its-own", 2))]
    finally:
        loop.stop()
        loop.join(WAIT_S)
        watch.close()
