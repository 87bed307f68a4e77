"""The same application on a Spark cluster, alone and as a topology of a shared runtime beside four others.

Machines are lost and join in mid-epoch, and what comes out does not show it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from tests.crash.checks import Undisturbed, expect_counts, expect_exactly_once, expect_shapes
from tests.crash.conftest import MakeScene
from tests.crash.scene import EPOCHS_MIN, PATIENCE, Failpoint, Scene, kill, wait_for
from tests.crash.spark_cluster import ENCRYPTED, START_S, Machine, SparkCluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900 * PATIENCE)]
Tell = Callable[[Scene, object], None]
ALONE, SHARED = "tests.crash.app_under_test", "tests.crash.shared_app_under_test"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    """Two machines."""
    with SparkCluster(tmp_path / "cluster", 2) as made:
        yield made


@pytest.fixture(params=[ALONE, SHARED])
def module(request: pytest.FixtureRequest) -> str:
    """What runs the application."""
    return str(request.param)


def expect_results(scene: Scene, undisturbed: Undisturbed) -> None:
    """Of the application, and of those beside it."""
    expect_exactly_once(scene, undisturbed)
    if scene.module == SHARED:
        expect_counts(scene)
        expect_shapes(scene)


def on(cluster: SparkCluster, **more: object) -> dict[str, object]:
    """Settings for that cluster; underscores in names stand for dots."""
    where = {
        "spark.master": cluster.master,
        # Executors say when they have been in touch with the driver.
        "spark.executor.syncLogLevel.enabled": "false",
        # No job begins before all are there: else the first one may have done everything by the time the others come.
        "spark.scheduler.minRegisteredResourcesRatio": 1,
        "spark.scheduler.maxRegisteredResourcesWaitingTime": f"{START_S:.0f}s",
    }
    return {**where, **cluster.settings, **{name.replace("_", "."): value for name, value in more.items()}}


def lose(scene: Scene, tell: Tell, machine: Machine, why: str) -> None:
    """Kill everything on a machine at once."""
    tell(scene, f"machine {machine.host} with {len(machine.processes())} processes {why}")
    machine.lose()


@pytest.mark.slow
def test_machines_lost_in_mid_epoch_are_replaced_by_one_that_joins(
    module: str, cluster: SparkCluster, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    """Both machines of the start are lost, one after the other.

    In the end all is done by one that was not there before.
    """
    scene = make_scene("embedded", 71, module, **on(cluster))
    scene.load()
    first, second = Failpoint("after_delta", "pause", 4), Failpoint("before_publish", "pause", EPOCHS_MIN - 3)
    started = scene.start([first, second])

    lost = cluster.machine_of(started.process_at(first))
    assert all(machine.bundles() for machine in cluster.machines)
    lose(scene, tell, lost, f"at {first}")
    new = cluster.add()

    started.process_at(second)
    wait_for(new.runs_tasks, START_S, "the new machine's executor")
    other = next(machine for machine in cluster.machines if machine not in (lost, new))
    lose(scene, tell, other, f"at {second}")
    scene.wake_file.touch()

    assert started.wait() == 0, started.said()
    everything = {path.parent.name for path in scene.checkpoint.glob("changelog/*/*")}
    assert new.bundles() >= everything - {"parts"}
    expect_results(scene, undisturbed)


def test_machines_run_one_epoch_after_the_other_in_one_job(
    module: str, cluster: SparkCluster, make_scene: MakeScene, undisturbed: Undisturbed
) -> None:
    scene = make_scene("embedded", 74, module, **on(cluster))
    scene.load()
    last = Failpoint("before_process", "pause", EPOCHS_MIN - 1)
    started = scene.start([last])
    started.process_at(last)
    batches = list(scene.folder.glob("state/*/run/*/spark-1/offsets/[0-9]*"))
    scene.wake_file.touch()
    assert started.wait() == 0, started.said()
    assert 1 <= len(batches) <= 3 < EPOCHS_MIN
    expect_results(scene, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["before_process", "before_delta", "after_apply", "inside_publish", "after_rows"])
def test_executors_killed_at_every_step_leave_no_trace(
    module: str,
    log_kind: str,
    step: str,
    cluster: SparkCluster,
    make_scene: MakeScene,
    tell: Tell,
    undisturbed: Undisturbed,
) -> None:
    scene = make_scene(log_kind, 72, module, **on(cluster))
    scene.load()
    points = [Failpoint(step, "pause", epoch) for epoch in (3, 6)]
    started = scene.start(points)
    for point in points:
        pid = started.process_at(point)
        machine = cluster.machine_of(pid)
        kill([*machine.executors(), psutil.Process(pid)])
        tell(scene, f"executor on {machine.host} at {point}")
    assert started.wait() == 0, started.said()
    expect_results(scene, undisturbed)


@pytest.mark.slow
def test_threads_and_machines_change_from_start_to_start(
    module: str, cluster: SparkCluster, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    scene = make_scene("embedded", 73, module)
    scene.load()
    places = [on(cluster), on(cluster, num_stream_threads=1), {}, on(cluster, num_stream_threads=3)]
    for number, place in enumerate(places[:-1]):
        scene.changes = place
        scene.run_until_killed(Failpoint("after_publish", "kill_app", 2 + 3 * number))
        tell(scene, f"application with {place or 'local Spark'}")
    cluster.add()
    scene.changes = places[-1]
    scene.run()
    expect_results(scene, undisturbed)


@pytest.mark.slow
def test_machines_that_encrypt_are_lost_and_nothing_shows_it(
    module: str, tmp_path: Path, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    """Nothing goes between tasks and planner but by Spark and the checkpoint."""
    with SparkCluster(tmp_path / "encrypted", 2, ENCRYPTED) as cluster:
        scene = make_scene("embedded", 75, module, **on(cluster))
        scene.load()
        point = Failpoint("before_publish", "pause", 4)
        started = scene.start([point])
        lose(scene, tell, cluster.machine_of(started.process_at(point)), f"at {point}")
        cluster.add()
        assert started.wait() == 0, started.said()
    expect_results(scene, undisturbed)
