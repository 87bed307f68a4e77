"""Each process is killed, or stopped for a while, alone.

The application ends with an error or goes on, and lets go of all it had.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from tests.crash import input as given
from tests.crash.checks import Undisturbed, expect_exactly_once
from tests.crash.conftest import MakeScene
from tests.crash.scene import PATIENCE, Failpoint, Scene, Started, kill, wait_for
from tests.crash.test_at_any_time import expect_end, running

from hayase.app.run_status import RUNS
from hayase.runtime.driver.lease import lease_holder
from hayase.storage.open import open_blobs

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
Tell = Callable[[Scene, object], None]
WITHIN_S = 30.0
AWAY_S = 6.0

PROCESSES: dict[str, Callable[[Started], psutil.Process]] = {
    "the JVM": lambda started: started.jvm(),
    "the driver": lambda started: psutil.Process(started.process.pid),
    "the planner": lambda started: started.planner(),
    "the daemon": lambda started: started.daemons()[0],
    "a worker": lambda started: started.workers()[0],
}
ENDS = ("the JVM", "the driver")
"""Without these the application ends; it goes on without any of the others."""


def expect_all_is_let_go(scene: Scene, started: Started) -> None:
    """No process is left, the lease is free, and memory is given back.

    The folder of a run is removed unless its driver died.
    """
    wait_for(lambda: not started.members(), WITHIN_S, "the end of all processes")
    assert lease_holder(open_blobs(str(scene.checkpoint), fsync=False)) is None


def expect_an_error(scene: Scene, started: Started) -> None:
    assert "SPARK_DIED" in started.said()
    assert "killed by SIGKILL" in started.said()
    assert list((scene.folder / "state" / scene.name / RUNS).iterdir()) == []


def kill_alone(scene: Scene, started: Started, who: str, tell: Tell, when: str) -> None:
    """Kill one process. If that ends the application, it ends in time, and nothing of it is left."""
    kill([PROCESSES[who](started)])
    tell(scene, f"{who} alone, {when}")
    if who in ENDS:
        assert started.wait(WITHIN_S * PATIENCE) != 0
        expect_all_is_let_go(scene, started)
        if who == "the JVM":
            expect_an_error(scene, started)


def at_work(epoch: int) -> Failpoint:
    """A bundle that hangs in the middle of an epoch, as user code may."""
    return Failpoint("before_delta", "pause", epoch)


def test_a_driver_a_jvm_and_a_daemon_killed_alone_at_work_leave_nothing_behind(
    make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    """One after the other, each while a worker hangs in user code."""
    scene = make_scene("embedded", 71)
    scene.load()
    for who, epoch in (("the driver", 1), ("the JVM", 2)):
        started = scene.start([at_work(epoch)])
        started.process_at(at_work(epoch))
        kill_alone(scene, started, who, tell, "at work")
    started = scene.start([at_work(3)])
    hanging = started.process_at(at_work(3))
    kill_alone(scene, started, "the daemon", tell, "at work")
    wait_for(lambda: not psutil.pid_exists(hanging), WITHIN_S, "the end of the worker whose daemon died")
    assert started.wait() == 0, started.said()
    expect_exactly_once(scene, undisturbed)


@pytest.mark.slow
def test_where_the_handler_says_so_a_jvm_that_was_killed_is_replaced_by_another(
    make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    scene = make_scene("embedded", 76, "tests.crash.replaced_app_under_test")
    scene.load()
    started = scene.start([at_work(2)])
    hanging = started.process_at(at_work(2))
    first = started.jvm()
    kill([first])
    tell(scene, "the JVM alone, replaced")
    assert started.wait() == 0, started.said()
    assert started.said().count("asked about [SPARK_DIED]") == 1
    assert not psutil.pid_exists(hanging)
    expect_exactly_once(scene, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("who", PROCESSES)
def test_a_process_killed_alone_at_rest_ends_the_application_or_is_replaced(
    who: str, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    scene = make_scene("embedded", 72)
    everything = given.records()
    scene.load(everything[:300])
    started = running(scene)
    at_rest(scene)
    kill_alone(scene, started, who, tell, "at rest")
    scene.load(everything[300:])
    expect_end(scene, started if who not in ENDS else running(scene))
    expect_exactly_once(scene, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("who", [who for who in PROCESSES if who not in ENDS])
def test_a_process_killed_alone_at_work_is_replaced(
    who: str, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    scene = make_scene("embedded", 73)
    scene.load()
    started = scene.start([at_work(4)])
    started.process_at(at_work(4))
    if who == "a worker":
        kill(started.workers())
    else:
        kill_alone(scene, started, who, tell, "at work")
    scene.wake_file.touch()
    assert started.wait() == 0, started.said()
    expect_exactly_once(scene, undisturbed)


@pytest.mark.slow
def test_a_standby_killed_alone_is_started_again(make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed) -> None:
    scene = make_scene("embedded", 74, **{"num.standby.replicas": 1})
    everything = given.records()
    scene.load(everything[:300])
    started = running(scene)
    standby = standby_of(started)
    kill([standby])
    tell(scene, "a standby alone")
    wait_for(lambda: standby_of(started).pid != standby.pid, WITHIN_S, "another standby")
    scene.load(everything[300:])
    expect_end(scene, started)
    expect_exactly_once(scene, undisturbed)


def standby_of(started: Started) -> psutil.Process:
    """It has a session of its own, so it is found by its parent."""
    found: list[psutil.Process] = []

    def look() -> bool:
        children = psutil.Process(started.process.pid).children()
        alive = [each for each in children if each.status() != psutil.STATUS_ZOMBIE]
        found[:] = [each for each in alive if "hayase.query.standby" in each.cmdline()]
        return bool(found)

    wait_for(look, WITHIN_S, "a standby")
    return found[0]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [75])
def test_processes_that_stand_still_for_a_while_lose_nothing(
    seed: int, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    scene = make_scene("embedded", seed)
    everything = given.records()
    scene.load(everything[:200])
    started = running(scene)
    names = random.Random(seed).sample(list(PROCESSES), len(PROCESSES))
    for number, who in enumerate(names):
        start = 200 + number * 150
        process = PROCESSES[who](started)
        scene.load(everything[start : start + 75])
        process.send_signal(signal.SIGSTOP)
        tell(scene, f"{who} stands still")
        scene.load(everything[start + 75 : start + 150])
        time.sleep(AWAY_S)
        process.send_signal(signal.SIGCONT)
    scene.load(everything[200 + 150 * len(names) :])
    expect_end(scene, started)
    expect_exactly_once(scene, undisturbed)


def at_rest(scene: Scene) -> None:
    """No epoch has completed for a second."""
    marks = Path(scene.checkpoint) / "epochs"
    seen: list[str] = []
    since = [time.monotonic()]

    def quiet() -> bool:
        names = sorted(path.name for path in marks.iterdir())
        if names != seen:
            seen[:], since[0] = names, time.monotonic()
        return time.monotonic() - since[0] > 1

    wait_for(quiet, 60, "an epoch that is followed by none")
