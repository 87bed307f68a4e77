"""Processes beside those of slots: for a slot that a slow request keeps, and for a topology by itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from unittest.mock import Mock

import msgspec
import pytest
from tests.unit.runtime.planner_scene import Scene
from tests.unit.runtime.pool_scene import (
    WAIT_S,
    Source,
    Spare,
    Task,
    completed,
    in_thread,
    request,
    wait,
    wait_until,
    waiting,
    work,
)

from hayase.core.logs import log_context, place_of
from hayase.log.assignments import Place
from hayase.log.open import open_log
from hayase.runtime.epochs import pool_queues, slot_pool
from hayase.runtime.epochs.log_watch import LogWatch
from hayase.runtime.epochs.slot_pool import SlotPool
from hayase.runtime.epochs.slot_queue import PoolWorker, Work
from hayase.runtime.epochs.topology_loop import TopologyLoop
from hayase.runtime.wire.row_files import RowFiles
from hayase.runtime.wire.slot_messages import (
    Begun,
    JoinPool,
    Order,
    StartSpare,
    TopologyRequest,
    TopologyResult,
    Withdraw,
)
from hayase.runtime.wire.span_protocol import connect
from hayase.state.delta.journal import EdgeRow


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


@pytest.mark.parametrize(("job_s", "stays"), [(60.0, False), (0.0, True)])
def test_a_spare_process_leaves_for_a_task_that_is_back_unless_its_job_is_over(
    pool: SlotPool, job_s: float, stays: bool
) -> None:
    """Such a task only returns, and the slot would have no process until the next job."""
    pool.begin_job(1, job_s)
    queue = pool._queues.slots[0]
    queue.task, spare = PoolWorker(Mock(), task=True, served=True), PoolWorker(Mock(), task=False)
    queue.holder = spare
    assert pool._belongs(queue, spare) is stays
    queue.task = queue.holder = None


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
    order = source.order()
    while not order.application_id:  # on a busy machine the slot's process is asked for once more
        order = source.order()
    own = Spare(pool, order)
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
