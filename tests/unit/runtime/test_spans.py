"""Spans: several epochs inside one Spark job."""

from __future__ import annotations

import contextlib
import dataclasses
import pickle
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from tests.unit.runtime.planner_scene import Scene

from hayase import Consumed, Grouped, Serdes, StreamsBuilder, count
from hayase.core.errors import SourceRangeLostError
from hayase.runtime.driver.progress import Progress
from hayase.runtime.epochs import span_backoff, span_scheduler, span_server
from hayase.runtime.epochs.planner import EpochPlanner
from hayase.runtime.epochs.span_scheduler import SpanScheduler
from hayase.runtime.source import EpochReader, SlotWork
from hayase.runtime.wire.endpoints import TcpAddress
from hayase.runtime.wire.planner_control import PlannerControl, PlannerStatus
from hayase.runtime.wire.shuffle_rows import ROW, ShuffleRow
from hayase.runtime.wire.span_protocol import EpochReport
from hayase.runtime.worker import outgoing_rows, span_client
from hayase.runtime.worker.span_client import SpanClient
from hayase.state.delta.journal import EdgeRow
from hayase.task.edges import ReceivedRows
from hayase.task.epoch_record import EpochRecord, Epochs
from hayase.task.summary import BundleSummary

WAIT_S = 20.0
TASKS = [f"1_{number}" for number in range(8)]
"""Those of level 1, and more."""


class FakeWorker:
    """In place of a worker process: notes what it is to do, and may be held up, or die."""

    def __init__(self, slot: int, send: Callable[[int], Sequence[EdgeRow]] = lambda level: ()) -> None:
        self.slot = slot
        self.steps: list[tuple[int, int]] = []
        self.got: list[EdgeRow] = []
        self.gate = threading.Event()
        self.gate.set()
        self.at_gate = threading.Event()
        self.dies_at: int | None = None
        self._send = send
        self.can_share_files = False
        self.looks: Callable[[], object] = lambda: None
        self.control_dir = Path()

    def received(self) -> ReceivedRows:
        """See WorkerProcess."""
        return ReceivedRows()

    def level_and_slot(self, task: str) -> tuple[int, int]:
        """See WorkerProcess: tasks of level 1 are in the slots by turns."""
        return 1, int(task.rpartition("_")[2]) % 2

    def run_level(self, level: int, slot: int, record: EpochRecord, rows: ReceivedRows) -> Iterator[ShuffleRow]:
        """See WorkerProcess."""
        assert slot == self.slot
        self.at_gate.set()
        self.gate.wait(WAIT_S)
        if record.epoch == self.dies_at:
            self.dies_at = None
            raise MemoryError
        self.steps.append((record.epoch, level))
        self.looks()
        self.got += [row for task in TASKS for inputs in rows.inputs_of(task).values() for row in inputs]
        yield from (ShuffleRow(0, ROW, row) for row in self._send(level))
        summary = BundleSummary(f"0-{slot}", record.epoch, False, False, [], {}, [], due_ms=7)
        yield ShuffleRow.summary(record.epoch, summary.to_bytes())


class Job:
    """The tasks of one Spark job, each in a thread of its own."""

    def __init__(self, address: str | None, first_epoch: int, hosts: Sequence[FakeWorker]) -> None:
        assert address is not None
        self.rows: list[ShuffleRow] = []
        self.alone: list[int] = []
        self._address, self._first = address, first_epoch
        self._threads = [threading.Thread(target=self._task, args=(host,), daemon=True) for host in hosts]
        for thread in self._threads:
            thread.start()

    def _task(self, host: FakeWorker) -> None:
        for _ in range(2):  # as Spark tries a task again
            client = SpanClient.join(self._address, host.slot, self._first)
            if client is None:
                self.alone.append(host.slot)
                return
            try:
                self.rows += client.run(host)  # type: ignore[arg-type]
            except MemoryError:
                continue
            return

    def ends(self) -> bool:
        """Wait for its end; whether it came."""
        for thread in self._threads:
            thread.join(WAIT_S)
        return not any(thread.is_alive() for thread in self._threads)


