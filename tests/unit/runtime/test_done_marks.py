"""Done marks that were deleted are put back at a start."""

from __future__ import annotations

import logging

import pytest
from tests.unit.runtime.planner_scene import Scene

from hayase.core.errors import CheckpointError, LeaseHeldError
from hayase.runtime.epochs.done_marks import restore_done_marks
from hayase.runtime.epochs.record_retention import Floor
from hayase.task.epoch_record import Epochs, done_name, record_name


@pytest.fixture
def done(scene: Scene) -> Scene:
    """Epochs 0 to 3, the last of which is open."""
    planner, epoch = scene.planner(), -1
    for time_ms in range(4):
        scene.put(time_ms)
        epoch = planner.next_epoch(epoch)
    assert epoch == 3 and Epochs(scene.blobs).last_done() == 2
    return scene


def test_marks_that_were_deleted_are_put_back_and_the_next_run_goes_on(
    done: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    marks = {epoch: done.blobs.get(done_name(epoch)) for epoch in range(3)}
    for epoch in range(3):
        done.blobs.delete(done_name(epoch))
    with caplog.at_level(logging.WARNING):
        assert restore_done_marks(done.blobs, "L") == [0, 1, 2]
    assert {epoch: done.blobs.get(done_name(epoch)) for epoch in range(3)} == marks
    assert done_name(0) in caplog.text
    assert done.planner().last_done() == 2


def test_nothing_is_put_back_where_nothing_is_missing(done: Scene) -> None:
    assert restore_done_marks(done.blobs, "L") == []
    assert Epochs(done.blobs).last_done() == 2


def test_records_that_do_not_follow_each_other_get_no_marks(done: Scene) -> None:
    other = done.blobs.get(record_name(0))
    assert other is not None
    for name in (record_name(1), done_name(0), done_name(1)):
        done.blobs.delete(name)
    done.blobs.put_if_absent(record_name(1), other)
    with pytest.raises(CheckpointError, match="EPOCH_RECORD_CORRUPT"):
        restore_done_marks(done.blobs, "L")


def test_marks_below_the_floor_are_left_alone(done: Scene) -> None:
    Floor(done.blobs, "L").raise_to(1)
    for epoch in range(3):
        done.blobs.delete(done_name(epoch))
    assert restore_done_marks(done.blobs, "L") == [2]


def test_a_start_that_stood_still_while_another_run_deleted_records_has_lost_its_lease(
    done: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    done.blobs.delete(done_name(0))
    listed = Epochs.marked

    def marked_then_deleted(epochs: Epochs) -> set[int]:
        found = listed(epochs)
        done.blobs.delete(record_name(1))
        return found

    monkeypatch.setattr(Epochs, "marked", marked_then_deleted)
    with pytest.raises(LeaseHeldError, match="LEASE_LOST"):
        restore_done_marks(done.blobs, "L")
    assert not done.blobs.exists(done_name(0))
