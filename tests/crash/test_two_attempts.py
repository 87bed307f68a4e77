"""Two attempts of one bundle at the same time: an orphan of a killed application goes on beside the next start."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from tests.crash.checks import Undisturbed, expect_exactly_once
from tests.crash.conftest import MakeScene
from tests.crash.scene import EPOCHS_MIN, Failpoint, Scene, kill, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
Tell = Callable[[Scene, object], None]
BUNDLES = ("0-0", "0-1", "1-0", "1-1", "2-0", "2-1", "3-0", "3-1")
READY_S = 200


def beside_its_replay(scene: Scene, tell: Tell, undisturbed: Undisturbed, step: str, *, late: bool) -> None:
    """Stop a worker at a step, kill everything around it, start again; wake it beside (or after) its replay."""
    draw = random.Random(scene.seed)
    here = Failpoint(step, "pause_alone", draw.randrange(1, EPOCHS_MIN), draw.choice(BUNDLES))
    scene.load()
    first = scene.start([here])
    wait_for(lambda: first.fired(here) or first.process.poll() is not None, READY_S, str(here))
    assert first.fired(here), first.said()
    orphans = first.workers()
    kill(first.daemons())  # which would end its workers when it misses the JVM
    kill([process for process in first.members() if process not in orphans])
    tell(scene, f"application around the orphan that stands at {step} of epoch {here.epoch}, bundle {here.bundle}")
    assert first.process.wait(20) != 0

    second = scene.start([] if late else [here])
    if late:
        assert second.wait() == 0, second.said()
    else:
        wait_for(lambda: second.fired(here) or second.process.poll() is not None, READY_S, f"replay, {here}")
        assert second.fired(here), second.said()
    assert any(orphan.is_running() for orphan in orphans)
    scene.wake_file.touch()
    assert second.wait() == 0, second.said()
    wait_for(lambda: not any(orphan.is_running() for orphan in orphans), 120, "the end of the orphan")
    expect_exactly_once(scene, undisturbed)


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.parametrize("seed", [21])
def test_two_attempts_at_the_same_step_write_once(
    seed: int, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    beside_its_replay(make_scene("kafka", seed), tell, undisturbed, "inside_publish", late=False)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["before_process", "before_delta", "before_publish"])
@pytest.mark.parametrize("seed", [22])
def test_two_attempts_at_every_step_write_once(
    log_kind: str, step: str, seed: int, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    beside_its_replay(make_scene(log_kind, seed), tell, undisturbed, step, late=False)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["before_delta", "before_apply", "before_publish"])
@pytest.mark.parametrize("seed", [23])
def test_an_orphan_that_wakes_when_all_is_done_changes_nothing(
    log_kind: str, step: str, seed: int, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    beside_its_replay(make_scene(log_kind, seed), tell, undisturbed, step, late=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [24])
def test_a_jvm_that_outlives_its_driver_for_a_moment_does_no_harm_to_the_next_start(
    log_kind: str, seed: int, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    scene = make_scene(log_kind, seed)
    scene.load()
    for epochs in (3, 6):
        kill_driver_after(scene, epochs)
        tell(scene, f"driver alone after {scene.done_epochs()} epochs")
    scene.run()
    expect_exactly_once(scene, undisturbed)


def kill_driver_after(scene: Scene, epochs: int) -> None:
    """Start, wait for that many epochs, and kill only the Python driver."""
    started = scene.start()
    wait_for(lambda: scene.done_epochs() >= epochs or started.process.poll() is not None, READY_S, f"{epochs} epochs")
    assert started.process.poll() is None, started.said()
    started.process.kill()