@pytest.fixture(params=["one machine", "a cluster"])
def spans(request: pytest.FixtureRequest, scene: Scene) -> Iterator[Callable[..., tuple[EpochPlanner, SpanScheduler]]]:
    made: list[SpanScheduler] = []
    host = "" if request.param == "one machine" else "127.0.0.1"

    def make(**changes: Any) -> tuple[EpochPlanner, SpanScheduler]:
        planner = scene.planner(slots=2, endpoints=dataclasses.replace(scene.endpoints, host=host), **changes)
        made.append(SpanScheduler(planner))
        return planner, made[-1]

    yield make
    for each in made:
        each.close()


def reports_of(scene: Scene) -> list[EpochReport]:
    """Reports to the driver since the last call."""
    return [msgspec.json.decode(line, type=EpochReport) for line in scene.control.reports()]


Spans = Callable[..., tuple[EpochPlanner, SpanScheduler]]


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def two() -> list[FakeWorker]:
    return [FakeWorker(0), FakeWorker(1)]


def begun(scene: Scene, planner: EpochPlanner, scheduler: SpanScheduler, hosts: Sequence[FakeWorker]) -> Job:
    """The job of a span that begins with the first record."""
    scene.put(1)
    planner.next_epoch(-1)
    return Job(scheduler.begin(planner.record(0)), 0, hosts)


@pytest.mark.long
def test_a_job_goes_on_with_the_epochs_that_come_until_new_ones_are_not_wanted(scene: Scene, spans: Spans) -> None:
    planner, scheduler = spans()
    hosts = two()
    job = begun(scene, planner, scheduler, hosts)
    for epoch in (1, 2):
        wait_until(lambda epoch=epoch: scheduler.last_completed(-1) == epoch - 1)
        scene.put(epoch + 1)
    wait_until(lambda: scheduler.last_completed(-1) == 2)
    wait_until(lambda: sum(scene.log.group_offsets("app").values()) == 3)
    scene.control.request_stop()
    assert job.ends()
    scheduler.finish()
    assert [host.steps for host in hosts] == [[(0, 0), (1, 0), (2, 0)]] * 2
    assert job.rows == []
    assert planner.next_epoch(scheduler.last_completed(-1)) == 2  # marks the last one, unless that was done
    assert Epochs(scene.blobs).last_done() == 2


def test_the_pause_behind_an_epoch_follows_from_what_it_took(
    scene: Scene, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[float, float]] = []

    def long_pause(interval_s: float, epoch_s: float) -> float:
        asked.append((interval_s, epoch_s))
        return WAIT_S

    monkeypatch.setattr(span_scheduler, "pause_s", long_pause)
    planner, scheduler = spans()
    job = begun(scene, planner, scheduler, two())
    scene.put(2)
    wait_until(lambda: bool(asked))
    scene.control.request_stop()
    assert job.ends()
    scheduler.finish()
    assert [(interval_s, epoch_s > 0) for interval_s, epoch_s in asked] == [(0.0, True)]
    assert scheduler.last_completed(-1) == 0  # the next one was waited for


def test_offsets_of_epochs_that_follow_each_other_are_committed_together_and_those_of_the_last_at_once(
    scene: Scene, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span_scheduler, "SETTLE_EVERY_S", WAIT_S)
    planner, scheduler = spans(max_records_per_epoch=1)
    committed: list[int] = []
    commit = planner.settle_epoch

    def noting() -> None:
        committed.append(planner.last_done())
        commit()

    monkeypatch.setattr(planner, "settle_epoch", noting)
    scene.put(*range(1, 9))
    planner.next_epoch(-1)
    job = Job(scheduler.begin(planner.record(0)), 0, two())
    wait_until(lambda: sum(scene.log.group_offsets("app").values()) == 8)
    assert [epoch for epoch in committed if 0 < epoch < 7] == []
    scene.control.request_stop()
    assert job.ends()
    scheduler.finish()


@pytest.mark.parametrize("epoch_s", [0.0, 0.015, 0.025])
def test_results_are_committed_within_the_commit_interval(epoch_s: float) -> None:
    longest_wait_s = span_scheduler.pause_s(0.1, epoch_s)
    assert longest_wait_s + epoch_s == pytest.approx(0.1)


def test_long_epochs_begin_at_most_a_third_more_often_than_the_commit_interval_says() -> None:
    assert span_scheduler.pause_s(2.0, 1.2) == pytest.approx(1.5)


