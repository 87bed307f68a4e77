"""Planners that were stopped for long and go on beside the run that took over: nothing is begun twice."""

from __future__ import annotations

import time

import msgspec
import pytest
from tests.unit.runtime.planner_scene import Scene

from hayase.core.errors import CheckpointError, LeaseHeldError
from hayase.core.records import TopicPartition
from hayase.runtime.epochs import record_retention
from hayase.runtime.epochs.planner import EpochPlanner
from hayase.runtime.epochs.record_retention import FLOOR_FOLDER, Floor
from hayase.runtime.epochs.terms import begin_term
from hayase.task.epoch_record import done_name, record_name


def go_on(scene: Scene, planner: EpochPlanner, after: int, epochs: int) -> int:
    for _ in range(epochs):
        scene.put(after + 1)
        after = planner.next_epoch(after)
    return after


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few records are kept."""
    monkeypatch.setattr(record_retention, "RECORDS_KEPT", 3)
    monkeypatch.setattr(record_retention, "_FLOOR_STEP", 2)


@pytest.mark.usefixtures("short")
def test_an_epoch_that_was_forgotten_is_not_begun_again(scene: Scene) -> None:
    frozen = scene.planner(term=1)
    after = go_on(scene, frozen, -1, 3)
    last = go_on(scene, scene.planner(term=2), after, 20)
    assert scene.blobs.get(record_name(after + 1)) is None  # forgotten
    assert last > after + 1
    with pytest.raises(LeaseHeldError) as refused:
        frozen.next_epoch(after)
    assert refused.value.condition == "LEASE_LOST"
    assert scene.blobs.get(record_name(after + 1)) is None


def test_a_planner_finds_that_its_epoch_was_run_by_another(scene: Scene) -> None:
    frozen = scene.planner(term=1)
    after = go_on(scene, frozen, -1, 1)
    go_on(scene, scene.planner(term=2), after, 3)
    with pytest.raises(LeaseHeldError) as refused:
        frozen.next_epoch(after)
    assert refused.value.condition == "LEASE_LOST"
    assert "term 2" in refused.value.message


def test_an_open_epoch_of_an_earlier_term_is_finished(scene: Scene) -> None:
    begun = go_on(scene, scene.planner(term=1), -1, 1)
    assert scene.planner(term=2).next_epoch(begun - 1) == begun


@pytest.mark.usefixtures("short")
def test_the_floor_is_there_before_the_first_record_goes(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    gone: list[int] = []
    delete = scene.blobs.delete

    def watched(name: str) -> None:
        if name.startswith("epochs/") and not name.endswith(".done"):
            gone.append(int(name.removeprefix("epochs/")))
            assert Floor(scene.blobs, "L").get() >= gone[-1]
        delete(name)

    monkeypatch.setattr(scene.blobs, "delete", watched)
    last = go_on(scene, scene.planner(), -1, 12)
    assert gone == list(range(last - 1 - 3 + 1))
    assert len(scene.blobs.list(FLOOR_FOLDER)) == 2  # and the lineage


def test_every_start_has_a_higher_term_and_one_is_kept(scene: Scene) -> None:
    assert [begin_term(scene.blobs) for _ in range(3)] == [1, 2, 3]
    assert len(scene.blobs.list("terms/")) == 1


def test_a_done_mark_of_another_record_is_refused(scene: Scene) -> None:
    planner = scene.planner()
    epoch = go_on(scene, planner, -1, 1)
    scene.blobs.put_if_absent(done_name(epoch), b"0" * 32)
    with pytest.raises(CheckpointError) as refused:
        planner.next_epoch(epoch)
    assert refused.value.condition == "EPOCH_RECORD_CORRUPT"


def test_a_record_that_does_not_follow_the_one_before_is_refused(scene: Scene) -> None:
    planner = scene.planner()
    first = go_on(scene, planner, -1, 1)
    second = go_on(scene, planner, first, 1)
    record = planner.record(second)
    scene.blobs.delete(record_name(second))
    scene.blobs.put_if_absent(record_name(second), msgspec.structs.replace(record, previous="0" * 32).to_bytes())
    with pytest.raises(CheckpointError) as refused:
        scene.planner().next_epoch(first)
    assert refused.value.condition == "EPOCH_RECORD_CORRUPT"


def started_over(scene: Scene) -> None:
    """As `hayase app reset` and a start of another run do."""
    for name in (*scene.blobs.list("epochs/"), *scene.blobs.list(FLOOR_FOLDER)):
        scene.blobs.delete(name)
    Floor(scene.blobs, "M").begin()


def test_a_run_of_before_a_reset_begins_no_epoch_of_the_new_checkpoint(scene: Scene) -> None:
    frozen = scene.planner(term=1)
    after = go_on(scene, frozen, -1, 3)
    assert frozen.next_epoch(after) == after  # it is complete, and marked as that
    started_over(scene)
    scene.put(99)
    with pytest.raises(LeaseHeldError) as refused:
        frozen.next_epoch(after)
    assert refused.value.condition == "LEASE_LOST" and "started over" in refused.value.message
    assert scene.blobs.list("epochs/") == []


def test_a_run_of_before_a_reset_marks_no_epoch_of_the_new_checkpoint_as_done(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen = scene.planner(term=1)
    after = go_on(scene, frozen, -1, 1)
    started_over(scene)
    now = time.monotonic()
    monkeypatch.setattr(record_retention.time, "monotonic", lambda: now + 60)
    with pytest.raises(LeaseHeldError, match="started over"):
        frozen.next_epoch(after)
    assert scene.blobs.list("epochs/") == []


@pytest.mark.usefixtures("short")
def test_a_record_that_was_created_below_the_floor_and_left_there_is_deleted(scene: Scene) -> None:
    planner = scene.planner(term=1)
    last = go_on(scene, planner, -1, 20)
    data = scene.blobs.get(record_name(last))
    assert data is not None
    scene.blobs.put_if_absent(record_name(0), data)
    go_on(scene, scene.planner(term=2), last, 3)
    assert scene.blobs.get(record_name(0)) is None


def test_two_runs_that_begin_at_once_never_have_one_term(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    assert begin_term(scene.blobs) == 1
    put = scene.blobs.put_if_absent
    others: list[int] = []

    def frozen_before(name: str, data: bytes) -> bool:
        if not others:
            others.append(0)
            others.extend((begin_term(scene.blobs), begin_term(scene.blobs)))
        return put(name, data)

    monkeypatch.setattr(scene.blobs, "put_if_absent", frozen_before)
    with pytest.raises(LeaseHeldError) as refused:
        begin_term(scene.blobs)
    assert others == [0, 2, 3] and refused.value.condition == "LEASE_LOST"
    assert begin_term(scene.blobs) == 4


@pytest.mark.long
def test_input_that_a_later_run_has_purged_does_not_count_as_lost(scene: Scene) -> None:
    frozen = scene.planner(term=1)
    after = go_on(scene, frozen, -1, 1)
    assert (begin_term(scene.blobs), begin_term(scene.blobs)) == (1, 2)
    scene.put(50, 51, 52, 53)
    partitions = [TopicPartition("in", number) for number in range(2)]
    scene.log.delete_records(scene.log.end_offsets(partitions))
    time.sleep(1.1)  # the log is asked for its first offsets once a second
    with pytest.raises(LeaseHeldError, match="removed by a later run") as refused:
        frozen.next_epoch(after, settle=False)
    assert refused.value.condition == "LEASE_LOST"
