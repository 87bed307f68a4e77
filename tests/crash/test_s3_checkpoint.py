"""Kills while the checkpoint is on an S3 store."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

import msgspec
import pytest
from tests.behaviour.blobs.wire import Wire
from tests.crash import input as given
from tests.crash.checks import Undisturbed, expect_exactly_once
from tests.crash.conftest import MakeScene
from tests.crash.scene import Failpoint, Scene, wait_for
from tests.crash.test_kills import kill_workers

from hayase.app.run_status import RUNS, RunStatus
from hayase.core.records import TopicPartition
from hayase.runtime.wire.driver_control import DriverControl
from hayase.testing.s3_server import S3Server

pytestmark = [pytest.mark.spark, pytest.mark.s3, pytest.mark.timeout(900)]
Tell = Callable[[Scene, object], None]


@pytest.fixture
def scene(make_scene: MakeScene, s3_server: S3Server) -> Scene:
    """On the embedded log, with a folder of the store that no other test uses."""
    checkpoint = s3_server.url("data", f"crash/{uuid.uuid4().hex}")
    return make_scene("embedded", 62, **{"checkpoint.dir": checkpoint})


@pytest.mark.slow
def test_an_application_killed_after_a_delta_was_published_to_s3_goes_on_from_it(
    scene: Scene, tell: Tell, undisturbed: Undisturbed
) -> None:
    """The next start waits until the lease of the one that was killed has run out."""
    scene.load()
    kill = Failpoint("after_delta", "kill_app", 4)
    scene.run_until_killed(kill)
    tell(scene, kill)
    scene.run()
    expect_exactly_once(scene, undisturbed)


@pytest.mark.slow
def test_a_store_that_is_away_for_more_than_a_minute_is_waited_for_and_the_status_says_so(
    make_scene: MakeScene, s3_server: S3Server, undisturbed: Undisturbed
) -> None:
    """Without the wait Spark's four attempts of a task would be used up within the first minute."""
    with Wire(s3_server.endpoint) as wire:
        checkpoint = wire.url(f"crash/{uuid.uuid4().hex}")
        scene = make_scene("embedded", 63, **{"checkpoint.dir": checkpoint})
        everything = given.records()
        scene.load(everything[:200])
        started = scene.start(bounded=False)
        first = TopicPartition(f"{scene.prefix}enriched", 0)
        wait_for(lambda: scene.log.end_offsets([first])[first] > 0, 120, "the first output")
        wire.busy = 1 << 40
        scene.load(everything[200:])
        wait_for(lambda: "503" in said_waiting(scene), 60, "a status that says what is waited for")
        time.sleep(70)
        assert started.process.poll() is None, started.said()
        wire.busy = 0
        wait_for(lambda: not said_waiting(scene), 60, "a status that says that it goes on")
        scene.stop_file.touch()
        assert started.wait() == 0, started.said()
        expect_exactly_once(scene, undisturbed)


def said_waiting(scene: Scene) -> str:
    """What the application says that it waits for."""
    control = DriverControl.of_running(scene.folder / "state" / scene.name / RUNS)
    data = control.run() if control is not None else None
    return msgspec.json.decode(data, type=RunStatus).waiting if data is not None else ""


@pytest.mark.slow
def test_workers_killed_at_every_step_leave_no_trace_on_s3_either(
    scene: Scene, tell: Tell, undisturbed: Undisturbed
) -> None:
    kill_workers(scene, tell, undisturbed)
