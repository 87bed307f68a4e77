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

from hayase.log.protocol import LogConfig
from hayase.testing.kafka_broker import PATIENT, KafkaBroker

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(900)]
AWAY_S = 90.0
"""Longer than the clients' own timeouts."""


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
            wait_for(lambda: bool(said_waiting(scene)), 90, "a status that says what is waited for")
            time.sleep(AWAY_S)
            assert started.process.poll() is None, started.said()
            broker.start()
            expect_end(scene, started)
            assert "is started again" not in started.said(), "the query was replaced"
            expect_exactly_once(scene, undisturbed)
        finally:
            scene.close()