def test_no_epoch_begins_before_all_slots_are_through_the_one_before(scene: Scene, spans: Spans) -> None:
    planner, scheduler = spans()
    hosts = two()
    hosts[1].gate.clear()
    scene.put(1)
    planner.next_epoch(-1)
    scene.put(2)
    job = Job(scheduler.begin(planner.record(0)), 0, hosts)
    wait_until(lambda: hosts[0].steps == [(0, 0)])
    time.sleep(0.1)
    assert (scheduler.last_completed(-1), hosts[0].steps, scene.blobs.get("epochs/" + f"{1:020d}")) == (
        -1,
        [(0, 0)],
        None,
    )
    hosts[1].gate.set()
    wait_until(lambda: scheduler.last_completed(-1) == 1)
    scene.control.request_stop()
    assert job.ends()


@pytest.mark.long
def test_the_lag_is_reported_while_an_epoch_takes_its_time(scene: Scene, spans: Spans) -> None:
    planner, scheduler = spans()
    hosts = two()
    hosts[1].gate.clear()
    job = begun(scene, planner, scheduler, hosts)
    assert scene.status().lag_records == 0
    scene.put(2, 3)
    wait_until(lambda: scene.status() == PlannerStatus(0, 2, records=1))
    hosts[1].gate.set()
    scene.control.request_stop()
    assert job.ends()


def test_a_task_that_died_goes_on_where_it_was_and_the_span_ends_so_that_attempts_do_not_add_up(
    scene: Scene, spans: Spans
) -> None:
    planner, scheduler = spans()
    hosts = two()
    hosts[1].dies_at = 1
    job = begun(scene, planner, scheduler, hosts)
    wait_until(lambda: scheduler.last_completed(-1) == 0)
    scene.put(2)
    assert job.ends()
    scheduler.finish()
    assert scheduler.last_completed(-1) == 1
    assert [host.steps for host in hosts] == [[(0, 0), (1, 0)]] * 2


@pytest.mark.long
def test_a_task_that_died_and_finds_no_core_is_waited_for_only_so_long(
    scene: Scene, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span_server, "REJOIN_TIMEOUT_S", 0.2)
    planner, scheduler = spans()
    scene.put(1)
    planner.next_epoch(-1)
    address = scheduler.begin(planner.record(0))
    assert address is not None
    job = Job(address, 0, [FakeWorker(0)])
    lost = SpanClient.join(address, 1, 0)
    wait_until(lambda: scheduler.last_completed(7) == -1)  # the span has begun
    assert lost is not None
    lost._disconnect()
    assert job.ends()
    scheduler.finish()
    assert (scheduler.last_completed(-1), planner.last_done()) == (-1, -1)
    assert [each.epoch for each in reports_of(scene)] == [0]  # a completed epoch is counted once
    assert SpanClient.join(address, 1, 0) is not None  # when it comes at last, there is nothing to do but to end
    assert planner.next_epoch(-1) == 0
    assert scheduler.begin(planner.record(0)) is None  # for now every epoch is a job, which needs no second core


@pytest.mark.long
def test_a_task_that_does_not_know_the_token_cannot_join(scene: Scene) -> None:
    planner = scene.planner(slots=2, endpoints=dataclasses.replace(scene.endpoints, host="127.0.0.1"))
    scheduler = SpanScheduler(planner)
    scene.put(1)
    planner.next_epoch(-1)
    address = scheduler.begin(planner.record(0))
    assert address is not None
    where = TcpAddress.parse(address)
    assert where is not None
    assert SpanClient.join(str(dataclasses.replace(where, token="guess")), 0, 0) is None
    with where.connect(WAIT_S) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            while stranger.recv(1000):
                pass
    job = Job(address, 0, two())
    wait_until(lambda: scheduler.last_completed(-1) == 0)
    scheduler.close()
    assert job.ends()


