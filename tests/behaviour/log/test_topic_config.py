"""Settings of topics: given, read, changed."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from tests.behaviour.log.helpers import append, batch, everything

from hayase.core.errors import ConfigError, ProductionError, UnknownTopicError
from hayase.log.protocol import Log

GIVEN = {
    "cleanup.policy": "compact,delete",
    "delete.retention.ms": "1000",
    "max.compaction.lag.ms": "60000",
    "max.message.bytes": "5000",
    "message.timestamp.type": "LogAppendTime",
    "min.cleanable.dirty.ratio": "0.25",
    "min.compaction.lag.ms": "10",
    "retention.bytes": "1000000",
    "retention.ms": "100000",
    "segment.bytes": "1048576",
    "segment.ms": "50000",
}


def test_settings_given_when_a_topic_is_made_are_read_back(log: Log, new_name: Callable[[], str]) -> None:
    name = new_name()
    assert log.create_topic(name, 1, GIVEN).config == GIVEN
    assert log.describe([name])[name].config == GIVEN


def test_settings_in_effect_are_those_of_the_topic_and_defaults(log: Log, new_name: Callable[[], str]) -> None:
    name = new_name()
    log.create_topic(name, 1, {"retention.ms": "7000"})
    config = log.topic_config(name)
    assert config["retention.ms"] == "7000"
    defaults = {
        "cleanup.policy": "delete",
        "delete.retention.ms": "86400000",
        "local.retention.ms": "-2",
        "local.retention.bytes": "-2",
        "max.compaction.lag.ms": str(2**63 - 1),
        "message.timestamp.type": "CreateTime",
        "min.cleanable.dirty.ratio": "0.5",
        "min.compaction.lag.ms": "0",
        "remote.storage.enable": "false",
        "retention.bytes": "-1",
        "segment.ms": "604800000",
    }
    assert {key: config[key] for key in defaults} == defaults


def test_one_setting_is_changed_another_goes_back_to_its_default_and_others_stay(
    log: Log, new_name: Callable[[], str]
) -> None:
    name = new_name()
    log.create_topic(name, 1, {"retention.ms": "7000", "retention.bytes": "9", "cleanup.policy": "compact"})
    altered = log.alter_topic_config(name, {"retention.ms": "8000", "retention.bytes": None})
    assert altered.config == {"retention.ms": "8000", "cleanup.policy": "compact"}
    assert log.describe([name]) == {name: altered}
    assert log.topic_config(name)["retention.bytes"] == "-1"


@pytest.mark.parametrize(
    "changes",
    [
        {"retention.ms": "soon"},
        {"retention.ms": "-2"},
        {"cleanup.policy": "keep"},
        {"message.timestamp.type": "NoTime"},
        {"min.cleanable.dirty.ratio": "1.1"},
        {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"},
        {"retention": "1"},
        {"retention.bytes": "7", "segment.ms": "0"},
    ],
)
def test_a_wrong_setting_is_refused_and_changes_nothing(log: Log, topic: str, changes: dict[str, str]) -> None:
    before = log.topic_config(topic)
    with pytest.raises(ConfigError) as error:
        log.alter_topic_config(topic, changes)
    assert error.value.condition in ("INVALID_SETTING", "UNKNOWN_SETTING")
    assert log.topic_config(topic) == before


@pytest.mark.parametrize("config", [{"retention": "1"}, {"retention.ms": "soon"}])
def test_a_topic_with_a_wrong_setting_is_not_made(
    log: Log, new_name: Callable[[], str], config: dict[str, str]
) -> None:
    name = new_name()
    with pytest.raises(ConfigError):
        log.create_topic(name, 1, config)
    assert name not in log.topics()


def test_settings_of_a_topic_that_does_not_exist_are_an_error(log: Log, new_name: Callable[[], str]) -> None:
    name = new_name()
    with pytest.raises(UnknownTopicError):
        log.topic_config(name)
    with pytest.raises(UnknownTopicError):
        log.alter_topic_config(name, {"retention.ms": "1"})


def test_no_changes_change_nothing(log: Log, topic: str) -> None:
    assert log.alter_topic_config(topic, {}) == log.describe([topic])[topic]


def test_a_changed_size_limit_holds_for_the_next_record(log: Log, topic: str) -> None:
    append(log, batch(topic, [os.urandom(2_000)]))
    log.alter_topic_config(topic, {"max.message.bytes": "1000"})
    with pytest.raises(ProductionError):
        append(log, batch(topic, [os.urandom(2_000)]))


def test_a_topic_that_stamps_at_append_ignores_the_time_of_the_record(log: Log, new_name: Callable[[], str]) -> None:
    name = new_name()
    log.create_topic(name, 1, {"message.timestamp.type": "LogAppendTime"})
    append(log, batch(name, [b"a", b"b"], times=[1, 2]))
    assert all(row.timestamp_ms > 1_700_000_000_000 for row in everything(log, name))
