"""What a `to_spark` writes under which number."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from hayase.core.errors import CheckpointError, SourceRangeLostError
from hayase.core.records import TopicPartition
from hayase.log.open import open_log
from hayase.log.protocol import LogConfig, OutputBatch
from hayase.runtime.spark_io.published_ranges import SparkRanges
from hayase.storage.open import open_blobs

TOPIC = "app-archive-to-spark"


class Sink:
    """The topic, the checkpoint, and who reads them."""

    def __init__(self, folder: Path) -> None:
        self.log = open_log(LogConfig("embedded", str(folder / "log"), {"fsync": "false"}))
        self.log.create_topic(TOPIC, 2)
        self.blobs = open_blobs(folder / "checkpoint", fsync=False)

    def put(self, *keys: str) -> None:
        with_time = [OutputBatch(TOPIC, [key.encode() for key in keys], [b"v"] * len(keys), [0] * len(keys))]
        writer = self.log.writer()
        writer.append(with_time)
        writer.close()

    def ranges(self, records_max: int = 1_000) -> SparkRanges:
        return SparkRanges(self.blobs, self.log, "archive", TOPIC, records_max)


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[Sink]:
    made = Sink(tmp_path)
    yield made
    made.log.close()


def test_ranges_follow_each_other_without_gaps(sink: Sink) -> None:
    ranges = sink.ranges(records_max=3)
    sink.put(*"abcdefgh")
    found = []
    while (one := ranges.next()) is not None:
        found.append(one)
        ranges.done(one)
    assert [one.number for one in found] == list(range(len(found)))
    assert all(0 < one.records <= 3 for one in found)
    assert sum(one.records for one in found) == 8
    for before, after in pairwise(found):
        assert {p: end for p, (_, end) in before.ranges.items()} == {p: start for p, (start, _) in after.ranges.items()}


def test_files_of_others_are_no_ranges(sink: Sink, tmp_path: Path) -> None:
    sink.put("a")
    sink.ranges().next()
    for name in (".DS_Store", f"{3:020d}~", f"{3:020d} (copy)"):
        (tmp_path / "checkpoint/spark/out/archive" / name).write_text("not ours")
    again = sink.ranges().next()
    assert again is not None and again.number == 0


def test_a_range_that_is_not_done_comes_again_under_its_number_whatever_came_since(sink: Sink) -> None:
    sink.put("a", "b")
    first = sink.ranges().next()
    sink.put("c")
    again = sink.ranges(records_max=1)
    assert first is not None
    assert again.next() == first
    assert again.next() == first
    again.done(first)
    following = again.next()
    assert following is not None and (following.number, following.records) == (1, 1)


def test_nothing_new_is_no_range(sink: Sink) -> None:
    assert sink.ranges().next() is None
    sink.put("a")
    ranges = sink.ranges()
    one = ranges.next()
    assert one is not None
    ranges.done(one)
    assert ranges.next() is None
    assert sink.ranges().next() is None


def test_only_the_last_record_and_mark_are_kept(sink: Sink) -> None:
    ranges = sink.ranges(records_max=1)
    sink.put("a", "b", "c")
    while (one := ranges.next()) is not None:
        ranges.done(one)
    assert [name.rpartition("/")[2] for name in sink.blobs.list("spark/out/archive/")] == [
        "00000000000000000002",
        "00000000000000000002.done",
    ]


def test_what_is_done_can_be_deleted_and_what_comes_is_found_behind_it(sink: Sink) -> None:
    sink.put("a", "b", "c")
    ranges = sink.ranges()
    one = ranges.next()
    assert one is not None
    ranges.done(one)
    ranges.purge(one)
    partitions = [TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)]
    assert sink.log.start_offsets(partitions) == sink.log.end_offsets(partitions)
    sink.put("d")
    following = sink.ranges().next()
    assert following is not None and following.records == 1


def test_records_that_are_gone_before_they_were_written_are_an_error(sink: Sink) -> None:
    sink.put("a", "b", "c")
    sink.ranges().next()
    partitions = [TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)]
    sink.log.delete_records(sink.log.end_offsets(partitions))
    with pytest.raises(SourceRangeLostError, match="archive"):
        sink.ranges().next()


def test_a_topic_that_was_made_anew_is_an_error(sink: Sink) -> None:
    sink.put("a")
    sink.ranges().next()
    sink.log.delete_topic(TOPIC)
    with pytest.raises(SourceRangeLostError, match="was deleted"):
        sink.ranges().next()
    sink.log.create_topic(TOPIC, 2)
    with pytest.raises(SourceRangeLostError, match="recreated"):
        sink.ranges().next()


def test_a_torn_record_is_named(sink: Sink) -> None:
    sink.blobs.put_if_absent("spark/out/archive/00000000000000000000", b'{"num')
    with pytest.raises(CheckpointError) as caught:
        sink.ranges().next()
    assert caught.value.condition == "SPARK_RANGE_CORRUPT"
    assert "archive" in caught.value.message
