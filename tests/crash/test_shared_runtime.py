"""A shared runtime whose workers, planner and whole process are killed at the steps of its epochs.

What one of its topologies writes and keeps is what it does alone, undisturbed.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.crash.checks import Undisturbed, expect_counts, expect_exactly_once
from tests.crash.conftest import MakeScene
from tests.crash.scene import Scene
from tests.crash.test_kills import PLANNER, application_kills, worker_kills

from hayase.core.failpoints import NAMES

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1_800)]
Tell = Callable[[Scene, object], None]
MODULE = "tests.crash.shared_app_under_test"


def kill_workers(scene: Scene, tell: Tell, undisturbed: Undisturbed) -> None:
    scene.load()
    kills = worker_kills(scene.seed)
    scene.run(kills)
    for kill in kills:
        tell(scene, kill)
    expect_exactly_once(scene, undisturbed)
    expect_counts(scene)


def kill_runtime(scene: Scene, tell: Tell, undisturbed: Undisturbed, names: tuple[str, ...]) -> None:
    scene.load()
    for kill in application_kills(scene.seed, names):
        scene.run_until_killed(kill)
        tell(scene, kill)
    scene.run()
    expect_exactly_once(scene, undisturbed)
    expect_counts(scene)


@pytest.mark.parametrize("seed", [101])
def test_workers_killed_at_every_step_leave_no_trace(
    seed: int, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    kill_workers(make_scene("embedded", seed, MODULE), tell, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [102, 103])
def test_workers_killed_at_every_step_leave_no_trace_again(
    log_kind: str, seed: int, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    kill_workers(make_scene(log_kind, seed, MODULE), tell, undisturbed)


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
    expect_exactly_once(scene, undisturbed)
    expect_counts(scene)
