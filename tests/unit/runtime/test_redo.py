"""An open epoch is given up, as far as it comes before any program goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.runtime.planner_scene import Scene

from hayase.core.errors import CheckpointError, LeaseHeldError, StateError
from hayase.core.records import TopicPartition
from hayase.log.protocol import Marker
from hayase.runtime.epochs.redo import redo_epoch
from hayase.state.changelog.redone_epochs import REDO_FOLDER, RedoneEpochs
from hayase.task.epoch_record import Epochs, done_name


def begin(scene: Scene) -> None:
    """Epoch 0 is done, epoch 1 is open."""
    scene.put(1, 2)
    planner = scene.planner(term=1)
    planner.next_epoch(-1)
    scene.put(3, 4, 5)
    planner.next_epoch(0)


def redo(scene: Scene, *, exactly_once: bool = True) -> None:
    record = Epochs(scene.blobs).record(1)
    assert record is not None
    redo_epoch(scene.blobs, scene.log, "app", record, ["0-0"], exactly_once=exactly_once)


def test_the_next_epoch_begins_where_the_redone_one_began(scene: Scene) -> None:
    begin(scene)
    redo(scene)
    before = scene.planner(term=1).record(1)
    changed = scene.planner(plan_number=1, term=2)
    assert changed.last_done() == 1
    assert changed.next_epoch(1) == 2
    record = changed.record(2)
    assert record.previous == before.digest
    for number, (start, end) in before.ranges["in"].items():
        assert record.ranges["in"][number] == (start, end)
    assert scene.log.group_offsets("app") == {
        TopicPartition("in", number): start for number, (start, _) in before.ranges["in"].items() if start
    }, "what is redone is not committed"
    changed.next_epoch(2)
    assert Epochs(scene.blobs).is_redone(1) and not Epochs(scene.blobs).is_redone(2)


def test_the_planner_that_began_it_does_not_mark_it_as_done(scene: Scene) -> None:
    scene.put(1)
    planner = scene.planner(term=1)
    planner.next_epoch(-1)
    scene.put(2)
    planner.next_epoch(0)
    redo(scene)
    with pytest.raises(LeaseHeldError, match="epoch 1 is done again by another program"):
        planner.next_epoch(1)


def test_an_epoch_that_its_planner_has_marked_as_done_is_not_redone(scene: Scene) -> None:
    begin(scene)
    record = Epochs(scene.blobs).record(1)
    assert record is not None
    scene.blobs.put_if_absent(done_name(1), record.digest.encode())
    with pytest.raises(LeaseHeldError, match="was finished by another run"):
        redo(scene)
    assert not Epochs(scene.blobs).is_redone(1)


def test_a_marker_of_the_epoch_is_in_the_way_only_where_outputs_come_exactly_once(scene: Scene) -> None:
    begin(scene)
    writer = scene.log.writer()
    writer.publish_epoch("app", "0-0", Marker("L", 1, "d"), [])
    writer.close()
    with pytest.raises(CheckpointError, match="bundle 0-0 has published outputs of it") as refused:
        redo(scene)
    assert refused.value.condition == "OPEN_EPOCH_OF_ANOTHER_PLAN"
    assert not scene.blobs.list(REDO_FOLDER), "nothing was begun"
    redo(scene, exactly_once=False)
    assert Epochs(scene.blobs).is_redone(1)


def test_an_epoch_is_closed_again_only_where_it_was_opened(scene: Scene) -> None:
    redone = RedoneEpochs(scene.blobs)
    assert [redone.close(3), redone.close(3)] == [0, 0] and redone.is_closed(3)
    assert not redone.decide(3, 0, redone=False)
    assert not redone.is_closed(3) and redone.decision(3) is False
    assert not redone.decide(3, 0, redone=True), "what was decided first holds"
    assert redone.close(3) == 1 and redone.is_closed(3) and redone.decision(3) is None
    assert redone.decide(3, 1, redone=True) and redone.close(3) == 1
    assert redone.without([2, 3, 4]) == [2, 4]


def test_what_is_undecided_is_looked_at_again(scene: Scene) -> None:
    redone, other = RedoneEpochs(scene.blobs), RedoneEpochs(scene.blobs)
    redone.close(3)
    assert 3 not in other
    redone.decide(3, 0, redone=True)
    assert 3 in other


def test_a_closure_that_is_gone_does_not_make_its_epoch_count_again(scene: Scene) -> None:
    redone = RedoneEpochs(scene.blobs)
    redone.decide(3, redone.close(3), redone=True)
    scene.blobs.delete(f"{REDO_FOLDER}{3:020d}-000000")
    with pytest.raises(StateError) as raised:
        RedoneEpochs(scene.blobs).without([2, 3, 4])
    assert raised.value.condition == "REDO_DECISION_CORRUPT"


def test_a_decision_that_is_damaged_is_an_error(scene: Scene) -> None:
    redone = RedoneEpochs(scene.blobs)
    redone.decide(3, redone.close(3), redone=True)
    name = Path(scene.app.checkpoint) / f"{REDO_FOLDER}{3:020d}-000000.decision"
    name.write_bytes(name.read_bytes()[:-1])
    with pytest.raises(Exception, match="REDO_DECISION_CORRUPT"):
        redone.is_closed(3)
