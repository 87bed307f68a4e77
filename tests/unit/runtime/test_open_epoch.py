"""Epochs that were left open, finished by a program with other expressions."""

from __future__ import annotations

import polars as pl
import pytest
from tests.unit.runtime.planner_scene import Scene

from hayase import Consumed, JsonSerde, Serdes, StreamsBuilder, Topology, count
from hayase.core.errors import CheckpointError, SourceRangeLostError
from hayase.log.protocol import Marker
from hayase.runtime.epochs.open_epoch import AMENDMENTS_FOLDER
from hayase.state.changelog.changelog import Changelog
from hayase.state.delta.delta import Delta


def grouped(key: pl.Expr) -> Topology:
    builder = StreamsBuilder()
    given = builder.stream("in", Consumed.with_(Serdes.string(), JsonSerde(schema={"a": pl.Int64})))
    given.select_key(key).group_by_key().agg(n=count())
    return builder.build()


OLD, NEW, OTHER = grouped(pl.col("a")), grouped(pl.col("a") + 1), grouped(pl.col("a") + 2)


def begin(scene: Scene) -> None:
    scene.put(1, 2, 3)
    assert finish(scene, OLD, 1) == 0


def finish(scene: Scene, topology: Topology, term: int) -> int:
    return scene.planner(topology=topology, plan=scene.plan_of(topology), term=term).next_epoch(-1)


def through(scene: Scene) -> None:
    """A bundle that counts has published its delta."""
    record = scene.planner(topology=OLD, plan=scene.plan_of(OLD)).record(0)
    bundle = next(each.id for each in scene.plan_of(OLD).bundles if each.level == 1)
    Changelog(scene.blobs, bundle).publish(Delta("app", "L", bundle, 0, record.digest, -1, ""))


def refused(scene: Scene, topology: Topology, term: int) -> None:
    with pytest.raises(CheckpointError) as caught:
        finish(scene, topology, term)
    assert caught.value.condition == "OPEN_EPOCH_OF_ANOTHER_PROGRAM"
    assert "Start the program with the old ones" in caught.value.message


def test_the_same_expressions_finish_it(scene: Scene) -> None:
    begin(scene)
    through(scene)
    assert finish(scene, OLD, 2) == 0
    assert scene.blobs.list(AMENDMENTS_FOLDER) == []


def test_other_expressions_finish_it_where_no_task_has_processed_their_rows(scene: Scene) -> None:
    begin(scene)
    assert finish(scene, NEW, 2) == 0
    assert finish(scene, OTHER, 3) == 0


def test_other_expressions_are_refused_where_a_task_has_processed_the_rows_of_the_old_ones(scene: Scene) -> None:
    begin(scene)
    through(scene)
    refused(scene, NEW, 2)
    assert finish(scene, OLD, 3) == 0


def test_once_it_was_begun_anew_the_first_expressions_are_the_other_ones(scene: Scene) -> None:
    begin(scene)
    assert finish(scene, NEW, 2) == 0
    through(scene)
    refused(scene, OLD, 3)
    refused(scene, OTHER, 4)
    assert finish(scene, NEW, 5) == 0


def test_a_damaged_amendment_is_named(scene: Scene) -> None:
    begin(scene)
    assert finish(scene, NEW, 2) == 0
    (name,) = scene.blobs.list(AMENDMENTS_FOLDER)
    (scene.folder / "checkpoint" / name).unlink()
    (scene.folder / "checkpoint" / name).write_bytes(b"{")
    with pytest.raises(CheckpointError, match=name) as caught:
        finish(scene, NEW, 3)
    assert caught.value.condition == "EPOCH_RECORD_CORRUPT"


def test_markers_of_tasks_without_state_count_too(scene: Scene) -> None:
    begin(scene)
    bundle = next(each.id for each in scene.plan_of(OLD).bundles if each.level == 1)
    writer = scene.log.writer()
    writer.publish_epoch("app", bundle, Marker("L", 0, "d"), [])
    writer.close()
    refused(scene, NEW, 2)


def test_what_was_published_for_an_open_epoch_goes_when_it_is_done(scene: Scene) -> None:
    begin(scene)
    planner = scene.planner(topology=NEW, plan=scene.plan_of(NEW), term=2)
    assert planner.next_epoch(-1) == 0
    assert len(scene.blobs.list(AMENDMENTS_FOLDER)) == 1
    planner.next_epoch(0)
    assert scene.blobs.list(AMENDMENTS_FOLDER) == []


def test_a_topic_that_was_made_anew_while_the_epoch_was_open_is_not_read_in_its_place(scene: Scene) -> None:
    begin(scene)
    scene.log.delete_topic("in")
    scene.log.create_topic("in", 2)
    scene.put(4, 5, 6)
    with pytest.raises(SourceRangeLostError, match="recreated"):
        finish(scene, OLD, 2)
