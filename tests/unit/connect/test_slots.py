"""Tasks in slots, which are processes of their own: killed, late, replaced; each line comes once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from tests.unit.connect.slot_worker import SlotWorker, wait

from hayase.connect.herder.states import TargetState
from hayase.connect.slots import pool
from hayase.log.protocol import Log, LogConfig

pytestmark = [pytest.mark.long, pytest.mark.timeout(240)]


@pytest.fixture
def worker(log: Log, tmp_path: Path) -> Iterator[SlotWorker]:
    config_of_log = LogConfig("embedded", str(tmp_path / "log"), {"fsync": "false", "cleaner.interval.ms": "0"})
    made = SlotWorker(log, config_of_log, tmp_path, 2)
    yield made
    made.close()


def test_tasks_of_a_slot_that_is_killed_start_in_another_and_each_line_comes_once(worker: SlotWorker) -> None:
    worker.slot(0)
    worker.slot(1)
    files = {name: worker.lines(name) for name in ("one", "two")}
    wait(lambda: sorted(map(len, worker.pool.tasks().values())), [1, 1])
    for name, file in files.items():
        file.write_text("".join(f"line {number}\n" for number in range(20)))
        wait(lambda name=name: len(worker.published(name)) > 3, True)
    kept = worker.process_of("two-0")
    os.kill(worker.process_of("one-0"), signal.SIGKILL)
    for file in files.values():
        with file.open("a") as more:
            more.writelines(f"line {number}\n" for number in range(20, 40))
    wanted = [f"line {number}" for number in range(40)]
    for name in files:
        wait(lambda name=name: worker.published(name), wanted)
        wait(lambda name=name: worker.states(name), ["RUNNING"])
    assert worker.process_of("one-0") == worker.process_of("two-0") == kept


def test_tasks_of_a_slot_that_is_frozen_start_in_another_and_it_writes_nothing_when_it_wakes(
    worker: SlotWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker.slot(0)
    worker.slot(1)
    file = worker.lines("lines")
    file.write_text("".join(f"line {number}\n" for number in range(10)))
    wait(lambda: len(worker.published("lines")) > 3, True)
    frozen = worker.process_of("lines-0")
    os.kill(frozen, signal.SIGSTOP)
    monkeypatch.setattr(pool, "_SILENT_S", 3.0)
    with file.open("a") as more:
        more.writelines(f"line {number}\n" for number in range(10, 30))
    wanted = [f"line {number}" for number in range(30)]
    wait(lambda: worker.published("lines"), wanted)
    assert worker.process_of("lines-0") != frozen
    os.kill(frozen, signal.SIGCONT)
    (process,) = [each for each in worker.processes if each.pid == frozen]
    assert process.wait(30) == 1  # so that Spark starts it again
    assert worker.published("lines") == wanted


def test_a_slot_that_comes_late_gets_tasks_of_the_full_one_and_the_others_go_on(
    worker: SlotWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_PATIENCE_S", 0.2)
    monkeypatch.setattr(pool, "_QUIET_S", 0.5)
    worker.slot(0)
    for name in ("a", "b", "c"):
        worker.lines(name)
        wait(lambda name=name: worker.states(name), ["RUNNING"])
    before = worker.generations()
    assert [len(tasks) for tasks in worker.pool.tasks().values()] == [3]
    worker.slot(1)
    wait(lambda: sorted(map(len, worker.pool.tasks().values())), [1, 2])
    for name in ("a", "b", "c"):
        wait(lambda name=name: worker.states(name), ["RUNNING"])
    (moved,) = worker.pool.tasks()[1]
    after = worker.generations()
    assert [f"{name}-0" for name in before if after[name] != before[name]] == [moved]


def test_a_task_that_takes_requests_is_found_where_it_runs_after_its_slot_was_killed(worker: SlotWorker) -> None:
    worker.slot(0)
    worker.slot(1)
    worker.herder.create({"name": "hook", "connector.class": "WebhookSource", "topic": "hooks"})
    runner = worker.herder.runner("hook")
    wait(lambda: runner.address() is not None, True)
    first = runner.address()
    assert first is not None and httpx2.post(first, content="1").status_code == 200
    os.kill(worker.process_of("hook-0"), signal.SIGKILL)
    wait(lambda: runner.address() not in (None, first), True)
    second = runner.address()
    assert second is not None and httpx2.post(second, content="2").status_code == 200
    assert worker.published("hooks") == ["1", "2"]


def test_a_failure_in_a_slot_is_told_with_its_reason_and_a_restart_goes_on(worker: SlotWorker) -> None:
    worker.slot(0)
    worker.slot(1)
    file = worker.lines("lines")
    file.write_text("one\n")
    wait(lambda: worker.published("lines"), ["one"])
    file.write_text("")  # shorter than what was read
    worker.herder.restart("lines", include_tasks=True, only_failed=False)
    wait(lambda: worker.states("lines"), ["FAILED"])
    failure = worker.herder.runner("lines").failure()
    assert failure is not None and "it was replaced" in failure.trace and "it was replaced" in str(failure.error)
    file.write_text("one\ntwo\n")
    worker.herder.restart("lines", include_tasks=True, only_failed=True)
    wait(lambda: worker.published("lines"), ["one", "two"])


def test_tasks_are_paused_stopped_and_wait_where_there_is_no_slot(worker: SlotWorker) -> None:
    file = worker.lines("lines")
    file.write_text("one\n")
    wait(lambda: worker.states("lines"), ["UNASSIGNED"])
    worker.herder.set_target("lines", TargetState.PAUSED)
    worker.slot(0)
    worker.slot(1)
    wait(lambda: worker.states("lines"), ["PAUSED"])
    assert worker.published("lines") == []
    worker.herder.set_target("lines", TargetState.STARTED)
    wait(lambda: worker.published("lines"), ["one"])
    worker.herder.set_target("lines", TargetState.STOPPED)
    wait(lambda: [len(tasks) for tasks in worker.pool.tasks().values()], [0, 0])
    wait(lambda: str(worker.herder.runner("lines").status.state), "STOPPED")
