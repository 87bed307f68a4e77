"""Planning of epochs that read answers of foreign-key joins: whatever the epochs before wrote is read at once."""

from __future__ import annotations

import pytest
from tests.unit.runtime.planner_scene import Scene

from hayase import Consumed, Serdes, StreamsBuilder, Topology
from hayase.core.offset_reset import AutoOffsetReset
from hayase.core.records import TopicPartition
from hayase.log.protocol import OutputBatch
from hayase.runtime.epochs.answers import answer_topics
from hayase.runtime.epochs.planner import EpochPlanner
from hayase.topology.resolve import with_application_id


def joined(*, is_left: bool = False) -> Topology:
    builder = StreamsBuilder()
    text = Consumed.with_(Serdes.string(), Serdes.string())
    left, right = builder.table("in", text), builder.table("other", text)
    join = left.left_join if is_left else left.join
    join(right, str, "{}{}".format).to_stream().to("out")
    return with_application_id(builder.build(), "app")


ANSWERS = next(iter(answer_topics(joined())))
PLACES = [TopicPartition(ANSWERS, number) for number in range(2)]


def planner_of_join(scene: Scene) -> EpochPlanner:
    scene.log.create_topic(ANSWERS, 2)
    topology = joined()
    resets = {topic: AutoOffsetReset.earliest() for topic in ("in", "other", ANSWERS)}
    return scene.planner(topology=topology, plan=scene.plan_of(topology), resets=resets)


def answer(scene: Scene, count: int) -> None:
    writer = scene.log.writer()
    keys: list[bytes | None] = [b"%d" % number for number in range(count)]
    writer.append([OutputBatch(ANSWERS, keys, [b"v"] * count, [*range(count)])])
    writer.close()


def read(planner: EpochPlanner, epoch: int, topic: str) -> int:
    return sum(end - start for start, end in planner.record(epoch).ranges[topic].values())


def test_answers_of_left_joins_need_not_be_read_at_once() -> None:
    assert not answer_topics(joined(is_left=True))


@pytest.mark.parametrize("written", [3, 30], ids=["few", "more than an epoch reads"])
def test_all_answers_are_read_and_the_rest_of_the_epoch_is_for_other_records(scene: Scene, written: int) -> None:
    planner = planner_of_join(scene)  # reads ten records an epoch
    scene.put(0)
    assert planner.next_epoch(-1) == 0
    answer(scene, written)
    scene.put(*range(40))
    assert planner.next_epoch(0) == 1
    assert read(planner, 1, ANSWERS) == written
    assert 0 < read(planner, 1, "in") <= max(10 - written, 1)


def test_answers_that_are_committed_but_not_visible_yet_hold_up_the_next_epoch(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    planner = planner_of_join(scene)
    scene.put(0)
    assert planner.next_epoch(-1) == 0
    scene.put(1)
    with monkeypatch.context() as patch:
        patch.setattr(planner._log, "unfinished", lambda partitions: [*partitions] == PLACES)
        assert planner.next_epoch(0, wait_s=0) == 0
    answer(scene, 2)
    assert planner.next_epoch(0) == 1
    assert (read(planner, 1, ANSWERS), read(planner, 1, "in")) == (2, 1)


def test_a_run_to_the_end_does_not_end_before_the_last_answers_are_visible(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    planner = planner_of_join(scene)
    scene.put(1)
    planner.freeze()
    assert planner.next_epoch(-1) == 0
    answer(scene, 1)
    said = iter([False, True, False, False])  # by the look at all internal topics, and that at the answers; twice
    monkeypatch.setattr(planner._log, "unfinished", lambda partitions: next(said))
    assert planner.next_epoch(0) == 1
    assert read(planner, 1, ANSWERS) == 1
