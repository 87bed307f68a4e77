"""An application that is killed at the steps of its epochs, and whose topology is another one at each start."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest
from tests.crash.checks import Undisturbed, expect_exactly_once
from tests.crash.conftest import MakeScene
from tests.crash.scene import Failpoint, Scene
from tests.crash.test_kills import application_kills

from hayase.core.failpoints import NAMES, REDO_NAMES
from hayase.query.numbered_plans import plan_numbers
from hayase.storage.open import open_blobs
from hayase.task.epoch_record import Epochs

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1_800)]
Tell = Callable[[Scene, object], None]
MODULE = "tests.crash.changing_app_under_test"


def expect_plans_in_order(scene: Scene) -> None:
    """Plans follow each other in the records, and the last one is in use."""
    blobs = open_blobs(str(scene.checkpoint), fsync=False)
    epochs = Epochs(blobs)
    numbers = [record.plan_number for epoch in epochs.recorded() if (record := epochs.record(epoch)) is not None]
    assert numbers == sorted(numbers) and len({*numbers}) > 1
    assert numbers[-1] == plan_numbers(blobs)[-1]


@pytest.mark.parametrize("seed", [121])
def test_an_application_killed_at_the_switch_to_another_topology_comes_to_the_same_end(
    seed: int, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    scene = make_scene("embedded", seed, MODULE)
    scene.load()
    for kill in (
        Failpoint("before_delta", "kill_app"),
        Failpoint("before_epoch_record", "kill_app"),
        Failpoint("after_epoch_record", "kill_app"),
    ):
        scene.run_until_killed(kill)
        tell(scene, kill)
    scene.run()
    expect_exactly_once(scene, undisturbed)
    expect_plans_in_order(scene)


def expect_redone_when_killed(scene: Scene, undisturbed: Undisturbed, tell: Tell) -> None:
    """An epoch is open, whose program is gone; starts that do it again are killed one after the other."""
    scene.load()
    begun = Failpoint("after_epoch_record", "kill_app", epoch=2)
    scene.run_until_killed(begun)
    tell(scene, begun)
    shutil.rmtree(scene.checkpoint / "programs")
    for name in REDO_NAMES[:3]:
        kill = Failpoint(name, "kill_worker")  # the process of the program: Spark is not there yet
        scene.run_until_killed(kill)
        tell(scene, kill)
    scene.run()
    expect_exactly_once(scene, undisturbed)
    expect_plans_in_order(scene)
    epochs = Epochs(open_blobs(str(scene.checkpoint), fsync=False))
    assert [epoch for epoch in epochs.recorded() if epochs.is_redone(epoch)] == [2]


@pytest.mark.parametrize("seed", [123])
def test_a_start_killed_at_the_steps_of_doing_an_epoch_again_is_followed_by_others_to_the_same_end(
    seed: int, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    expect_redone_when_killed(make_scene("embedded", seed, MODULE), undisturbed, tell)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [124, 125])
def test_an_epoch_is_done_again_on_either_log_whatever_is_killed(
    log_kind: str, seed: int, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    expect_redone_when_killed(make_scene(log_kind, seed, MODULE), undisturbed, tell)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [122])
def test_an_application_killed_at_every_step_with_another_topology_at_each_start_comes_to_the_same_end(
    log_kind: str, seed: int, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    half = len(NAMES) // 2
    for names in (NAMES[:half], NAMES[half:]):
        scene = make_scene(log_kind, seed, MODULE)
        scene.load()
        for kill in application_kills(seed, names):
            scene.run_until_killed(kill)
            tell(scene, kill)
        scene.run()
        expect_exactly_once(scene, undisturbed)
        expect_plans_in_order(scene)
