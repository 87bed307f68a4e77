"""Epochs: outputs and marker are there together, once."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable

import pytest
from tests.behaviour.log.helpers import (
    answer_with_markers,
    append,
    batch,
    bounds,
    publish,
    publish_at_once,
    settled_values,
)

from hayase.core.errors import CheckpointError, HayaseError, LogError, UnknownTopicError
from hayase.core.records import TopicPartition
from hayase.log.protocol import Log, LogConfig, Marker

SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture
def application(new_name: Callable[[], str]) -> str:
    return new_name()


def test_an_epoch_writes_its_outputs_and_its_marker(log: Log, application: str, topic: str, four: str) -> None:
    marker = Marker("L", 3, "digest")
    outputs = [batch(topic, [b"a"]), batch(four, [b"b"], partitions=[2])]
    assert publish(log, application, "b0", marker, *outputs)
    assert log.markers(application) == {"b0": marker}
    assert (settled_values(log, topic), settled_values(log, four, 2)) == ([b"a"], [b"b"])


def test_the_same_epoch_is_written_once(log: Log, application: str, topic: str) -> None:
    assert publish(log, application, "b0", Marker("L", 1, "d"), batch(topic, [b"a"]))
    assert not publish(log, application, "b0", Marker("L", 1, "d"), batch(topic, [b"a"]))
    assert settled_values(log, topic) == [b"a"]


def test_one_writer_publishes_epoch_after_epoch(log: Log, application: str, topic: str) -> None:
    writer = log.writer()
    for epoch in range(1, 6):
        for _ in range(2):
            written = writer.publish_epoch(application, "b0", Marker("L", epoch, "d"), [batch(topic, [b"%d" % epoch])])
        assert not written
    writer.close()
    assert settled_values(log, topic) == [b"1", b"2", b"3", b"4", b"5"]


def test_an_older_epoch_is_refused(log: Log, application: str, topic: str) -> None:
    publish(log, application, "b0", Marker("L", 5, "d"), batch(topic, [b"new"]))
    with pytest.raises(LogError, match="another attempt has overtaken") as refused:
        publish(log, application, "b0", Marker("L", 4, "d"), batch(topic, [b"old"]))
    assert refused.value.condition == "STATE_MOVED"
    assert settled_values(log, topic) == [b"new"]
    assert log.markers(application)["b0"].epoch == 5


def test_the_same_epoch_of_another_record_is_an_error_and_nothing_is_written(
    log: Log, application: str, topic: str
) -> None:
    marker = Marker("L", 5, "d")
    publish(log, application, "b0", marker, batch(topic, [b"a"]))
    with pytest.raises(CheckpointError) as refused:
        publish(log, application, "b0", Marker("L", 5, "another"), batch(topic, [b"b"]))
    assert refused.value.condition == "CHECKPOINT_OLDER_THAN_LOG"
    assert (settled_values(log, topic), log.markers(application)) == ([b"a"], {"b0": marker})


def test_an_attempt_of_an_epoch_that_is_closed_writes_nothing(log: Log, application: str, topic: str) -> None:
    writer = log.writer()
    marker = Marker("L", 1, "d")
    assert writer.publish_epoch(application, "b0", marker, [batch(topic, [b"a"])], is_closed=lambda: False)
    for bundle, epoch in (("b0", 2), ("b1", 1)):
        outputs = [batch(topic, [b"closed"])]
        with pytest.raises(LogError) as refused:
            writer.publish_epoch(application, bundle, Marker("L", epoch, "d"), outputs, is_closed=lambda: True)
        assert refused.value.condition == "STATE_MOVED"
    writer.close()
    assert (settled_values(log, topic), log.markers(application)) == ([b"a"], {"b0": marker})


@pytest.mark.parametrize("published_before", [True, False], ids=["a writer with a kept producer", "a new writer"])
def test_an_attempt_that_has_looked_before_its_epoch_was_closed_is_ended(
    log: Log, application: str, topic: str, published_before: bool
) -> None:
    looks: list[bool] = []

    def is_closed() -> bool:
        looks.append(bool(looks))
        if not looks[-1]:  # it is closed right behind the first look
            log.end_attempts(application, "L", ["b0"])
        return looks[-1]

    writer = log.writer()
    if published_before:
        writer.publish_epoch(application, "b0", Marker("L", 1, "d"), [batch(topic, [b"a"])], is_closed=lambda: False)
    with pytest.raises(LogError) as refused:
        writer.publish_epoch(application, "b0", Marker("L", 2, "d"), [batch(topic, [b"late"])], is_closed=is_closed)
    writer.close()
    assert refused.value.condition == "STATE_MOVED" and looks == [False, True]
    assert settled_values(log, topic) == ([b"a"] if published_before else [])
    assert {bundle: marker.epoch for bundle, marker in log.markers(application).items()} == (
        {"b0": 1} if published_before else {}
    )


def test_a_marker_of_another_checkpoint_counts_as_absent(log: Log, application: str, topic: str) -> None:
    publish(log, application, "b0", Marker("old", 5, "d"), batch(topic, [b"old"]))
    assert publish(log, application, "b0", Marker("new", 1, "d"), batch(topic, [b"new"]))
    assert settled_values(log, topic) == [b"old", b"new"]
    assert log.markers(application) == {"b0": Marker("new", 1, "d")}


def test_an_epoch_without_outputs_leaves_a_marker(log: Log, application: str) -> None:
    assert publish(log, application, "b0", Marker("L", 1, "d"))
    assert not publish(log, application, "b0", Marker("L", 1, "d"))
    assert log.markers(application) == {"b0": Marker("L", 1, "d")}


def test_bundles_and_applications_have_markers_of_their_own(log: Log, application: str, topic: str) -> None:
    other = application + "x"
    for name, bundle in ((application, "b0"), (application, "b1"), (other, "b0")):
        assert publish(log, name, bundle, Marker("L", 1, bundle), batch(topic, [bundle.encode()]))
    assert log.markers(application) == {"b0": Marker("L", 1, "b0"), "b1": Marker("L", 1, "b1")}
    assert log.markers(other) == {"b0": Marker("L", 1, "b0")}
    assert settled_values(log, topic) == [b"b0", b"b1", b"b0"]


def test_an_application_that_never_ran_has_no_markers(log: Log, application: str) -> None:
    assert log.markers(application) == {}


def test_preparing_markers_twice_leaves_those_that_are_there(log: Log, application: str, topic: str) -> None:
    log.prepare_markers(application)
    assert log.markers(application) == {}
    publish(log, application, "b0", Marker("L", 1, "d"), batch(topic, [b"a"]))
    log.prepare_markers(application)
    assert log.markers(application) == {"b0": Marker("L", 1, "d")}


def test_forgotten_markers_and_offsets_are_gone_and_the_epoch_is_written_again(
    log: Log, application: str, topic: str
) -> None:
    other = application + "x"
    for name in (application, other):
        publish(log, name, "b0", Marker("L", 1, "d"), batch(topic, [b"v"]))
        log.commit_group_offsets(name, {TopicPartition(topic, 0): 1})
    log.delete_markers(application)
    assert (log.markers(application), log.group_offsets(application)) == ({}, {})
    assert log.markers(other) == {"b0": Marker("L", 1, "d")}
    assert log.group_offsets(other) == {TopicPartition(topic, 0): 1}
    assert publish(log, application, "b0", Marker("L", 1, "d"), batch(topic, [b"again"]))
    assert settled_values(log, topic) == [b"v", b"v", b"again"]


def test_forgetting_an_application_that_never_ran_is_fine(log: Log, application: str) -> None:
    log.delete_markers(application)
    assert log.markers(application) == {}


def test_an_epoch_with_an_output_that_fails_leaves_nothing(log: Log, application: str, topic: str) -> None:
    end = bounds(log, topic)[1]
    with pytest.raises(HayaseError):
        publish(log, application, "b0", Marker("L", 1, "d"), batch(topic, [b"a"]), batch(topic, [b"b"], partitions=[9]))
    assert settled_values(log, topic) == []
    assert log.markers(application) == {}
    assert end == 0


def test_an_epoch_for_a_topic_that_does_not_exist_leaves_nothing(log: Log, application: str, topic: str) -> None:
    with pytest.raises(UnknownTopicError):
        publish(log, application, "b0", Marker("L", 1, "d"), batch(topic, [b"a"]), batch("no-such-topic", [b"b"]))
    assert settled_values(log, topic) == []
    assert log.markers(application) == {}


def test_records_of_appends_and_epochs_keep_their_order(log: Log, application: str, topic: str) -> None:
    for number in range(1, 4):
        append(log, batch(topic, [b"append-%d" % number]))
        publish(log, application, "b0", Marker("L", number, "d"), batch(topic, [b"epoch-%d" % number] * 2))
    expected = [[b"append-%d" % number, b"epoch-%d" % number, b"epoch-%d" % number] for number in range(1, 4)]
    assert settled_values(log, topic) == [value for part in expected for value in part]


@pytest.mark.long
def test_another_process_sees_the_markers(log: Log, log_config: LogConfig, application: str, topic: str) -> None:
    publish(log, application, "b0", Marker("L", 1, "d"), batch(topic, [b"v"]))
    ours, theirs = SPAWN.Pipe()
    child = SPAWN.Process(target=answer_with_markers, args=(log_config, application, theirs))
    child.start()
    assert ours.recv() == {"b0": Marker("L", 1, "d")}
    child.join(30)


@pytest.mark.long
def test_of_processes_that_publish_the_same_epoch_at_once_exactly_one_writes(
    log: Log, log_config: LogConfig, application: str, topic: str
) -> None:
    barrier = SPAWN.Barrier(2)
    ours, given, children = [], [], []
    for number in range(2):
        mine, theirs = SPAWN.Pipe()
        arguments = (log_config, application, topic, number, barrier, theirs)
        children.append(SPAWN.Process(target=publish_at_once, args=arguments))
        ours.append(mine)
        given.append(theirs)
    for child in children:
        child.start()
    for pipe in given:
        pipe.close()  # so that a child that fails is seen at once
    written = [pipe.recv() for pipe in ours]
    for child in children:
        child.join(30)
    assert sorted(written) == [False, True]
    winner = written.index(True)
    assert settled_values(log, topic) == [b"%d-%d" % (winner, index) for index in range(50)]
    assert log.markers(application) == {"b0": Marker("L", 7, "d")}