def test_each_span_in_a_row_to_which_nobody_comes_is_tried_after_twice_the_time(scene: Scene) -> None:
    scene.put(1)
    planner, now = scene.planner(slots=2, endpoints=dataclasses.replace(scene.endpoints, host="127.0.0.1")), [0.0]
    scheduler = SpanScheduler(planner, lambda: now[0])
    planner.next_epoch(-1)
    for pause_s in (span_backoff.SPAN_BACKOFF_S, 2 * span_backoff.SPAN_BACKOFF_S):
        assert scheduler.begin(planner.record(0)) is not None
        scheduler.finish()  # the job has ended: its tasks could not reach the planner, and worked alone
        now[0] += pause_s - 1
        assert scheduler.begin(planner.record(0)) is None
        now[0] += 1
    assert scheduler.begin(planner.record(0)) is not None
    scheduler.finish()
    scene.control.request_yield(True)  # such as when a machine has joined
    assert scheduler.begin(planner.record(0)) is None
    scene.control.request_yield(False)
    job = Job(scheduler.begin(planner.record(0)), 0, two())
    wait_until(lambda: scheduler.last_completed(-1) == 0)
    scene.control.request_stop()
    assert job.ends()
    scheduler.close()


def test_each_epoch_is_reported_to_the_driver_once_and_in_order(scene: Scene, spans: Spans) -> None:
    planner, scheduler = spans()
    job = begun(scene, planner, scheduler, two())
    told: list[bytes] = []
    for epoch in range(3):
        wait_until(lambda epoch=epoch: scheduler.last_completed(-1) == epoch)
        scene.put(epoch + 2)
        told += scene.control.reports()
    scene.control.request_stop()
    assert job.ends()
    scheduler.finish()
    told += scene.control.reports()
    assert scene.control.reports() == []
    decoded = [msgspec.json.decode(line, type=EpochReport) for line in told]
    assert [each.epoch for each in decoded] == list(range(scheduler.last_completed(-1) + 1))
    assert all(len(each.summaries) == 2 and each.total_ms >= each.planning_ms >= 0 for each in decoded)
    progress = Progress()
    progress.add_reports(told)
    assert (progress.epochs, progress.last_epoch, progress.due_ms) == (len(told), scheduler.last_completed(-1), 7)


def test_what_was_told_in_former_spans_is_read_before_its_file_is_removed(scene: Scene) -> None:
    for name in (b"a", b"b"):
        with PlannerControl(scene.folder / "control").reporting() as tell:
            tell(name)
    assert scene.control.reports() == [b"a", b"b"]
    assert len(list(scene.folder.glob("control/told-*"))) == 1
    with PlannerControl(scene.folder / "control").reporting() as tell:
        tell(b"c")
        assert scene.control.reports() == [b"c"]
        tell(b"d")
        assert scene.control.reports() == [b"d"]


@pytest.mark.long
@pytest.mark.parametrize("why", ["the time is up", "others want the cores", "a pause"])
def test_a_span_ends_between_epochs_when(scene: Scene, spans: Spans, why: str) -> None:
    planner, scheduler = spans(span_max_ms=200 if why == "the time is up" else 60_000)
    job = begun(scene, planner, scheduler, two())
    wait_until(lambda: scheduler.last_completed(-1) == 0)
    if why == "others want the cores":
        scene.control.request_yield(True)
    elif why == "a pause":
        scene.control.request_pause(True)
    assert job.ends()
    scheduler.finish()
    assert scheduler.last_completed(-1) == 0


def test_a_span_ends_instead_of_a_pause_that_goes_beyond_its_end(scene: Scene, spans: Spans) -> None:
    planner, scheduler = spans(span_max_ms=1_000 * WAIT_S, commit_interval_ms=2_000 * WAIT_S)
    job = begun(scene, planner, scheduler, two())
    assert job.ends()
    scheduler.finish()
    assert scheduler.last_completed(-1) == 0


def test_a_run_to_the_end_is_one_job(scene: Scene, spans: Spans) -> None:
    planner, scheduler = spans()
    scene.put(*range(25))  # of which an epoch takes ten
    planner.freeze()
    planner.next_epoch(-1)
    scene.put(100)
    job = Job(scheduler.begin(planner.record(0)), 0, two())
    assert job.ends()
    scheduler.finish()
    assert scheduler.last_completed(-1) >= 2
    assert planner.next_epoch(scheduler.last_completed(-1)) == scheduler.last_completed(-1)


@pytest.mark.parametrize("why", ["it is switched off", "others want the cores", "a stop"])
def test_there_is_no_span_where(scene: Scene, spans: Spans, why: str) -> None:
    planner, scheduler = spans(span_max_ms=0 if why == "it is switched off" else 60_000)
    scene.put(1)
    planner.next_epoch(-1)
    if why == "others want the cores":
        scene.control.request_yield(True)
    elif why == "a stop":
        scene.control.request_stop()
    assert scheduler.begin(planner.record(0)) is None


