"""Where topics begin that are read from their end: where that was when they were first seen."""

from __future__ import annotations

import dataclasses

import pytest
from tests.unit.runtime.planner_scene import Scene

from hayase import Consumed, Serdes, StreamsBuilder
from hayase.core.errors import CheckpointError
from hayase.core.offset_reset import AutoOffsetReset
from hayase.core.records import TopicPartition
from hayase.log.protocol import OutputBatch
from hayase.runtime.epochs.start_offsets import POSITIONS_FOLDER, forget_positions, record_positions, recorded_offsets

LATEST = {"in": AutoOffsetReset.latest(), "other": AutoOffsetReset.latest()}


def see(scene: Scene, topic: str) -> None:
    record_positions(scene.blobs, scene.log, scene.log.describe([topic]).values(), LATEST, 0)


def put_other(scene: Scene, records: int) -> None:
    writer = scene.log.writer()
    writer.append([OutputBatch("other", [b"k"] * records, [b"v"] * records, [1] * records)])
    writer.close()


def both() -> object:
    builder = StreamsBuilder()
    text = Consumed.with_(Serdes.string(), Serdes.string())
    builder.stream("in", text).merge(builder.stream("other", text)).foreach(print)
    return builder.build()


def test_records_between_the_match_and_the_first_epoch_are_read(scene: Scene) -> None:
    first = scene.planner(resets=LATEST)
    scene.put(1)
    assert first.next_epoch(-1) == 0  # keeps where it began
    assert first.next_epoch(0) == 0
    put_other(scene, 3)
    see(scene, "other")
    put_other(scene, 4)
    topology = both()
    later = scene.planner(topology=topology, plan=scene.plan_of(topology), resets=LATEST)  # type: ignore[arg-type]
    assert later.next_epoch(0) == 1
    assert sum(end - start for start, end in later.record(1).ranges["other"].values()) == 4


def test_a_topic_that_was_matched_is_recorded_by_an_epoch_of_its_own_though_nothing_is_new(scene: Scene) -> None:
    first = scene.planner(resets=LATEST)
    assert first.next_epoch(-1) == 0
    assert first.next_epoch(0) == 0
    put_other(scene, 3)
    topology = both()
    later = scene.planner(topology=topology, plan=scene.plan_of(topology), resets=LATEST)  # type: ignore[arg-type]
    assert later.next_epoch(0) == 1
    assert later.record(1).records == 0
    assert set(later.record(1).ranges) == {"in", "other"}


@pytest.mark.parametrize("topic_id", ["/HaYAtfCTUOYYMEWmxzq+g", "Ha//tfCTUOYYMEWmxzq+gw", "../AtfCTUOYYMEWmxzq+gw"])
def test_the_place_of_a_topic_is_kept_whatever_its_id_is(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, topic_id: str
) -> None:
    (info,) = scene.log.describe(["other"]).values()
    monkeypatch.setattr(scene.log, "describe", lambda names: {"other": dataclasses.replace(info, topic_id=topic_id)})
    see(scene, "other")
    put_other(scene, 3)
    places = [TopicPartition("other", number) for number in range(2)]
    assert recorded_offsets(scene.blobs, scene.log, places) == dict.fromkeys(places, 0)
    forget_positions(scene.blobs, [topic_id])
    assert not scene.blobs.list(POSITIONS_FOLDER)


def test_the_first_look_counts_and_a_topic_made_anew_is_another_one(scene: Scene) -> None:
    put_other(scene, 3)
    see(scene, "other")
    (before,) = scene.blobs.list(POSITIONS_FOLDER)
    kept = scene.blobs.get(before)
    put_other(scene, 4)
    see(scene, "other")
    assert scene.blobs.get(before) == kept
    scene.log.delete_topic("other")
    scene.log.create_topic("other", 2)
    see(scene, "other")
    assert len(scene.blobs.list(POSITIONS_FOLDER)) == 2
    forget_positions(scene.blobs, [before.removeprefix(POSITIONS_FOLDER)])
    assert before not in scene.blobs.list(POSITIONS_FOLDER)


def test_nothing_is_kept_of_topics_that_are_read_from_their_beginning(scene: Scene) -> None:
    record_positions(
        scene.blobs, scene.log, scene.log.describe(["other"]).values(), {"other": AutoOffsetReset.earliest()}, 0
    )
    assert scene.blobs.list(POSITIONS_FOLDER) == []


def test_a_damaged_position_is_named(scene: Scene) -> None:
    see(scene, "in")
    (kept,) = scene.blobs.list(POSITIONS_FOLDER)
    path = scene.folder / "checkpoint" / kept
    data = path.read_bytes()
    for damaged in (b"", data[:10], data.replace(b":", b";", 1), data.replace(b"0", b"1", 1)):
        path.unlink()
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=kept) as raised:
            recorded_offsets(scene.blobs, scene.log, [TopicPartition("in", 0)])
        assert raised.value.condition == "POSITION_CORRUPT"
