"""When the program that was started takes the place of the one before, to which something was left."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.runtime.planner_scene import Scene

from hayase.app import topic_changes
from hayase.app.topic_changes import TopicChanges
from hayase.app.unread_records import DRAIN_TIMEOUT_S
from hayase.core.config import StreamsConfig
from hayase.core.errors import CheckpointError, ProcessingError
from hayase.runtime.wire.planner_control import PlannerControl


class Emptying:
    """A run whose first program empties a topic; the planner is played here."""

    def __init__(self, scene: Scene, now: list[float]) -> None:
        self.now = now
        self.control, self.planner = scene.control, PlannerControl(scene.folder / "control")
        self.replaced: list[Any] = []
        self.next = scene.app
        runner: Any = SimpleNamespace(
            run=SimpleNamespace(control=self.control), replace=lambda shipped, blobs: self.replaced.append(shipped)
        )
        first = dataclasses.replace(scene.app, drains=frozenset({"app-again-repartition"}))
        self.first = first
        self.control.request_change(True)
        self.changes = TopicChanges(
            scene.app.topology, StreamsConfig({"application.id": "app"}), scene.blobs, runner, lambda: self.next,
            first, watch=False,
        )  # fmt: skip

    def drained(self) -> None:
        assert self.planner.suspend_requested()
        self.planner.publish_suspended()


@pytest.fixture
def emptying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Emptying]:
    scene, now = Scene(tmp_path), [0.0]
    monkeypatch.setattr(topic_changes.time, "monotonic", lambda: now[0])
    yield Emptying(scene, now)
    scene.close()


def test_the_started_program_goes_on_when_the_one_before_has_emptied_the_topics(emptying: Emptying) -> None:
    emptying.planner.publish_ready()
    assert not emptying.changes.due()
    emptying.drained()
    assert emptying.changes.due()
    emptying.changes.take()
    assert emptying.replaced == [emptying.next]
    assert not emptying.changes.due()


def test_the_one_before_goes_on_as_long_as_something_is_left_to_it(emptying: Emptying) -> None:
    emptying.next = emptying.first
    emptying.drained()
    emptying.changes.take()
    emptying.control.forget_planner()
    assert not emptying.changes.due()
    emptying.drained()
    assert emptying.changes.due()


def test_a_topic_that_is_not_emptied_in_time_is_named(emptying: Emptying) -> None:
    emptying.now[0] = 1_000.0
    assert not emptying.changes.due(), "the time until the planner is up does not count"
    emptying.planner.publish_ready()
    emptying.now[0] += DRAIN_TIMEOUT_S - 1
    emptying.control.request_pause(True)
    assert not emptying.changes.due(), "neither does a pause"
    emptying.now[0] += DRAIN_TIMEOUT_S + 1
    assert not emptying.changes.due()
    emptying.control.request_pause(False)
    assert not emptying.changes.due()
    emptying.now[0] += DRAIN_TIMEOUT_S + 1
    with pytest.raises(CheckpointError, match="'app-again-repartition' within 60 s") as raised:
        emptying.changes.due()
    assert raised.value.condition == "UNREAD_INTERNAL_RECORDS"


def test_an_error_of_the_program_before_says_that_it_is_its(emptying: Emptying) -> None:
    error = ProcessingError("PROCESSING_FAILED", "ValueError: no number", node="parse")
    emptying.changes.explain(error)
    assert "It is the program before that failed: it has to empty app-again-repartition before" in error.message
    emptying.changes.take()
    error = ProcessingError("PROCESSING_FAILED", "ValueError: no number", node="parse")
    emptying.changes.explain(error)
    assert error.message == "ValueError: no number"
