"""Kills while the checkpoint is on an S3 store."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from tests.crash.checks import Undisturbed, expect_exactly_once
from tests.crash.conftest import MakeScene
from tests.crash.scene import Failpoint, Scene
from tests.crash.test_kills import kill_workers

from hayase.testing.s3_server import S3Server

pytestmark = [pytest.mark.spark, pytest.mark.s3, pytest.mark.timeout(900)]
Tell = Callable[[Scene, object], None]


@pytest.fixture
def scene(make_scene: MakeScene, s3_server: S3Server) -> Scene:
    """On the embedded log, with a folder of the store that nobody else uses."""
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
def test_workers_killed_at_every_step_leave_no_trace_on_s3_either(
    scene: Scene, tell: Tell, undisturbed: Undisturbed
) -> None:
    kill_workers(scene, tell, undisturbed)
