"""Brokers that are away while epochs are written."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.crash import input as given
from tests.crash.checks import Undisturbed, expect_exactly_once
from tests.crash.scene import Scene, wait_for
from tests.crash.test_at_any_time import expect_end, running
from tests.crash.test_s3_checkpoint import said_waiting

from hayase.core.errors import LogError
from hayase.log.protocol import LogConfig
from hayase.testing.kafka_broker import PATIENT, KafkaBroker

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(900)]
SAID_S = 200.0
"""The clients wait for a minute before they say that nothing answers."""
AWAY_S = 20.0


@pytest.mark.slow
def test_brokers_that_are_away_for_more_than_a_minute_are_waited_for_and_the_status_says_so(
    tmp_path: Path, undisturbed: Undisturbed
) -> None:
    with KafkaBroker(tmp_path / "broker", heap_mb=256, start_timeout_s=600, extra_config=PATIENT) as broker:
        scene = Scene("away", tmp_path / "scene", LogConfig("kafka", broker.bootstrap_servers), 81)
        try:
            everything = given.records()
            scene.load(everything[:200])
            started = running(scene)
            scene.load(everything[200:])
            broker.stop()
            wait_for(lambda: bool(said_waiting(scene)), SAID_S, "a status that says what is waited for")
            time.sleep(AWAY_S)
            assert started.process.poll() is None, started.said()
            broker.start()
            wait_for(lambda: knows_groups(scene), 120, "a coordinator of groups")
            expect_end(scene, started)
            assert "is started again" not in started.said(), "the query was replaced"
            expect_exactly_once(scene, undisturbed)
        finally:
            scene.close()


def knows_groups(scene: Scene) -> bool:
    """Whether the coordinator of groups has come back after the broker."""
    try:
        scene.log.group_offsets(scene.name)
    except LogError:
        return False
    return True
