"""Statuses of the planner: how often they are published."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from hayase.runtime.epochs.status_reports import STATUS_EVERY_S, StatusReports
from hayase.runtime.wire.planner_control import PlannerControl, PlannerStatus


class Scene:
    def __init__(self, folder: Path) -> None:
        self.now_s = 100.0
        self.control = PlannerControl(folder)
        self.reports = StatusReports(self.control, lambda: self.now_s)

    def epoch(self) -> int:
        data = self.control.status()
        assert data is not None
        return msgspec.json.decode(data, type=PlannerStatus).epoch


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_statuses_of_epochs_that_follow_each_other_are_published_at_intervals(scene: Scene) -> None:
    seen = []
    for epoch in range(10):
        scene.reports.publish_soon(PlannerStatus(epoch, 0))
        seen.append(scene.epoch())
        scene.now_s += STATUS_EVERY_S / 4
    assert seen == [0, 0, 0, 0, 4, 4, 4, 4, 8, 8]


def test_what_waits_is_published_when_asked_for(scene: Scene) -> None:
    scene.reports.publish_soon(PlannerStatus(1, 0))
    scene.reports.publish_soon(PlannerStatus(2, 0))
    scene.reports.flush()
    assert scene.epoch() == 2


def test_what_waits_does_not_replace_a_later_status(scene: Scene) -> None:
    scene.reports.publish_soon(PlannerStatus(1, 0))
    scene.reports.publish_soon(PlannerStatus(2, 0))
    scene.reports.publish(PlannerStatus(3, 0))
    scene.reports.flush()
    assert scene.epoch() == 3