def test_tasks_that_cannot_all_run_at_once_work_alone_and_the_next_jobs_too(
    scene: Scene, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span_backoff, "FIRST_JOIN_TIMEOUT_S", 0.1)
    planner, scheduler = spans()
    scene.put(1)
    planner.next_epoch(-1)
    hosts = two()
    address = scheduler.begin(planner.record(0))
    first = Job(address, 0, hosts[:1])
    assert first.ends()
    second = Job(address, 0, hosts[1:])  # Spark has one core
    assert second.ends()
    assert (first.alone, second.alone) == ([0], [1])
    scheduler.finish()
    assert scheduler.last_completed(-1) == -1
    assert scheduler.begin(planner.record(0)) is None


def test_a_task_of_a_former_job_finds_no_span(scene: Scene, spans: Spans) -> None:
    planner, scheduler = spans()
    scene.put(1)
    planner.next_epoch(-1)
    address = scheduler.begin(planner.record(0))
    assert address is not None
    assert SpanClient.join(address, 0, 5) is None


def test_an_error_of_planning_is_raised_where_spark_asks_for_the_next_epoch(
    scene: Scene, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    planner, scheduler = spans()
    scene.put(1)
    planner.next_epoch(-1)

    def lost(after: int, *, settle: bool) -> int:
        raise SourceRangeLostError("SOURCE_RANGE_LOST", "gone")

    monkeypatch.setattr(planner, "next_epoch", lost)
    job = Job(scheduler.begin(planner.record(0)), 0, two())
    assert job.ends()
    with pytest.raises(SourceRangeLostError):
        scheduler.finish()


def test_slots_whose_planner_is_gone_hand_their_summaries_to_spark(scene: Scene, spans: Spans) -> None:
    planner, scheduler = spans()
    hosts = two()
    for host in hosts:
        host.gate.clear()
    job = begun(scene, planner, scheduler, hosts)
    assert all(host.at_gate.wait(WAIT_S) for host in hosts)
    scheduler.close()
    for host in hosts:
        host.gate.set()
    assert job.ends()
    assert sorted(BundleSummary.from_bytes(row.row.payload).bundle for row in job.rows) == ["0-0", "0-1"]


def shuffling(scene: Scene) -> dict[str, Any]:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(Serdes.string(), Serdes.string()))
    stream.group_by(lambda key, value: value, Grouped.with_(Serdes.string(), Serdes.string())).agg(n=count())
    topology = builder.build()
    return {"topology": topology, "plan": scene.plan_of(topology)}


def test_rows_for_the_next_level_reach_the_slot_of_their_task(scene: Scene, spans: Spans) -> None:
    changes = shuffling(scene)
    planner, scheduler = spans(**changes)
    plan = planner.app.plan
    tasks = [task.id for bundle in plan.bundles if bundle.level == 1 for task in bundle.tasks]
    rows = [EdgeRow(task, "edge", "origin", 0, task.encode()) for task in tasks]
    hosts = [FakeWorker(0, lambda level: rows if level == 0 else ()), FakeWorker(1)]
    job = begun(scene, planner, scheduler, hosts)
    wait_until(lambda: scheduler.last_completed(-1) == 0)
    scene.control.request_stop()
    assert job.ends()
    slot_of = planner.app.slot_of_bundles()
    for host in hosts:
        mine = {t.id for bundle in plan.bundles if slot_of[bundle.id] == host.slot for t in bundle.tasks}
        assert sorted(host.got) == sorted(row for row in rows if row.task in mine)
        assert host.steps == [(0, 0), (0, 1)]


