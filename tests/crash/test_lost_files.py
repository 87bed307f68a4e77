"""Files that are deleted or damaged while an application is down, or under it."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest
from tests.crash.checks import (
    Sequences,
    Undisturbed,
    by_key,
    expect_event_ids,
    expect_exactly_once,
    expect_group_sums,
    expect_running_sums,
)
from tests.crash.conftest import MakeScene
from tests.crash.scene import Failpoint, Scene, kill, wait_for

from hayase.app.reset import forget_markers
from hayase.core.config import StreamsConfig

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
Tell = Callable[[Scene, object], None]


def delete_state(scene: Scene) -> None:
    """All local state."""
    shutil.rmtree(scene.local_state)


def truncate_state(scene: Scene) -> None:
    """Every environment loses its second half."""
    files = list(scene.local_state.glob("*/data.mdb"))
    assert files
    for path in files:
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size // 2)


def damage_spark_log(scene: Scene) -> None:
    """Spark's own log of epochs, wherever it is."""
    files = [path for path in scene.folder.glob("**/spark-*/*/*") if path.parent.name in ("offsets", "commits")]
    assert files
    for path in files:
        path.write_bytes(b"v1\n{damaged")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [31])
def test_lost_state_and_a_damaged_spark_log_are_rebuilt_from_the_checkpoint(
    seed: int, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    scene = make_scene("embedded", seed)
    scene.load()
    for damages, step, epoch in (
        ((delete_state,), "after_delta", 4),
        ((truncate_state, damage_spark_log), "before_rows", 8),
    ):
        point = Failpoint(step, "kill_app", epoch)
        started = scene.run_until_killed(point)
        tell(scene, f"{point}, then {', '.join(damage.__name__ for damage in damages)}")
        started.end()
        for damage in damages:
            damage(scene)
    scene.run()
    expect_exactly_once(scene, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [32])
def test_a_spark_log_damaged_under_a_running_application_does_no_harm(
    seed: int, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    scene = make_scene("embedded", seed)
    scene.load()
    here, later = Failpoint("before_publish", "pause", 5), Failpoint("after_publish", "kill_app", 9)
    started = scene.start([here, later])
    wait_for(lambda: started.fired(here), 200, str(here))
    damage_spark_log(scene)
    scene.wake_file.touch()
    assert started.wait() != 0
    tell(scene, f"{later}, Spark's log damaged in epoch {here.epoch}")
    kill(started.members())
    scene.run()
    expect_exactly_once(scene, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [33])
def test_a_new_checkpoint_under_an_old_application_id_is_refused_until_the_log_forgets_the_old_one(
    seed: int, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    """Once the markers are given up, everything is processed from the start.

    So the output topics hold what the old run wrote, and behind it one complete new sequence; the stores, whose files
    are still those of the old run, are emptied first, so they hold the new sequence only.
    """
    scene = make_scene("embedded", seed)
    scene.load()
    point = Failpoint("before_publish", "kill_app", 7)
    started = scene.run_until_killed(point)
    tell(scene, f"{point}, then a new checkpoint")
    started.end()
    shutil.rmtree(scene.checkpoint)
    old = {topic: by_key(scene.output(topic)) for topic in ("noisy", "noise", "groups", *undisturbed.outputs)}
    assert old["noisy"]
    refused = scene.start()
    assert refused.wait() == 1 and "APPLICATION_ID_IN_USE" in refused.said()
    forget_markers(StreamsConfig(scene.settings), scene.log)
    scene.run()

    new = {topic: behind(before, by_key(scene.output(topic))) for topic, before in old.items()}
    assert {topic: new[topic] for topic in undisturbed.outputs} == undisturbed.outputs
    assert {name: scene.store(name) for name in undisturbed.stores} == undisturbed.stores
    expect_event_ids(new["noisy"])
    expect_running_sums(new["noisy"], new["noise"], scene.store("noise"))
    expect_group_sums(new["noisy"], new["groups"], scene.store("groups"))


def behind(old: Sequences, all_of_it: Sequences) -> Sequences:
    """What comes behind the old sequences."""
    for key, values in old.items():
        assert all_of_it[key][: len(values)] == values
    return {key: values[len(old.get(key, ())) :] for key, values in all_of_it.items()}
