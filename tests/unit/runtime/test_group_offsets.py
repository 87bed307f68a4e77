"""Offsets of the consumer group are never set back for long by a run that was stopped while another took over."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.runtime.planner_scene import Scene

from hayase.core.errors import LeaseHeldError, LogError
from hayase.core.records import TopicPartition
from hayase.runtime.epochs.epoch_completion import GroupOffsets
from hayase.runtime.epochs.planner import EpochPlanner
from hayase.runtime.epochs.terms import begin_term
from hayase.task.epoch_record import EpochRecord


def planner_of_new_run(scene: Scene) -> EpochPlanner:
    return scene.planner(term=begin_term(scene.blobs))


def go_on(scene: Scene, planner: EpochPlanner, after: int, epochs: int) -> int:
    for number in range(epochs):
        scene.put(after + 1, number)
        after = planner.next_epoch(after)
    return planner.next_epoch(after)


def committed(scene: Scene) -> dict[TopicPartition, int]:
    return dict(scene.log.group_offsets("app"))


@pytest.mark.long
def test_a_planner_that_was_stopped_before_it_committed_sets_no_offsets_back(scene: Scene) -> None:
    stopped = planner_of_new_run(scene)
    scene.put(1, 2, 3)
    stopped.next_epoch(-1)
    stopped.next_epoch(0, settle=False)
    go_on(scene, planner_of_new_run(scene), 0, 3)
    newest = committed(scene)
    assert newest == {TopicPartition("in", p): end for p, end in scene.ends().items() if end}
    with pytest.raises(LeaseHeldError) as refused:
        stopped.settle_epoch()
    assert refused.value.condition == "LEASE_LOST" and "term 2" in refused.value.message
    assert committed(scene) == newest


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def record(epoch: int, **ranges: tuple[int, int]) -> EpochRecord:
    places = {int(name.removeprefix("p")): between for name, between in ranges.items()}
    return EpochRecord(epoch, "L", "plan", 0, {"in": places}, {})


def test_a_run_looks_for_a_later_one_before_it_commits_unless_it_has_done_so_a_moment_ago(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, looks = Clock(), list[str]()
    listed = scene.blobs.list

    def counted(prefix: str) -> list[str]:
        looks.append(prefix)
        return listed(prefix)

    offsets = GroupOffsets(scene.log, scene.blobs, "app", begin_term(scene.blobs), clock)
    monkeypatch.setattr(scene.blobs, "list", counted)
    for tenth in range(10):
        clock.now_s = tenth / 10
        offsets.commit(record(tenth, p0=(tenth, tenth + 1)))
    assert looks == ["terms/"]
    begin_term(scene.blobs)
    clock.now_s = 1.0
    with pytest.raises(LeaseHeldError, match="LEASE_LOST"):
        offsets.commit(record(10, p0=(10, 11)))
    assert committed(scene) == {TopicPartition("in", 0): 10}


def test_offsets_that_a_late_request_of_another_run_set_back_are_put_right_though_nothing_is_read(scene: Scene) -> None:
    clock = Clock()
    offsets = GroupOffsets(scene.log, scene.blobs, "app", 1, clock)
    offsets.commit(record(0, p0=(5, 5), p1=(0, 3)))  # the first commit of a run says all that is known
    assert committed(scene) == {TopicPartition("in", 0): 5, TopicPartition("in", 1): 3}
    scene.log.commit_group_offsets("app", {TopicPartition("in", 0): 2})
    offsets.commit(record(1, p0=(5, 5), p1=(3, 4)))
    assert committed(scene) == {TopicPartition("in", 0): 2, TopicPartition("in", 1): 4}
    clock.now_s = 60.0
    offsets.commit(record(2, p0=(5, 5), p1=(4, 6)))
    assert committed(scene) == {TopicPartition("in", 0): 5, TopicPartition("in", 1): 6}


def test_a_log_that_refuses_a_commit_is_a_warning_and_everything_is_committed_the_next_time(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    offsets, commit = GroupOffsets(scene.log, scene.blobs, "app", 1, Clock()), scene.log.commit_group_offsets

    def refused(*_: Any) -> None:
        raise LogError("BROKER_UNAVAILABLE", "for this test")

    monkeypatch.setattr(scene.log, "commit_group_offsets", refused)
    offsets.commit(record(0, p0=(0, 5), p1=(0, 3)))
    assert "offsets of epoch 0 were not committed to group app" in caplog.text
    monkeypatch.setattr(scene.log, "commit_group_offsets", commit)
    offsets.commit(record(1, p0=(5, 5), p1=(3, 4)))
    assert committed(scene) == {TopicPartition("in", 0): 5, TopicPartition("in", 1): 4}


def test_what_was_read_between_two_commits_is_committed_whichever_epoch_has_read_it(scene: Scene) -> None:
    offsets = GroupOffsets(scene.log, scene.blobs, "app", 1, Clock())
    offsets.commit(record(0, p0=(0, 1), p1=(0, 1)))
    offsets.commit(record(2, p0=(1, 2), p1=(3, 3)))  # epoch 1 was not committed
    assert committed(scene) == {TopicPartition("in", 0): 2, TopicPartition("in", 1): 3}
