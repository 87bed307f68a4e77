"""A worker whose step makes no progress is ended, and says where it was.

One that makes progress is left alone, however slow it is.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hayase.core.errors import ProcessingError
from hayase.core.steps import STEPS, asking, at_work, moved
from hayase.runtime.wire.failure import query_failure
from hayase.runtime.wire.step_hung import find_hung
from hayase.runtime.worker.watchdog import FAULT_DIR, Watchdog

LIMIT_S = 10.0


class Scene:
    """A watchdog with a clock that is set by hand, and a process that cannot die."""

    def __init__(self, folder: Path) -> None:
        self.now = 0.0
        self.kills: list[float] = []
        self.dog = Watchdog(LIMIT_S, kill=lambda: self.kills.append(self.now), monotonic=lambda: self.now)
        self.folder = folder

    def look_for(self, seconds: float, between: Callable[[], object] = lambda: None) -> None:
        """As its thread does: a look a second."""
        until = self.now + seconds
        while self.now < until and not self.kills:
            self.now += 1
            between()
            self.dog.look()


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setenv(FAULT_DIR, str(tmp_path))
    made = Scene(tmp_path)
    yield made
    made.dog._cancel_timer()


def test_a_step_without_a_sign_of_life_is_ended_after_the_interval(scene: Scene) -> None:
    with at_work("0-1", 7):
        scene.look_for(100)
    assert LIMIT_S <= scene.kills[0] <= LIMIT_S + 2


def test_who_waits_for_the_worker_is_told_before_it_ends(scene: Scene) -> None:
    told: list[tuple[str, int]] = []

    def say(error: str) -> None:
        told.append((error, len(scene.kills)))
        raise OSError

    scene.dog.on_hung = say
    with at_work("0-1", 7):
        scene.look_for(100)
    ((error, kills),) = told
    assert "STEP_HUNG" in error and (kills, len(scene.kills)) == (0, 1)


def test_signs_of_life_keep_a_step_alive_for_ever(scene: Scene) -> None:
    with at_work("0-1", 7):
        scene.look_for(100, moved)
    assert not scene.kills


def test_the_timer_takes_the_limit_of_the_topology_whose_step_begins(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers: list[float] = []
    monkeypatch.setattr(faulthandler, "dump_traceback_later", lambda seconds, **_: timers.append(seconds))
    scene.dog.start()
    try:
        with at_work("0-1", 7):
            pass
        scene.dog.set_limit(4.0)
        scene.dog.set_limit(4.0)
        with at_work("0-1", 8):  # it may keep Python's lock from here on, so that no look comes any more
            pass
    finally:
        scene.dog.stop()
    assert timers == [1.25 * LIMIT_S + 1, 1.25 * 4 + 1]


def test_many_short_steps_are_no_long_one(scene: Scene) -> None:
    def next_step() -> None:
        STEPS.step = None
        with at_work("0-1", 7):
            scene.dog.look()

    for _ in range(100):
        scene.now += 1
        next_step()
    assert not scene.kills


def test_a_worker_that_waits_for_its_next_step_is_left_alone(scene: Scene) -> None:
    scene.look_for(100)
    assert not scene.kills


def test_calls_that_give_up_by_themselves_are_given_the_time_for_it(scene: Scene) -> None:
    with at_work("0-1", 7), asking():
        scene.look_for(100)
        assert not scene.kills
        scene.look_for(100)
    assert scene.kills


def test_time_that_the_process_was_stopped_is_not_held_against_it(scene: Scene) -> None:
    with at_work("0-1", 7):
        scene.look_for(3)
        scene.now += 3_600
        scene.look_for(3)
    assert not scene.kills


def a_program(folder: Path, hang: str) -> Path:
    """A worker that hangs in a function of its program."""
    path = folder / "shop.py"
    path.write_text(f"""
import ctypes, time

def price(order):
    {hang}

from hayase.core.steps import at_work
from hayase.runtime.wire.step_hung import find_hung
from hayase.runtime.worker.watchdog import Watchdog

Watchdog(2.0).start()
with at_work("0-1", 7):
    price(1)
