"""Topics: made, described, listed, removed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.behaviour.log.helpers import append, batch, bounds, values

from hayase.core.errors import HayaseError, LogError, UnknownTopicError
from hayase.core.records import TopicPartition
from hayase.log.protocol import Log


def test_a_new_topic_is_described_as_it_was_made(log: Log, new_name: Callable[[], str]) -> None:
    name = new_name()
    made = log.create_topic(name, 3, {"cleanup.policy": "compact"})
    assert (made.name, made.partitions, made.config["cleanup.policy"]) == (name, 3, "compact")
    assert log.describe([name]) == {name: made}


def test_a_new_topic_is_empty(log: Log, four: str) -> None:
    assert [bounds(log, four, partition) for partition in range(4)] == [(0, 0)] * 4


def test_topics_are_listed_by_name(log: Log, new_name: Callable[[], str]) -> None:
    names = sorted(log.create_topic(new_name(), 1).name for _ in range(3))
    assert [name for name in log.topics() if name in names] == names


def test_a_topic_that_exists_cannot_be_made_again(log: Log, topic: str) -> None:
    with pytest.raises(LogError) as error:
        log.create_topic(topic, 1)
    assert error.value.condition == "TOPIC_EXISTS"
    assert error.value.context["topic"] == topic


def test_describe_leaves_out_what_does_not_exist(log: Log, topic: str) -> None:
    assert list(log.describe([topic, "no-such-topic"])) == [topic]


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ü", "x" * 250])
def test_names_that_kafka_refuses_are_refused(log: Log, name: str) -> None:
    with pytest.raises(HayaseError):
        log.create_topic(name, 1)


def test_a_topic_has_at_least_one_partition(log: Log, new_name: Callable[[], str]) -> None:
    with pytest.raises(LogError):
        log.create_topic(new_name(), 0)


@pytest.mark.parametrize("setting", [{"retention": "1"}, {"retention.ms": "soon"}])
def test_a_wrong_topic_setting_is_refused(log: Log, new_name: Callable[[], str], setting: dict[str, str]) -> None:
    name = new_name()
    with pytest.raises(HayaseError):
        log.create_topic(name, 1, setting)
    assert name not in log.topics()


def test_a_removed_topic_is_gone(log: Log, topic: str) -> None:
    append(log, batch(topic, [b"v"]))
    log.delete_topic(topic)
    assert topic not in log.topics()
    assert log.describe([topic]) == {}


def test_a_topic_made_anew_has_another_id_and_nothing_of_the_old_one(log: Log, topic: str) -> None:
    before = log.describe([topic])[topic].topic_id
    append(log, batch(topic, [b"old", b"old"]))
    log.delete_topic(topic)
    assert log.create_topic(topic, 1).topic_id != before
    append(log, batch(topic, [b"new"]))
    assert values(log, topic) == [b"new"]


def test_a_topic_that_does_not_exist_cannot_be_removed(log: Log) -> None:
    with pytest.raises(UnknownTopicError) as error:
        log.delete_topic("no-such-topic")
    assert error.value.context["topic"] == "no-such-topic"


@pytest.mark.parametrize("where", [TopicPartition("no-such-topic", 0)])
def test_offsets_of_a_topic_that_does_not_exist_are_an_error(log: Log, where: TopicPartition) -> None:
    for ask in (log.start_offsets, log.end_offsets):
        with pytest.raises(UnknownTopicError):
            ask([where])
    with pytest.raises(UnknownTopicError):
        log.offsets_for_time({where: 0})


def test_offsets_of_a_partition_that_does_not_exist_are_an_error(log: Log, topic: str) -> None:
    with pytest.raises(UnknownTopicError):
        log.end_offsets([TopicPartition(topic, 1)])


def test_no_partitions_have_no_offsets(log: Log) -> None:
    assert log.end_offsets([]) == log.start_offsets([]) == log.offsets_for_time({}) == {}


def test_what_a_group_committed_is_read_back(log: Log, four: str, new_name: Callable[[], str]) -> None:
    group = new_name()
    append(log, batch(four, [b"v"] * 9, partitions=[0, 0, 0, 0, 0, 1, 1, 1, 1]))
    log.commit_group_offsets(group, {TopicPartition(four, 0): 3, TopicPartition(four, 1): 4})
    log.commit_group_offsets(group, {TopicPartition(four, 0): 5})
    assert log.group_offsets(group) == {TopicPartition(four, 0): 5, TopicPartition(four, 1): 4}


def test_a_group_that_committed_nothing_has_no_offsets(log: Log, new_name: Callable[[], str]) -> None:
    assert log.group_offsets(new_name()) == {}
