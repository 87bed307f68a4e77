"""Looking at an application, and pausing it, from outside.

A process that holds the lease stands in for the application.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hayase import State, StreamsConfig
from hayase.app.report import ProgressReport
from hayase.app.run_status import (
    RUNS,
    RunStatus,
    RunTold,
    application_status,
    leave_note,
    note_of_end,
    pause_application,
    resume_application,
)
from hayase.cli.main import run_cli
from hayase.core.errors import ProcessingError, StreamsStoppedError
from hayase.runtime.driver.lease import FileLease
from hayase.runtime.wire.driver_control import DriverControl
from hayase.runtime.wire.planner_control import PlannerControl

REPORT = ProgressReport(State.RUNNING, 3, 2, 100, 40, 1, 2, 1, 7)


@pytest.fixture
def config(tmp_path: Path) -> StreamsConfig:
    return StreamsConfig({"application.id": "shop", "state.dir": tmp_path, "log.dir": tmp_path / "log"})


@pytest.fixture
def control(config: StreamsConfig) -> Iterator[DriverControl]:
    """Of a running application."""
    folder = config.state_dir / "shop" / RUNS / "one"
    folder.mkdir(parents=True)
    with FileLease(Path(config.checkpoint_dir), "shop"):
        yield DriverControl(folder)


@pytest.fixture
def planner_control(config: StreamsConfig, control: DriverControl) -> PlannerControl:
    return PlannerControl(config.state_dir / "shop" / RUNS / "one")


def test_an_application_that_never_ran_is_not_running_and_nothing_is_made(config: StreamsConfig) -> None:
    found = application_status(config)
    assert (found.running, found.run, found.finished_epoch) == (False, None, -1)
    assert not (config.state_dir / "shop").exists()


def test_a_running_one_says_how_far_it_is(config: StreamsConfig, control: DriverControl) -> None:
    RunTold(control).say(lambda: RunStatus.of(REPORT, 0))
    found = application_status(config)
    assert found.running
    assert found.holder.startswith("pid ")
    assert found.run is not None
    assert (found.run.state, found.run.consumed, found.run.lag_records) == ("RUNNING", 100, 7)


def test_it_is_told_at_most_twice_a_second_and_only_when_something_changed(tmp_path: Path) -> None:
    now = [0.0]
    control = DriverControl(tmp_path)
    told = RunTold(control, lambda: now[0])
    told.say(lambda: RunStatus("RUNNING"))
    told.say(lambda: RunStatus("RUNNING", epochs=1))
    assert json.loads(control.run() or b"")["epochs"] == 0
    now[0] = 0.6
    told.say(lambda: RunStatus("RUNNING", epochs=1))
    assert json.loads(control.run() or b"")["epochs"] == 1


def test_how_the_last_run_ended_is_known_afterwards(config: StreamsConfig) -> None:
    (config.state_dir / "shop").mkdir()
    leave_note(config, note_of_end(REPORT, 2, ProcessingError("PROCESSING_FAILED", "why", node="N")))
    run = application_status(config).run
    assert run is not None
    assert (run.error, run.replaced) == ("[PROCESSING_FAILED] why (node N)", 2)


def test_a_pause_is_answered_by_the_planner_and_taken_back_by_resume(
    config: StreamsConfig, planner_control: PlannerControl
) -> None:
    assert not pause_application(config, timeout_s=0)
    assert application_status(config).paused

    def planner() -> None:
        assert planner_control.suspend_requested()
        planner_control.publish_suspended()

    thread = threading.Thread(target=planner)
    thread.start()
    assert pause_application(config, timeout_s=30)
    thread.join()
    assert application_status(config).holding
    assert resume_application(config)
    assert not resume_application(config)
    assert not application_status(config).paused


def test_what_was_said_about_an_earlier_pause_is_no_answer_to_a_new_one(
    control: DriverControl, planner_control: PlannerControl
) -> None:
    control.request_pause(True)
    planner_control.suspend_requested()
    control.request_pause(False)
    planner_control.publish_suspended()  # too late: it is on its way on already
    control.request_pause(True)
    assert not control.suspended()


def test_a_stop_holds_although_somebody_resumes(control: DriverControl, planner_control: PlannerControl) -> None:
    control.request_pause(True)
    control.request_stop()
    control.request_pause(False)
    assert planner_control.suspend_requested()
    planner_control.publish_suspended()
    assert control.suspended()


def test_what_does_not_run_cannot_be_paused(config: StreamsConfig) -> None:
    with pytest.raises(StreamsStoppedError, match="is not running on this machine") as refused:
        pause_application(config, timeout_s=1)
    assert refused.value.condition == "NOT_RUNNING"


@pytest.mark.long
def test_looking_does_not_keep_an_application_from_starting(config: StreamsConfig) -> None:
    checkpoint = Path(config.checkpoint_dir)
    with FileLease(checkpoint, "shop"):
        pass
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            application_status(config)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for _ in range(200):
            with FileLease(checkpoint, "shop"):
                pass
    finally:
        stop.set()
        thread.join()


def test_commands_take_the_id_of_an_application_too(
    config: StreamsConfig, control: DriverControl, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["-c", f"state.dir={config.state_dir}"]
    assert run_cli(["app", "status", "shop", *where]) == 0
    assert capsys.readouterr().out.startswith("application 'shop' is ")
    assert run_cli(["app", "pause", "shop", "--timeout", "0", *where]) == 0 and control.pause_requested()
    assert run_cli(["app", "resume", "shop", *where]) == 0 and not control.pause_requested()
    assert run_cli(["app", "status", "shpo", *where]) == 1
    assert "no application 'shpo'" in capsys.readouterr().err


def test_what_failed_before_its_first_epoch_is_counted_in_the_list_and_shown_on_demand(
    config: StreamsConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(config.checkpoint_dir, "epochs").mkdir(parents=True)
    Path(config.checkpoint_dir, "plan.json").write_bytes(b"{}")
    failed = ProgressReport(State.ERROR, 0, -1, 0, 0, 0, 0, 0, None)
    leave_note(config, note_of_end(failed, 0, ProcessingError("PROCESSING_FAILED", "bad")))
    where = ["-c", f"state.dir={config.state_dir}"]
    assert run_cli(["app", "list", *where]) == 0
    shown = capsys.readouterr()
    assert shown.out == "" and "`hayase app reset shop` removes what is left" in shown.err
    assert run_cli(["app", "list", "--all", *where]) == 0
    assert capsys.readouterr().out.startswith("shop\tnot running")