""")
    return path


def end_of(program: Path, folder: Path) -> tuple[int, str, str]:
    """Exit code of a worker, what it left for Spark, and what it said."""
    account = folder / "accounts"
    account.mkdir()
    start = f"import os, runpy; open({str(account)!r} + '/' + str(os.getpid()), 'w'); "
    run = f"runpy.run_path({str(program)!r}, run_name='__main__')"
    process = subprocess.Popen(
        [sys.executable, "-c", start + run],
        env={FAULT_DIR: str(account), "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        stderr=subprocess.PIPE,
    )
    _, said = process.communicate(timeout=60)
    return process.returncode, (account / str(process.pid)).read_text(), said.decode()


@pytest.mark.long
def test_the_timer_leaves_its_account_where_the_pool_of_a_shared_runtime_finds_it(tmp_path: Path) -> None:
    own = tmp_path / "own"
    program = a_program(tmp_path, "ctypes.PyDLL(None).sleep(100)")
    given = program.read_text().replace(
        "Watchdog(2.0)", f"Watchdog(2.0, account=__import__('pathlib').Path({str(own)!r}))"
    )
    program.write_text(given)
    code, sparks, _ = end_of(program, tmp_path)
    error = find_hung(own.read_text())
    assert (code, sparks) == (1, "")
    assert error is not None and "shop.py:5 in price" in error.message


@pytest.mark.long
def test_the_error_names_bundle_epoch_file_and_line_and_all_stacks_are_logged(tmp_path: Path) -> None:
    program = a_program(tmp_path, "time.sleep(100)")
    began = time.monotonic()
    code, account, said = end_of(program, tmp_path)
    assert code == -9
    assert time.monotonic() - began < 30
    error = query_failure(f"Python worker exited unexpectedly (crashed): {account}", tmp_path / "spark.log")
    assert isinstance(error, ProcessingError)
    assert error.condition == "STEP_HUNG"
    assert error.context == {"bundle": "0-1", "epoch": "7"}
    assert f"{program}:5 in price" in error.message
    assert "max.poll.interval.ms" in error.message
    assert "2000 ms" in error.message
    assert "thread MainThread" in said
    assert "hayase-watchdog" not in said


@pytest.mark.long
def test_a_call_that_keeps_pythons_lock_is_ended_too(tmp_path: Path) -> None:
    """As a C extension does that does not let go of it: no thread of Python's runs meanwhile."""
    program = a_program(tmp_path, "ctypes.PyDLL(None).sleep(100)")
    code, account, _ = end_of(program, tmp_path)
    assert code == 1
    error = query_failure(f"Python worker exited unexpectedly (crashed): {account}", tmp_path / "spark.log")
    assert error.condition == "STEP_HUNG"
    assert error.context == {"bundle": "0-1", "epoch": 7}
    assert f"{program}:5 in price" in error.message


@pytest.mark.long
def test_a_worker_that_was_stopped_for_longer_than_the_timer_is_ended_with_an_error_that_says_so(
    tmp_path: Path,
) -> None:
    program = a_program(tmp_path, "print(flush=True); time.sleep(100)")
    account = tmp_path / "accounts"
    account.mkdir()
    start = f"import os, runpy; open({str(account)!r} + '/' + str(os.getpid()), 'w'); "
    run = f"runpy.run_path({str(program)!r}, run_name='__main__')"
    process = subprocess.Popen(
        [sys.executable, "-c", start + run], env={FAULT_DIR: str(account)}, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.8)  # the thread has looked, and does not set the timer again
    process.send_signal(signal.SIGSTOP)
    time.sleep(4.0)  # the timer is set to 3.5 s
    process.send_signal(signal.SIGCONT)
    assert process.wait(30) == 1
    said = (account / str(process.pid)).read_text()
    error = query_failure(f"Python worker exited unexpectedly (crashed): {said}", tmp_path / "spark.log")
    assert error.condition == "STEP_HUNG"
    assert "unless the whole process was stopped" in error.message


def test_a_crash_of_a_worker_is_not_taken_for_a_step_that_hung(tmp_path: Path) -> None:
    text = "crashed): hayase step: bundle 0-1, epoch 7, interval 300 s\nFatal Python error: Segmentation fault\n"
    assert query_failure(text, tmp_path / "spark.log").condition == "SPARK_FAILED"


@pytest.mark.long
def test_slow_records_are_progress_one_by_one(tmp_path: Path) -> None:
    """Each takes most of the interval, all together many times as long; expressions with Python inside are the same."""
    path = tmp_path / "slow.py"
    path.write_text("""
import time
import polars as pl
from hayase.core.steps import at_work
from hayase.runtime.wire.step_hung import find_hung
from hayase.runtime.worker.watchdog import Watchdog

def price(order):
    time.sleep(0.6)
    return order

Watchdog(1.0).start()
with at_work("0-1", 7):
    pl.select(pl.Series([1, 2, 3, 4]).map_elements(price, return_dtype=pl.Int64))
""")
    assert end_of(path, tmp_path)[0] == 0
