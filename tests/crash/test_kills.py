"""Workers, the planner and whole applications are killed at every step of an epoch.

Nothing is lost, nothing comes twice.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from tests.crash.checks import Undisturbed, expect_exactly_once
from tests.crash.conftest import MakeScene
from tests.crash.scene import EPOCHS_MIN, Failpoint, Scene

from hayase.core.failpoints import NAMES

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
Tell = Callable[[Scene, object], None]

PLANNER = ("before_epoch_record", "after_epoch_record", "before_done", "after_done")
WORKER = tuple(name for name in NAMES if name not in PLANNER)


def worker_kills(seed: int) -> list[Failpoint]:
    """One kill at every step of a bundle, each in an epoch of its own."""
    chosen = random.Random(seed).sample(range(1, EPOCHS_MIN), len(WORKER))
    return [Failpoint(name, "kill_worker", epoch) for name, epoch in zip(WORKER, chosen, strict=True)]


def application_kills(seed: int, names: tuple[str, ...], action: str = "kill_app") -> list[Failpoint]:
    """The application, or its planner, is killed at these steps one after the other, each in a later epoch."""
    chosen = sorted(random.Random(seed).sample(range(1, EPOCHS_MIN), len(names)))
    return [Failpoint(name, action, epoch) for name, epoch in zip(names, chosen, strict=True)]


def kill_workers(scene: Scene, tell: Tell, undisturbed: Undisturbed) -> None:
    """Run once, with a kill at every step."""
    scene.load()
    kills = worker_kills(scene.seed)
    scene.run(kills)
    for kill in kills:
        tell(scene, kill)
    expect_exactly_once(scene, undisturbed)


def kill_application(scene: Scene, tell: Tell, undisturbed: Undisturbed, names: tuple[str, ...]) -> None:
    """Start again and again; each start but the last ends at one of the steps."""
    scene.load()
    for kill in application_kills(scene.seed, names):
        scene.run_until_killed(kill)
        tell(scene, kill)
    scene.run()
    expect_exactly_once(scene, undisturbed)


@pytest.mark.parametrize("seed", [1])
def test_workers_killed_at_every_step_leave_no_trace(
    log_kind: str, seed: int, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    kill_workers(make_scene(log_kind, seed), tell, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_workers_killed_at_every_step_leave_no_trace_again(
    log_kind: str, seed: int, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    kill_workers(make_scene(log_kind, seed), tell, undisturbed)


@pytest.mark.parametrize("seed", [11])
def test_an_application_killed_again_and_again_comes_to_the_same_end(
    seed: int, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    kill_application(make_scene("embedded", seed), tell, undisturbed, ("after_publish", "after_epoch_record"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [12])
def test_an_application_killed_at_every_step_comes_to_the_same_end(
    log_kind: str, seed: int, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    half = len(NAMES) // 2
    for names in (NAMES[:half], NAMES[half:]):
        kill_application(make_scene(log_kind, seed), tell, undisturbed, names)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [13])
def test_a_planner_that_is_killed_again_and_again_is_replaced_in_the_running_application(
    seed: int, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    scene = make_scene("embedded", seed)
    scene.load()
    kills = application_kills(seed, PLANNER, "kill_worker")
    scene.run(kills)
    for kill in kills:
        tell(scene, kill)
    expect_exactly_once(scene, undisturbed)
