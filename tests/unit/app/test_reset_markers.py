"""`hayase app reset --markers-only` does not let records of a repartition be counted twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.runtime.planner_scene import Scene

from hayase import Consumed, Repartitioned, Serdes, StreamsBuilder, Topology, count
from hayase.app.checkpoint import fix_plan
from hayase.app.reset import forget_markers
from hayase.compiler.options import configured
from hayase.core.config import StreamsConfig
from hayase.core.errors import CheckpointError
from hayase.log.protocol import Marker, OutputBatch

CONFIG = StreamsConfig({"application.id": "app"})
TOPIC = "app-again-repartition"


def repartitioned() -> Topology:
    builder = StreamsBuilder()
    given = builder.stream("in", Consumed.with_(Serdes.string(), Serdes.string()))
    given.repartition(Repartitioned.as_("again").with_number_of_partitions(2)).group_by_key().agg(n=count())
    return configured(builder.build(), CONFIG)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.close()


@pytest.fixture
def config(scene: Scene) -> StreamsConfig:
    """Of an application that has written one record to its repartition topic, and read it."""
    topology = repartitioned()
    assert list(topology.internal_topics) == [TOPIC]
    scene.log.create_topic(TOPIC, 2)
    plan = scene.plan_of(topology)
    fix_plan(scene.blobs, "app", plan.to_json(), new_names=False)
    write(scene)
    assert scene.planner(topology=topology, plan=plan).next_epoch(-1) == 0
    scene.log.writer().publish_epoch("app", "0", Marker("L", 5, "d"), [])
    return StreamsConfig({"application.id": "app", "checkpoint.dir": str(scene.folder / "checkpoint")})


def write(scene: Scene) -> None:
    writer = scene.log.writer()
    writer.append([OutputBatch(TOPIC, [b"k"], [b"v"], [1])])
    writer.close()


def test_markers_stay_where_records_of_later_epochs_would_be_counted_twice(scene: Scene, config: StreamsConfig) -> None:
    write(scene)
    with pytest.raises(CheckpointError, match=TOPIC) as raised:
        forget_markers(config, scene.log)
    assert raised.value.condition == "INTERNAL_TOPIC_AHEAD" and "1 records" in raised.value.message
    assert scene.log.markers("app", wait=False)


def test_markers_go_where_nothing_was_written_since(scene: Scene, config: StreamsConfig) -> None:
    forget_markers(config, scene.log)
    assert not scene.log.markers("app", wait=False)
