"""Topics of an application when it starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hayase import Consumed, Serdes, StreamsBuilder, Topology
from hayase.app.topics import prepare_topics, resets_of
from hayase.compiler.options import configured
from hayase.core.config import StreamsConfig
from hayase.core.offset_reset import AutoOffsetReset
from hayase.core.records import TopicPartition
from hayase.log.open import open_log
from hayase.log.protocol import Log, LogConfig, OutputBatch

FED, DRAINED = "app-clicks-from-spark", "app-archive-to-spark"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    opened = open_log(LogConfig("embedded", str(tmp_path / "log"), {"fsync": "false"}))
    yield opened
    opened.close()


def through_spark() -> Topology:
    def no_frame(spark: Any) -> Any:
        raise AssertionError

    def no_write(frame: Any, number: int) -> None:
        raise AssertionError

    builder = StreamsBuilder()
    builder.from_spark("clicks", no_frame, Consumed.with_(Serdes.string())).to_spark("archive", no_write)
    return configured(builder.build(), StreamsConfig({"application.id": "app"}))


def left_in(log: Log, topic: str) -> int:
    where = TopicPartition(topic, 0)
    return log.end_offsets([where])[where] - log.start_offsets([where])[where]


def test_what_topics_of_frames_hold_before_the_first_start_is_of_another_life_and_goes(log: Log) -> None:
    prepare_topics(log, through_spark(), first=True)
    writer = log.writer()
    for topic in (FED, DRAINED):
        writer.append([OutputBatch(topic, [b"k"], [b"v"], [0])])
    writer.close()
    prepare_topics(log, through_spark(), first=False)
    assert [left_in(log, topic) for topic in (FED, DRAINED)] == [1, 1]
    prepare_topics(log, through_spark(), first=True)
    assert [left_in(log, topic) for topic in (FED, DRAINED)] == [0, 0]


def test_a_fed_topic_is_read_from_its_beginning_because_it_is_written_before_the_first_epoch() -> None:
    assert resets_of(through_spark(), AutoOffsetReset.latest())[FED] == AutoOffsetReset.earliest()
