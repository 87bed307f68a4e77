"""A shared runtime of five topologies whose workers, planner and whole process are killed at the steps of its epochs.

What each of them writes and keeps is what it does alone, undisturbed.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable

import pytest
from tests.crash.checks import Undisturbed, expect_counts, expect_drained, expect_exactly_once, expect_shapes
from tests.crash.conftest import MakeScene
from tests.crash.scene import RUN_TIMEOUT_S, Scene, wait_for
from tests.crash.test_alone import AWAY_S, PROCESSES
from tests.crash.test_kills import PLANNER, application_kills, worker_kills

from hayase.core.failpoints import NAMES
from hayase.log.protocol import OPEN_TRANSACTION_MAX_S

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1_800)]
Tell = Callable[[Scene, object], None]
MODULE = "tests.crash.shared_app_under_test"


ROUNDS = {"epoch.span.max.ms": 0}
"""Settings with which each Spark job is one round."""
DRAINING = "tests.crash.draining_app_under_test"


def expect_all(scene: Scene, undisturbed: Undisturbed) -> None:
    """What each of the five topologies has to have done."""
    expect_exactly_once(scene, undisturbed)
    expect_counts(scene)
    expect_shapes(scene)


def kill_workers(scene: Scene, tell: Tell, undisturbed: Undisturbed) -> None:
    scene.load()
    kills = worker_kills(scene.seed)
    scene.run(kills)
    for kill in kills:
        tell(scene, kill)
    expect_all(scene, undisturbed)


def kill_runtime(scene: Scene, tell: Tell, undisturbed: Undisturbed, names: tuple[str, ...]) -> None:
    scene.load()
    for kill in application_kills(scene.seed, names):
        scene.run_until_killed(kill)
        tell(scene, kill)
    scene.run()
    expect_all(scene, undisturbed)


@pytest.mark.parametrize("seed", [101])
def test_workers_killed_at_every_step_leave_no_trace(
    seed: int, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    kill_workers(make_scene("embedded", seed, MODULE), tell, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [102, 103, 104, 105])
def test_workers_killed_at_every_step_leave_no_trace_again(
    log_kind: str, seed: int, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    kill_workers(make_scene(log_kind, seed, MODULE), tell, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [106])
def test_workers_killed_at_every_step_of_rounds_leave_no_trace(
    log_kind: str, seed: int, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    kill_workers(make_scene(log_kind, seed, MODULE, **ROUNDS), tell, undisturbed)


@pytest.mark.parametrize("seed", [111])
def test_a_runtime_killed_again_and_again_comes_to_the_same_end(
    seed: int, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    kill_runtime(make_scene("embedded", seed, MODULE), tell, undisturbed, ("after_publish", "after_delta"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [112])
def test_a_runtime_killed_at_every_step_comes_to_the_same_end(
    log_kind: str, seed: int, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    half = len(NAMES) // 2
    for names in (NAMES[:half], NAMES[half:]):
        kill_runtime(make_scene(log_kind, seed, MODULE), tell, undisturbed, names)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [114])
def test_a_runtime_killed_at_every_step_of_rounds_comes_to_the_same_end(
    seed: int, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    half = len(NAMES) // 2
    for names in (NAMES[:half], NAMES[half:]):
        kill_runtime(make_scene("embedded", seed, MODULE, **ROUNDS), tell, undisturbed, names)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [113])
def test_a_planner_that_is_killed_again_and_again_is_replaced(
    log_kind: str, seed: int, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    scene = make_scene(log_kind, seed, MODULE)
    scene.load()
    kills = application_kills(seed, PLANNER, "kill_worker")
    scene.run(kills)
    for kill in kills:
        tell(scene, kill)
    expect_all(scene, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [115])
def test_processes_of_a_runtime_that_stand_still_for_a_while_lose_nothing(
    log_kind: str, seed: int, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    """A worker for longer than transactions may be open."""
    scene = make_scene(log_kind, seed, MODULE, **{"max.records.per.epoch": 3})  # enough epochs for all of them
    scene.load()
    started = scene.start()
    for who in random.Random(seed).sample(list(PROCESSES), len(PROCESSES)):
        seen = scene.done_epochs()
        wait_for(lambda seen=seen: scene.done_epochs() > seen + 2, RUN_TIMEOUT_S, "epochs")  # type: ignore[misc]
        process = PROCESSES[who](started)
        process.send_signal(signal.SIGSTOP)
        tell(scene, f"{who} stands still")
        time.sleep(OPEN_TRANSACTION_MAX_S + 5 if who == "a worker" else AWAY_S)
        process.send_signal(signal.SIGCONT)
    assert started.wait() == 0, started.said()
    expect_all(scene, undisturbed)


def kill_while_draining(scene: Scene, tell: Tell, names: tuple[str, ...]) -> None:
    """Each start has a topology without the internal topic of the one before, or with it."""
    scene.load()
    for kill in application_kills(scene.seed, names):
        scene.run_until_killed(kill)
        tell(scene, kill)
    scene.run()
    expect_drained(scene)


def draining(make_scene: MakeScene, log_kind: str, seed: int, *, shared: bool) -> Scene:
    small_epochs = {"max.records.per.epoch": 20}
    return make_scene(log_kind, seed, DRAINING, **small_epochs, **({"app.shared": True} if shared else {}))


@pytest.mark.slow
def test_a_topology_killed_while_it_empties_its_internal_topic_for_another_one_loses_nothing(
    make_scene: MakeScene, tell: Tell
) -> None:
    scene = draining(make_scene, "embedded", 131, shared=True)
    kill_while_draining(scene, tell, ("after_publish", "before_delta", "after_done"))


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("seed", [132])
def test_a_topology_killed_at_every_step_while_internal_topics_are_emptied_loses_nothing(
    log_kind: str, seed: int, shared: bool, make_scene: MakeScene, tell: Tell
) -> None:
    half = len(NAMES) // 2
    for names in (NAMES[:half], NAMES[half:]):
        kill_while_draining(draining(make_scene, log_kind, seed, shared=shared), tell, names)
