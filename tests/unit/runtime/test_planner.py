"""Planning of epochs: what each reads, what an earlier run began, what is refused."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta

import numpy as np
import pytest
from tests.unit.runtime.planner_scene import Scene

from hayase import Consumed, Repartitioned, Serdes, StreamsBuilder, Topology
from hayase.core.errors import CheckpointError, LogError, SourceRangeLostError, TopologyError
from hayase.core.offset_reset import AutoOffsetReset
from hayase.core.records import TopicPartition
from hayase.log.embedded.log import EmbeddedLog
from hayase.log.open import open_log
from hayase.log.protocol import OutputBatch
from hayase.runtime.epochs.log_watch import LogWatch
from hayase.runtime.wire.planner_control import PlannerStatus
from hayase.task.epoch_record import EpochRecord, Epochs, done_name, record_name
from hayase.topology.resolve import resolve_patterns


def merging() -> Topology:
    """A topology whose only task merges two topics."""
    builder = StreamsBuilder()
    text = Consumed.with_(Serdes.string(), Serdes.string())
    builder.stream("in", text).merge(builder.stream("other", text)).to("out")
    return builder.build()


def test_an_epoch_covers_what_is_there_and_the_next_begins_at_its_end(scene: Scene) -> None:
    planner = scene.planner()
    assert planner.next_epoch(-1) == -1  # nothing to do
    scene.put(1, 2, 3)
    assert planner.next_epoch(-1) == 0
    first = planner.record(0)
    assert first.ranges == {"in": {p: (0, end) for p, end in scene.ends().items()}}
    assert (first.checkpoint_id, first.plan, first.previous) == ("L", scene.app.plan.digest, "")
    scene.put(4)
    assert planner.next_epoch(0) == 1
    second = planner.record(1)
    assert second.records == 1
    assert second.previous == first.digest
    assert {p: start for p, (start, _) in second.ranges["in"].items()} == {
        p: e for p, (_, e) in first.ranges["in"].items()
    }


def test_an_epoch_is_marked_and_its_offsets_committed_when_the_next_is_asked_for(scene: Scene) -> None:
    scene.put(1, 2, 3)
    planner = scene.planner()
    planner.next_epoch(-1)
    assert scene.blobs.get(done_name(0)) is None
    assert scene.planner().last_done() == -1
    planner.next_epoch(0)
    assert scene.blobs.get(done_name(0)) == planner.record(0).digest.encode()
    assert scene.planner().last_done() == planner.last_done() == 0
    ends = {TopicPartition("in", p): end for p, end in scene.ends().items() if end}
    assert scene.log.group_offsets("app") == ends


def test_an_epoch_that_was_begun_is_adopted_as_it_is(scene: Scene) -> None:
    scene.put(1, 2, 3)
    begun = scene.planner()
    begun.next_epoch(-1)
    scene.put(4, 5, 6)
    scene.clock.advance_ms(5_000)
    later = scene.planner()
    assert later.next_epoch(-1) == 0
    assert later.record(0) == begun.record(0)


def test_an_open_epoch_of_another_plan_or_checkpoint_is_refused(scene: Scene) -> None:
    scene.put(1)
    planner = scene.planner()
    planner.next_epoch(-1)
    other = dataclasses.replace(scene.app.plan, bundles=scene.app.plan.bundles[:1])
    for changes in ({"plan": other}, {"checkpoint_id": "M"}):
        with pytest.raises(CheckpointError) as refused:
            scene.planner(**changes).next_epoch(-1)
        assert refused.value.condition == "OPEN_EPOCH_OF_ANOTHER_PLAN"


def test_an_open_epoch_of_a_plan_of_another_number_is_refused_though_its_text_is_the_same(scene: Scene) -> None:
    scene.put(1)
    scene.planner().next_epoch(-1)
    with pytest.raises(CheckpointError, match=r"plan 0, .*; now 2,") as refused:
        scene.planner(plan_number=2).next_epoch(-1)
    assert refused.value.condition == "OPEN_EPOCH_OF_ANOTHER_PLAN"


def test_the_first_epoch_of_another_plan_is_planned_without_input_and_names_it(scene: Scene) -> None:
    scene.put(1)
    first = scene.planner()
    assert first.next_epoch(-1) == 0
    assert first.next_epoch(0) == 0, "the same plan waits for input"
    changed = scene.planner(plan_number=1)
    assert changed.next_epoch(0) == 1
    record = changed.record(1)
    assert (record.plan_number, record.records) == (1, 0)
    assert EpochRecord.from_bytes(record.to_bytes()) == record
    assert changed.next_epoch(1) == 1
    assert b"plan_number" not in first.record(0).to_bytes(), "as earlier releases write it"


def test_positions_of_topics_that_earlier_plans_read_stay_in_the_records(scene: Scene) -> None:
    both = dataclasses.replace(scene.app.plan, topics={"in": 2, "other": 2})
    scene.put(1)
    writer = scene.log.writer()
    writer.append([OutputBatch("other", [b"k"], [b"v"], [1])])
    writer.close()
    scene.planner(plan=both).next_epoch(-1)
    scene.planner(plan=both).next_epoch(0)
    without = scene.planner(plan_number=1, former_topics=frozenset({"other"}))
    assert without.next_epoch(0) == 1
    read, kept = without.record(0), without.record(1)
    assert kept.ranges["other"] == {number: (end, end) for number, (_, end) in read.ranges["other"].items()}
    assert kept.topic_ids["other"] == read.topic_ids["other"]
    back = scene.planner(plan=both, plan_number=2)
    without.next_epoch(1)
    assert back.next_epoch(1) == 2
    assert back.record(2).ranges["other"] == kept.ranges["other"]


def test_a_program_that_finishes_an_epoch_plans_no_other(scene: Scene) -> None:
    scene.put(1)
    scene.planner().next_epoch(-1)
    scene.put(2)
    scene.control.request_change(True)
    finishing = scene.planner(finishes=0, term=1)
    assert finishing.next_epoch(-1) == 0, "a request to hold does not keep it from its epoch"
    assert finishing.next_epoch(0) == 0 and finishing.held
    assert scene.control.suspended()
    scene.control.request_change(False)
    assert finishing.next_epoch(0) == 0 and finishing.held
    assert scene.planner(term=2).next_epoch(0) == 1


def _through_a_topic(scene: Scene) -> dict[str, object]:
    """An application that has sent records to a topic of its own and not read them yet."""
    builder = StreamsBuilder()
    text = Consumed.with_(Serdes.string(), Serdes.string())
    builder.stream("in", text).repartition(Repartitioned.as_("again")).to("out")
    topology = builder.build()
    (topic,) = topology.internal_topics
    scene.log.create_topic(topic, 2)
    scene.put(1)
    planner = scene.planner(topology=topology, plan=scene.plan_of(topology))
    planner.next_epoch(-1)
    writer = scene.log.writer()
    writer.append([OutputBatch(topic, [b"k"] * 25, [b"v"] * 25, [1] * 25)])
    writer.close()
    return {"topology": topology, "plan": planner.app.plan, "drains": frozenset({topic})}


def test_a_program_that_empties_a_topic_reads_nothing_else_and_holds_then(scene: Scene) -> None:
    app = _through_a_topic(scene)
    scene.put(2, 3)
    scene.control.request_change(True)
    emptying = scene.planner(**app, finishes=0, term=1)
    assert emptying.next_epoch(-1) == 0, "it finishes the open epoch first"
    epoch, records = 0, []
    while (found := emptying.next_epoch(epoch)) > epoch:
        epoch = found
        records.append(emptying.record(epoch).records)
    assert records == [10, 10, 5] and emptying.held and scene.control.suspended()
    before, last = emptying.record(0), emptying.record(epoch)
    assert {p: end for p, (_, end) in last.ranges["in"].items()} == {p: e for p, (_, e) in before.ranges["in"].items()}
    assert emptying.next_epoch(epoch) == epoch, "it plans no other, whatever comes"


def test_a_program_that_empties_a_topic_can_be_paused_and_stopped(scene: Scene) -> None:
    emptying = scene.planner(**_through_a_topic(scene), term=1)
    scene.control.request_change(True)
    scene.control.request_pause(True)
    assert emptying.next_epoch(-1) == -1 and emptying.held
    scene.control.request_pause(False)
    assert emptying.next_epoch(-1) == 0
    scene.control.request_stop()
    assert emptying.next_epoch(0) == 0 and emptying.held


def test_of_two_planners_that_publish_the_same_epoch_one_adopts_the_others(scene: Scene) -> None:
    scene.put(1)
    first, second = scene.planner(), scene.planner()
    scene.blobs.put_if_absent(record_name(0), b"")  # taken, so that both must look
    scene.blobs.delete(record_name(0))
    assert first.next_epoch(-1) == 0
    scene.put(2)
    assert second.next_epoch(-1) == 0
    assert second.record(0).records == first.record(0).records == 1


def test_the_wall_clock_of_epochs_never_goes_back(scene: Scene) -> None:
    planner = scene.planner()
    scene.put(1)
    planner.next_epoch(-1)
    scene.clock.advance_ms(-800)
    scene.put(2)
    planner.next_epoch(0)
    assert planner.record(0).wall_clock_ms == planner.record(1).wall_clock_ms == 1_000


def test_a_clock_that_was_years_ahead_before_a_restart_does_not_stop_the_wall_clock_of_epochs(scene: Scene) -> None:
    scene.clock.advance_ms(100_000_000_000)
    scene.put(1)
    scene.planner().next_epoch(-1)
    scene.clock.advance_ms(-100_000_000_000)
    planner = scene.planner()
    for epoch in (1, 2):
        time.sleep(0.05)
        scene.put(epoch + 1)
        planner.next_epoch(epoch - 1)
    times = [planner.record(epoch).wall_clock_ms for epoch in range(3)]
    assert times[0] <= times[1] < times[2] < times[0] + 60_000


def test_a_frozen_planner_reads_to_the_ends_of_that_moment_in_bounded_epochs(scene: Scene) -> None:
    scene.put(*range(25))
    planner = scene.planner()
    planner.freeze()
    scene.put(*range(100, 150))
    after, covered = -1, 0
    while (new := planner.next_epoch(after)) != after:
        assert new == after + 1
        assert 0 < planner.record(new).records <= 10
        covered += planner.record(new).records
        after = new
    assert covered == 25


@pytest.mark.parametrize(("known", "ends"), [({"in": [2]}, {0: 2, 1: 0}), ({"in": [99, 1]}, None)])
def test_ends_of_an_earlier_moment_count_where_they_are_given_and_what_was_not_there_then_was_empty(
    scene: Scene, known: dict[str, list[int]], ends: dict[int, int] | None
) -> None:
    scene.put(*range(8))
    planner = scene.planner()
    planner.freeze(known)
    read = planner.record(planner.next_epoch(-1)).ranges["in"]
    assert {p: end for p, (_, end) in read.items()} == (ends or {0: scene.ends()[0], 1: 1})


def test_the_status_tells_what_lies_beyond_the_epoch(scene: Scene) -> None:
    scene.put(*range(25))
    planner = scene.planner()
    planner.next_epoch(-1)
    at_work = planner.record(0).records
    assert scene.status() == PlannerStatus(0, 25 - at_work, records=at_work)
    assert (scene.status().unprocessed(-1), scene.status().unprocessed(0)) == (25, 25 - at_work)
    after = 0
    while (new := planner.next_epoch(after)) != after:
        after = new
    assert scene.status() == PlannerStatus(after, 0)


@pytest.mark.parametrize("end", ["pause", "close"])
def test_once_no_epoch_follows_the_status_is_that_of_the_last_one(scene: Scene, end: str) -> None:
    scene.put(*range(25))
    planner = scene.planner()
    for epoch in range(-1, 2):  # sooner than they are published
        planner.next_epoch(epoch)
    if end == "close":
        planner.close()
    else:
        scene.control.request_pause(True)
        planner.next_epoch(2)
    assert scene.status().epoch == 2


def test_a_pause_holds_between_epochs_and_marks_what_is_through(scene: Scene) -> None:
    scene.put(1)
    planner = scene.planner()
    planner.next_epoch(-1)
    scene.put(2)
    scene.control.request_pause(True)
    assert not scene.control.suspended()
    assert planner.next_epoch(0) == 0
    assert scene.control.suspended()
    assert planner.last_done() == 0
    scene.control.request_pause(False)
    assert not scene.control.suspended()
    assert planner.next_epoch(0) == 1


def test_group_offsets_are_committed_before_the_planner_says_that_it_is_suspended(scene: Scene) -> None:
    """The driver may begin a new term at once, after which this planner may not commit any more."""
    scene.put(1)
    planner = scene.planner()
    assert planner.next_epoch(-1) == 0
    scene.control.request_change(True)
    assert planner.next_epoch(0, settle=False, wait_s=0) == 0 and planner.held
    assert scene.control.suspended()
    assert sum(scene.log.group_offsets("app").values()) == 1


def test_latest_begins_at_the_end_of_the_log_and_an_epoch_without_input_keeps_where_that_was(scene: Scene) -> None:
    scene.put(1, 2, 3)
    planner = scene.planner(resets={"in": AutoOffsetReset.latest()})
    assert planner.next_epoch(-1) == 0
    assert planner.record(0).records == 0
    scene.put(4)
    planner = scene.planner(resets={"in": AutoOffsetReset.latest()})
    assert planner.next_epoch(-1) == 0
    assert planner.next_epoch(0) == 1
    assert planner.record(1).records == 1


def test_by_duration_begins_with_the_records_of_that_time_and_keeps_where_that_was(scene: Scene) -> None:
    resets = {"in": AutoOffsetReset.by_duration(timedelta(milliseconds=600))}
    scene.put(100, 399)
    scene.put(400, 900, 401)  # what is older but came later is not left out
    ends = scene.ends()
    planner = scene.planner(resets=resets)  # at 1000
    assert planner.next_epoch(-1) == 0
    starts = {partition: start for partition, (start, _) in planner.record(0).ranges["in"].items()}
    times = [400, 900, 401]
    found = scene.log.offsets_for_time({TopicPartition("in", partition): 400 for partition in (0, 1)})
    assert starts == {p.partition: offset for p, offset in found.items()}
    assert planner.record(0).records == len(times)
    scene.clock.advance_ms(10_000)
    assert scene.planner(resets=resets).record(0).ranges["in"] == {p: (starts[p], ends[p]) for p in (0, 1)}


def test_by_duration_without_records_of_that_time_begins_at_the_end_which_the_first_epoch_keeps(scene: Scene) -> None:
    scene.put(1, 2)
    planner = scene.planner(resets={"in": AutoOffsetReset.by_duration(timedelta(milliseconds=1))})
    assert planner.next_epoch(-1) == 0
    assert planner.record(0).records == 0
    assert {p: end for p, (_, end) in planner.record(0).ranges["in"].items()} == scene.ends()


def test_with_none_nothing_is_begun_but_what_has_a_position_goes_on(scene: Scene) -> None:
    scene.put(1)
    none = {"in": AutoOffsetReset.none()}
    with pytest.raises(TopologyError, match="no position in topic 'in'") as raised:
        scene.planner(resets=none).next_epoch(-1)
    assert (raised.value.condition, raised.value.context["topic"]) == ("NO_POSITION", "in")
    scene.planner().next_epoch(-1)
    scene.put(2)
    planner = scene.planner(resets=none)
    assert planner.next_epoch(0) == 1
    assert planner.record(1).records == 1


def test_records_ahead_of_an_input_that_has_nothing_wait_for_it_but_not_in_a_run_to_the_end(scene: Scene) -> None:
    planner = scene.planner(max_task_idle_ms=60_000, topology=merging(), plan=scene.plan_of(merging()))
    scene.put(1)
    assert planner.next_epoch(-1) == -1
    planner.freeze()
    assert planner.next_epoch(-1) == 0
    assert planner.record(0).records == 1


def test_a_topic_that_was_deleted_or_made_anew_is_refused(scene: Scene) -> None:
    scene.put(1)
    planner = scene.planner()
    planner.next_epoch(-1)
    scene.log.delete_topic("in")
    with pytest.raises(SourceRangeLostError, match="deleted while the application reads it"):
        planner.next_epoch(0)
    scene.log.create_topic("in", 2)
    with pytest.raises(SourceRangeLostError, match="deleted and recreated"):
        planner.next_epoch(0)


def test_a_topic_with_more_partitions_than_the_plan_is_refused(scene: Scene) -> None:
    scene.log.delete_topic("in")
    scene.log.create_topic("in", 3)
    with pytest.raises(TopologyError) as refused:
        scene.planner().next_epoch(-1)
    assert refused.value.condition == "PARTITIONS_CHANGED"
    assert refused.value.context["topic"] == "in"


def test_a_record_that_is_missing_from_the_checkpoint_is_named(scene: Scene) -> None:
    with pytest.raises(CheckpointError) as refused:
        scene.planner().record(7)
    assert refused.value.condition == "EPOCH_RECORD_MISSING"
    assert "epoch 7" in refused.value.message


def test_an_epoch_record_survives_its_bytes_with_the_order_of_its_ranges() -> None:
    record = EpochRecord(3, "L", "P", 5, {"b": {1: (0, 2), 0: (4, 4)}, "a": {0: (7, 9)}}, {"a": "1", "b": "2"}, "x")
    again = EpochRecord.from_bytes(record.to_bytes())
    assert again == record
    assert again.digest == record.digest
    assert list(again.ranges) == ["b", "a"]
    assert list(again.ranges["b"]) == [1, 0]
    assert record.records == 4


def test_an_epoch_is_cut_by_time_though_compaction_took_the_first_records(scene: Scene) -> None:
    begin = 1_767_571_200_000
    scene.log.alter_topic_config("in", {"cleanup.policy": "compact"})
    writer, first = scene.log.writer(), np.zeros(1, dtype=np.int32)
    for step in range(30):
        writer.append([OutputBatch(topic, [b"a"], [b"v"], [begin + step * 1_000], first) for topic in ("in", "other")])
    assert isinstance(scene.log, EmbeddedLog)
    scene.log.clean(begin)
    planner = scene.planner(topology=merging(), plan=scene.plan_of(merging()))
    assert planner.next_epoch(-1) == 0
    ranges = planner.record(0).ranges
    assert ranges["in"][0] == (0, 29)  # the record left is the last in time, and so not in this epoch
    assert 0 < ranges["other"][0][1] <= 10


def test_records_and_marks_are_forgotten_behind_a_number_and_the_retention(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hayase.runtime.epochs.record_retention.RECORDS_KEPT", 2)
    planner = scene.planner(history_retention_ms=5_000)
    for epoch in range(12):
        scene.put(epoch + 1)
        assert planner.next_epoch(epoch - 1) == epoch
        scene.clock.advance_ms(1_000)
    now_ms = scene.clock.now_ms()
    kept = Epochs(scene.blobs).recorded()
    assert kept == list(range(kept[0], 12)) and 0 < kept[0] < 9
    assert all(scene.blobs.exists(done_name(epoch)) for epoch in kept[:-1])
    assert not scene.blobs.exists(done_name(kept[0] - 1))
    assert Epochs(scene.blobs).at(now_ms - 5_000) >= kept[0]

    scene.put(100)
    planner = scene.planner(history_retention_ms=0)  # a later run that keeps less
    planner.next_epoch(11)
    assert Epochs(scene.blobs).recorded() == [10, 11, 12]


def test_the_last_epoch_that_is_through_is_found_without_listing(scene: Scene) -> None:
    epochs = Epochs(scene.blobs)
    for epoch in range(40):
        assert epochs.last_done_after(-1) == epochs.last_done() == epoch - 1
        assert epochs.last_done_after(epoch - 1) == epoch - 1
        scene.blobs.put_if_absent(done_name(epoch), b"")


def test_in_a_run_to_the_end_a_pause_is_sat_out_and_not_taken_for_the_end(scene: Scene) -> None:
    scene.put(1, 2)
    planner = scene.planner()
    planner.freeze()
    scene.control.request_pause(True)
    resumed = threading.Timer(0.1, scene.control.request_pause, [False])
    resumed.start()
    assert planner.next_epoch(-1) == 0
    resumed.join()


def test_a_stop_ends_a_pause_of_a_run_to_the_end(scene: Scene) -> None:
    scene.put(1, 2)
    planner = scene.planner()
    planner.freeze()
    scene.control.request_pause(True)
    stopped = threading.Timer(0.1, scene.control.request_stop)
    stopped.start()
    assert planner.next_epoch(-1) == -1
    stopped.join()
    assert scene.control.suspended()


def test_brokers_that_do_not_answer_are_waited_for_and_the_status_says_so(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.put(1, 2)
    planner = scene.planner()
    with monkeypatch.context() as away:

        def unreachable(_: object) -> dict[TopicPartition, int]:
            raise LogError("BROKER_UNAVAILABLE", "no answer")

        away.setattr(planner._log, "end_offsets", unreachable)
        assert planner.next_epoch(-1) == -1
        assert scene.status().waiting == "no answer"
    assert planner.next_epoch(-1) == 0
    assert scene.status() == PlannerStatus(0, 0, records=2)


def test_a_planner_that_ended_in_order_is_not_lost(scene: Scene) -> None:
    planner = scene.planner()
    planner.next_epoch(-1)
    assert scene.control.ready()
    assert not scene.control.planner_lost()
    planner.close()
    assert not scene.control.ready()
    assert not scene.control.planner_lost()


def test_a_planner_whose_process_is_gone_is_lost(scene: Scene) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    (scene.folder / "control" / "ready").write_text(str(gone.pid))
    assert scene.control.planner_lost()


def test_a_topic_that_a_pattern_matches_since_the_last_epoch_is_begun_as_at_a_first_start(scene: Scene) -> None:
    scene.put(1, 2)
    planner = scene.planner()
    planner.next_epoch(-1)
    planner.next_epoch(0)
    builder = StreamsBuilder()
    builder.stream(re.compile("in|other"), Consumed.with_(Serdes.string(), Serdes.string())).group_by_key().count()
    topology = resolve_patterns(builder.build(), ["in", "other"])
    writer = scene.log.writer()
    writer.append([OutputBatch("other", [b"k"], [b"v"], [1])])
    writer.close()
    later = scene.planner(plan=scene.plan_of(topology), topology=topology)
    assert later.next_epoch(0) == 1
    assert sum(end - start for start, end in later.record(1).ranges["other"].values()) == 1
    assert later.record(1).records == 1


@pytest.mark.parametrize("bounded", [False, True])
def test_beside_a_watch_the_log_is_asked_only_where_what_is_visible_by_now_counts(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, bounded: bool
) -> None:
    asked: list[str] = []
    watch = LogWatch(open_log(scene.log_config))
    watch.close()
    planner = scene.planner(watch)
    scene.put(1, 2)
    assert planner.next_epoch(-1) == 0
    watch.add(planner.partitions)
    if bounded:
        planner.freeze()
    scene.put(3)
    watch.look()
    watch.look_at_topics()
    for name in ("end_offsets", "start_offsets", "describe"):
        monkeypatch.setattr(EmbeddedLog, name, _counted(getattr(EmbeddedLog, name), asked))
    assert planner.next_epoch(0, settle=False, wait_s=0) == (0 if bounded else 1)
    assert asked == (["end_offsets"] if bounded else [])


def _counted(method: Callable[..., object], calls: list[str]) -> Callable[..., object]:
    def counted(*arguments: object) -> object:
        calls.append(method.__name__)
        return method(*arguments)

    return counted
