"""Sink tasks: each record once where the target can, at least once elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.connect.connectors import (
    LedgerSink,
    LedgerTask,
    ListSink,
    ListTask,
    PageSink,
    PageTask,
)

from hayase.connect.exceptions import ConnectError
from hayase.connect.generations import SupersededError
from hayase.core.errors import SourceRangeLostError, UnknownTopicError
from hayase.core.records import TopicPartition
from hayase.log.protocol import Log, OutputBatch, TopicInfo
from hayase.testing.connect import ConnectorTestDriver

STRINGS = {"key.converter": "StringConverter", "value.converter": "StringConverter"}


def driver(log: Log, cls: type, **props: str) -> ConnectorTestDriver:
    given = {"range.interval.ms": "0", "connector.class": cls, "name": "sink", "topics": "words", **STRINGS}
    return ConnectorTestDriver({**given, **{key.replace("_", "."): value for key, value in props.items()}}, log=log)


def words(log: Log, *wanted: str, topic: str = "words") -> None:
    if not log.describe([topic]):
        log.create_topic(topic, 1, {})
    log.writer().append(
        [OutputBatch(topic, [None] * len(wanted), [word.encode() for word in wanted], [0] * len(wanted))]
    )


def test_a_transactional_sink_goes_on_from_the_offset_in_its_target(log: Log) -> None:
    words(log, "a", "b")
    with driver(log, LedgerSink) as connector:
        connector.run_to_end()
        connector.kill()
        words(log, "c")
        connector.run_to_end()
    assert LedgerTask.rows == ["a", "b", "c"]


def test_a_task_of_an_earlier_generation_writes_nothing_into_the_target(log: Log) -> None:
    words(log, "a")
    first = driver(log, LedgerSink)
    first.run_to_end()
    second = driver(log, LedgerSink)
    second.start()
    words(log, "b")
    with pytest.raises(SupersededError):
        first.step()
    second.run_to_end()
    assert LedgerTask.rows == ["a", "b"]


def test_a_batch_with_one_bad_record_costs_one_dead_letter(log: Log) -> None:
    words(log, *"abcdefgh")
    letters = {"errors_tolerance": "all", "errors_deadletterqueue_topic_name": "letters", "refuse": "f"}
    headers = {"errors_deadletterqueue_context_headers_enable": "true"}
    with driver(log, LedgerSink, **letters, **headers) as connector:
        connector.run_to_end()
        (letter,) = connector.records("letters")
        assert connector.metrics()["deadletterqueue-produce-requests"] == 1
    assert LedgerTask.rows == list("abcdegh")
    assert letter.value == b"f"
    reason = dict(letter.headers)
    assert reason["__connect.errors.topic"] == b"words"
    assert reason["__connect.errors.offset"] == b"5"
    assert reason["__connect.errors.stage"] == b"TASK_PUT"
    assert b"no f here" in (reason["__connect.errors.exception.message"] or b"")


def test_without_tolerance_a_bad_record_fails_the_task_and_nothing_is_written(log: Log) -> None:
    words(log, "a", "b")
    with driver(log, LedgerSink, refuse="b") as connector, pytest.raises(ConnectError, match="no b here"):
        connector.step()
    assert LedgerTask.rows == []


def test_a_record_that_cannot_be_converted_goes_to_the_dead_letters(log: Log) -> None:
    words(log, '{"id":1}', "no json", '{"id":2}')
    letters = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "letters"}
    plain = {"value.converter": "JsonConverter", "value.converter.schemas.enable": "false"}
    props = {"connector.class": LedgerSink, "topics": "words", **letters, **STRINGS, **plain}
    with ConnectorTestDriver(props, log=log) as connector:
        connector.run_to_end()
        assert [letter.value for letter in connector.records("letters")] == [b"no json"]
    assert LedgerTask.rows == [{"id": 1}, {"id": 2}]


def test_gaps_of_offsets_are_passed(log: Log) -> None:
    words(log, "a", "b", "c")
    with driver(log, LedgerSink, transforms="drop", transforms_drop_type="Filter") as connector:
        connector.run_to_end()
    assert list(LedgerTask.next.values()) == [3]
    assert LedgerTask.rows == []


def test_records_that_expired_before_they_were_read_are_an_error(log: Log) -> None:
    words(log, "a")
    with driver(log, LedgerSink) as connector:
        connector.run_to_end()
        words(log, "b")
        words(log, "c")
        log.delete_records({TopicPartition("words", 0): 2})
        with pytest.raises(SourceRangeLostError):
            connector.step()


def test_a_topic_that_was_made_again_is_not_read_with_the_old_offsets(log: Log) -> None:
    words(log, "a", "b")
    with driver(log, LedgerSink) as connector:
        connector.run_to_end()
        log.delete_topic("words")
        words(log, "x", "y", "z")
        with pytest.raises(UnknownTopicError):
            connector.step()
        connector.kill()
        connector.run_to_end()
    assert LedgerTask.rows == ["a", "b", "x", "y", "z"]


def test_a_sink_may_begin_at_the_end_of_its_topics(log: Log) -> None:
    words(log, "old")
    latest = {"consumer.override.auto.offset.reset": "latest"}
    with ConnectorTestDriver({"connector.class": LedgerSink, "topics": "words", **latest, **STRINGS}, log=log) as sink:
        sink.start()
        words(log, "new")
        sink.run_to_end()
    assert LedgerTask.rows == ["new"]


def test_a_sink_writes_as_many_records_at_once_as_it_may(log: Log) -> None:
    words(log, *"abcde")
    for sink in (LedgerSink, ListSink):
        with driver(log, sink, consumer_override_max_poll_records="2") as connector:
            connector.run_to_end()
            assert connector.metrics()["put-batch-total"] == 3
            assert connector.metrics()["sink-record-lag-max"] == 0
    assert (LedgerTask.writes, LedgerTask.rows, ListTask.written) == ([2, 2, 1], [*"abcde"], [*"abcde"])


def test_a_sink_says_how_far_it_is_behind(log: Log) -> None:
    words(log, *"abcde")
    with driver(log, LedgerSink, consumer_override_max_poll_records="2") as connector:
        connector.step()
        assert connector.metrics()["sink-record-lag-max"] == 5  # as it was when it looked, before it wrote two
        connector.step()
        assert connector.metrics()["sink-record-lag-max"] == 3


@pytest.mark.parametrize(("given", "replicas"), [({}, None), ({"replication.factor": "2"}, 2)])
def test_the_topic_of_dead_letters_has_the_replicas_that_are_asked_for(
    log: Log, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], replicas: int | None
) -> None:
    asked: dict[str, object] = {}
    create = log.create_topic

    def noted(name: str, *given: Any, **more: Any) -> TopicInfo:
        asked[name] = more.get("replicas")
        return create(name, *given, **more)

    words(log, "a")
    monkeypatch.setattr(log, "create_topic", noted)
    props = {f"errors.deadletterqueue.topic.{name}": value for name, value in {"name": "dead", **given}.items()}
    with driver(log, LedgerSink, errors_tolerance="all", **props) as connector:
        connector.run_to_end()
    assert asked["dead"] == replicas


def test_a_put_that_may_succeed_later_is_repeated(log: Log) -> None:
    words(log, "a")
    ListTask.fail_puts = 2
    with driver(log, ListSink) as connector:
        connector.run_to_end()
        assert connector.metrics()["put-batch-retries-total"] == 2
    assert ListTask.written == ["a"]


def test_a_sink_without_offsets_of_its_own_goes_on_from_its_consumer_group(log: Log) -> None:
    words(log, "a")
    with driver(log, ListSink) as connector:
        connector.run_to_end()
        connector.stop()
        words(log, "b")
        connector.run_to_end()
    assert ListTask.written == ["a", "b"]
    assert log.group_offsets("connect-sink") == {TopicPartition("words", 0): 1}


def test_a_numbered_range_that_was_not_written_is_written_with_the_same_records(log: Log) -> None:
    words(log, "a", "b")
    PageTask.fail_writes = 1
    with driver(log, PageSink) as connector:
        with pytest.raises(ConnectError):
            connector.step()
        connector.kill()
        words(log, "c")
        connector.run_to_end()
    assert PageTask.pages == {(0, 0): ["a", "b"], (0, 1): ["c"]}


def test_a_range_that_another_configuration_began_is_refused(log: Log) -> None:
    words(log, "a")
    PageTask.fail_writes = 1
    with driver(log, PageSink) as connector, pytest.raises(ConnectError):
        connector.step()
    with driver(log, PageSink, target="elsewhere") as connector, pytest.raises(ConnectError) as error:
        connector.step()
    assert error.value.condition == "RANGE_OF_OTHER_CONFIGURATION"
    assert '{"kafka_topic": "words", "kafka_partition": 0}, "offset": {"kafka_offset": 0}' in str(error.value)


def test_partitions_are_shared_by_tasks(log: Log) -> None:
    log.create_topic("words", 3, {})
    with driver(log, LedgerSink, tasks_max="2") as connector:
        connector.start()
        assert [int(started.metrics()["partition-count"]) for started in connector._tasks.values()] == [0, 0]
        connector.step()
        assert [int(started.metrics()["partition-count"]) for started in connector._tasks.values()] == [2, 1]
