"""Planning of epochs with internal topics: where they are read from, and when they are purged."""

from __future__ import annotations

import pytest
from tests.unit.runtime.planner_scene import Scene

from hayase import Consumed, Repartitioned, Serdes, StreamsBuilder
from hayase.core.offset_reset import AutoOffsetReset
from hayase.core.records import TopicPartition
from hayase.log.protocol import OutputBatch
from hayase.runtime.epochs.planner import EpochPlanner
from hayase.topology.resolve import with_application_id

BETWEEN = "app-x-repartition"


def with_internal_topic(scene: Scene, **changes: object) -> EpochPlanner:
    """A planner of an application that writes a topic which it reads itself."""
    scene.log.create_topic(BETWEEN, 2)
    put_between(scene, 0)  # of an application that was reset
    builder = StreamsBuilder()
    text = Consumed.with_(Serdes.string(), Serdes.string())
    builder.stream("in", text).repartition(Repartitioned.as_("x")).group_by_key().count()
    topology = with_application_id(builder.build(), "app")
    resets = {"in": AutoOffsetReset.earliest(), BETWEEN: AutoOffsetReset.latest()}
    return scene.planner(topology=topology, plan=scene.plan_of(topology), resets=resets, **changes)


def put_between(scene: Scene, *times: int) -> None:
    writer = scene.log.writer()
    writer.append([OutputBatch(BETWEEN, [b"k"] * len(times), [b"v"] * len(times), list(times))])
    writer.close()


def read_between(planner: EpochPlanner, epoch: int) -> int:
    return sum(end - start for start, end in planner.record(epoch).ranges[BETWEEN].values())


def test_an_internal_topic_is_read_from_where_it_ended_when_the_application_first_started(scene: Scene) -> None:
    planner = with_internal_topic(scene)
    assert planner.next_epoch(-1) == 0
    assert read_between(planner, 0) == 0
    put_between(scene, 1, 2)
    assert planner.next_epoch(0) == 1
    assert read_between(planner, 1) == 2


def test_a_frozen_planner_reads_internal_topics_to_their_end(scene: Scene) -> None:
    planner = with_internal_topic(scene)
    scene.put(1)
    planner.freeze()
    assert planner.next_epoch(-1) == 0
    scene.put(2)  # not of this run
    put_between(scene, 1)  # what the epoch wrote
    assert planner.next_epoch(0) == 1
    assert (planner.record(1).records, read_between(planner, 1)) == (1, 1)
    assert planner.next_epoch(1) == 1


def test_what_is_through_is_deleted_from_internal_topics(scene: Scene) -> None:
    planner = with_internal_topic(scene)
    planner.next_epoch(-1)
    put_between(scene, 1, 2)
    planner.next_epoch(0)
    put_between(scene, 3)
    planner.next_epoch(1)
    places = [TopicPartition(BETWEEN, number) for number in range(2)]
    starts, ends = scene.log.start_offsets(places), scene.log.end_offsets(places)
    assert sum(ends[p] - starts[p] for p in places) == 1
    scene.put(1)
    assert planner.next_epoch(2) == 3


@pytest.mark.parametrize("died", ["before it is marked", "before the purge", "in the purge", "after the purge"])
def test_whenever_a_planner_dies_around_a_purge_the_next_one_finds_all_that_is_not_through(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, died: str
) -> None:
    class Died(Exception):
        """As SIGKILL: nothing is said, nothing is tidied up."""

    planner = with_internal_topic(scene)
    places = [TopicPartition(BETWEEN, number) for number in range(2)]
    planner.next_epoch(-1)
    put_between(scene, *range(1, 9))
    assert planner.next_epoch(0) == 1  # is complete when the next one is requested
    put_between(scene, *range(9, 14))  # what epoch 1 wrote
    purge = planner._log.delete_records

    def dying(before: dict[TopicPartition, int]) -> None:
        if died == "in the purge":
            purge(dict(list(before.items())[:1]))
        elif died == "after the purge":
            purge(before)
        raise Died

    with monkeypatch.context() as patch:
        if died == "before it is marked":
            patch.setattr(planner._completion, "mark_done", dying)
        else:
            patch.setattr(planner._log, "delete_records", dying)
        with pytest.raises(Died):
            planner.next_epoch(1)
    again = scene.planner(topology=planner.app.topology, plan=planner.app.plan, resets=planner.app.resets)
    assert again.last_done() == (0 if died == "before it is marked" else 1)
    if again.last_done() == 0:
        assert again.next_epoch(0) == 1  # once more, with all its records
        reader = scene.log.reader()
        ranges = again.record(1).ranges[BETWEEN]
        found = [b for p in places for b in reader.fetch(p, *ranges[p.partition])]
        assert sum(map(len, found)) == 8
        reader.close()
    assert again.next_epoch(1) == 2
    assert read_between(again, 2) == 5
    again.next_epoch(2)
    starts, ends = scene.log.start_offsets(places), scene.log.end_offsets(places)
    assert starts == ends, "what an earlier purge left is gone"
