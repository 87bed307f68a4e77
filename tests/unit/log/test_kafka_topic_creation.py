"""A topic that is asked for while no broker takes part: the answers are made up here, no broker says so at will."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from hayase.core.errors import LogError
from hayase.log.kafka import admin
from hayase.log.kafka.admin import KafkaAdmin
from hayase.log.protocol import LogConfig, TopicInfo

FENCED = "Unable to replicate the partition 1 time(s): All brokers are currently fenced."
TOO_FEW = "Unable to replicate the partition 3 time(s): only 1 broker(s) are registered."


class Answers:
    """A client that refuses with these texts, one after the other, and then agrees."""

    def __init__(self, *refusals: str) -> None:
        self.refusals = list(refusals)
        self.replicas: list[int] = []

    def create_topics(self, topics: list[Any], **_: object) -> dict[str, Future[None]]:
        future: Future[None] = Future()
        self.replicas += [topic.replication_factor for topic in topics]
        if self.refusals:
            reason = KafkaError(KafkaError.INVALID_REPLICATION_FACTOR, self.refusals.pop(0))
            future.set_exception(KafkaException(reason))
        else:
            future.set_result(None)
        return {topics[0].topic: future}


def admin_with(monkeypatch: pytest.MonkeyPatch, client: Answers, timeout_s: float = 60.0) -> KafkaAdmin:
    now = iter(range(1000))
    asked = KafkaAdmin(
        LogConfig("kafka", "127.0.0.1:9"), timeout_s=timeout_s, monotonic=lambda: float(next(now)), sleep=lambda _: None
    )
    monkeypatch.setattr(KafkaAdmin, "client", client)
    monkeypatch.setattr(asked, "_made", lambda name: TopicInfo(name, "id", 1, {}))
    return asked


def test_it_is_made_once_a_broker_takes_part_again(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Answers(FENCED, FENCED)
    assert admin_with(monkeypatch, client).create_topic("t", 1, {}).name == "t"
    assert client.refusals == []


def test_replicas_are_those_that_are_asked_for_or_the_default_of_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Answers()
    for replicas in (None, 3):
        admin_with(monkeypatch, client).create_topic("t", 1, {}, replicas)
    assert client.replicas == [-1, 3]


def test_brokers_that_stay_away_are_an_error_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LogError, match="fenced"):
        admin_with(monkeypatch, Answers(*[FENCED] * 20), timeout_s=5.0).create_topic("t", 1, {})


def test_more_replicas_than_brokers_are_an_error_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Answers(TOO_FEW, TOO_FEW)
    with pytest.raises(LogError, match="only 1 broker"):
        admin_with(monkeypatch, client).create_topic("t", 1, {})
    assert client.refusals == [TOO_FEW]


class OpeningPartitions:
    """One of the clients of a topic whose partitions open one by one: each look at their ends finds one more."""

    def __init__(self, clients: list[OpeningPartitions]) -> None:
        self.looks = 0
        self.clients = clients

    def list_offsets(self, wanted: dict[Any, Any], **_: object) -> dict[Any, Future[Any]]:
        self.looks += 1
        are_open = sum(client.looks for client in self.clients)
        answers: dict[Any, Future[Any]] = {key: Future() for key in wanted}
        for key, answer in answers.items():
            if key.partition < are_open:
                answer.set_result(SimpleNamespace(offset=0))
            else:
                answer.set_exception(KafkaException(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION)))
        return answers


def test_one_client_looks_until_all_partitions_of_a_new_topic_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[OpeningPartitions] = []

    def open_client(_: LogConfig) -> OpeningPartitions:
        opened.append(OpeningPartitions(opened))
        return opened[-1]

    monkeypatch.setattr(admin, "open_admin", open_client)
    asked = KafkaAdmin(LogConfig("kafka", "127.0.0.1:9"), monotonic=lambda: 0.0, sleep=lambda _: None)
    monkeypatch.setattr(asked, "_wait", lambda name, there: None)
    monkeypatch.setattr(asked, "describe", lambda names: {name: TopicInfo(name, "id", 4, {}) for name in names})
    assert asked._made("t").partitions == 4
    assert [client.looks for client in opened] == [4]