def test_on_one_machine_rows_that_are_many_go_to_the_next_level_through_files(
    scene: Scene, spans: Spans, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outgoing_rows, "ROWS_BYTES_MAX", 10)
    monkeypatch.setattr(span_client, "SPAN_ROWS_BYTES_MAX", 10)
    monkeypatch.setattr(span_scheduler, "SHUFFLED_RECORDS_MAX", 0)
    planner, scheduler = spans(**shuffling(scene))
    plan, slot_of = planner.app.plan, planner.app.slot_of_bundles()
    tasks = {task.id: slot_of[bundle.id] for bundle in plan.bundles if bundle.level == 1 for task in bundle.tasks}
    rows = [EdgeRow(task, "edge", "origin", number, b"123456") for number in range(20) for task in tasks]
    hosts = [FakeWorker(0, lambda level: rows if level == 0 else ()), FakeWorker(1)]
    written: list[int] = []
    for host in hosts:
        host.can_share_files, host.control_dir = True, tmp_path
        host.level_and_slot = lambda task: (1, tasks[task])  # type: ignore[method-assign]
        host.looks = lambda: written.append(len(list(tmp_path.glob("rows-*"))))
    job = begun(scene, planner, scheduler, hosts)
    wait_until(lambda: scheduler.last_completed(-1) == 0)
    scene.control.request_stop()
    assert job.ends()
    for host in hosts:
        assert sorted(host.got) == sorted(row for row in rows if tasks[row.task] == host.slot)
    assert max(written) > 1 and not list(tmp_path.glob("rows-*"))


def test_between_machines_an_epoch_with_too_much_to_shuffle_is_left_to_the_next_job(
    scene: Scene, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span_scheduler, "SHUFFLED_RECORDS_MAX", 2)
    planner, scheduler = spans(cluster=True, **shuffling(scene))
    job = begun(scene, planner, scheduler, two())
    wait_until(lambda: scheduler.last_completed(-1) == 0)
    scene.put(2, 3, 4)
    assert job.ends()
    scheduler.finish()
    assert scheduler.last_completed(-1) == 0
    epoch = planner.next_epoch(0)
    assert planner.record(epoch).records == 3
    assert scheduler.begin(planner.record(epoch)) is None


def test_between_machines_an_epoch_whose_rows_are_too_large_is_left_open_for_a_job_of_its_own(
    scene: Scene, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span_client, "SPAN_ROWS_BYTES_MAX", 10)
    planner, scheduler = spans(**shuffling(scene))
    task = next(task.id for bundle in planner.app.plan.bundles if bundle.level == 1 for task in bundle.tasks)
    rows = [EdgeRow(task, "edge", "origin", number, b"123456") for number in range(2)]
    hosts = [FakeWorker(0, lambda level: rows if level == 0 else ()), FakeWorker(1)]
    job = begun(scene, planner, scheduler, hosts)
    assert job.ends()
    scheduler.finish()
    assert [host.steps for host in hosts] == [[(0, 0)], [(0, 0)]]
    assert (scheduler.last_completed(-1), planner.last_done()) == (-1, -1)
    assert planner.next_epoch(-1) == 0
    assert scheduler.begin(planner.record(0)) is None
    assert (
        len(scene.control.reports()) == 1
    )  # what was counted is not lost: the epoch is adopted, and counts nothing again


def test_spark_is_given_the_epoch_that_a_span_left_open_once_more(
    scene: Scene, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span_client, "SPAN_ROWS_BYTES_MAX", 10)
    planner, scheduler = spans(**shuffling(scene))
    task = next(task.id for bundle in planner.app.plan.bundles if bundle.level == 1 for task in bundle.tasks)
    hosts = [
        FakeWorker(0, lambda level: [EdgeRow(task, "e", "o", 0, b"12345678901")] if level == 0 else ()),
        FakeWorker(1),
    ]
    reader = EpochReader({})
    reader._epoch_planner, reader._span_scheduler = planner, scheduler
    everything = ReadAllAvailable()
    scene.put(1)
    began = {"epoch": -1}
    first = reader.latestOffset(began, everything)
    orders = reader.partitions(began, first)
    assert isinstance(orders[0], SlotWork)
    assert Job(orders[0].span, 0, hosts).ends()
    again = reader.latestOffset(first, everything)
    assert again["epoch"] == first["epoch"] == 0
    assert again != first
    assert planner.last_done() == -1
    assert [order.span for order in reader.partitions(first, again) if isinstance(order, SlotWork)] == [None, None]
    assert reader.latestOffset(again, everything) == again  # that job was Spark's, so the epoch is complete
    assert planner.last_done() == 0
    assert reader.partitions(again, again) == []


def test_work_orders_travel_without_the_planner(scene: Scene) -> None:
    # The reader is sent to the workers with each task.
    reader = EpochReader({"a": "b"})
    reader._span_scheduler = object()  # type: ignore[assignment]
    assert pickle.loads(pickle.dumps(reader))._span_scheduler is None
