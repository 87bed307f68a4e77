"""Settings: their names and their values are checked where they are given."""

from __future__ import annotations

import re

import pytest

from hayase.core.errors import ConfigError
from hayase.server.errors import RequestError
from hayase.server.overrides import checked_overrides
from hayase.server.settings import OWN_SETTINGS, ServerSettings
from hayase.sql.ast.location import Location
from hayase.sql.engine import SqlEngine
from hayase.sql.errors import StatementError
from hayase.sql.settings import SETTINGS, check_configuration, configured_setting, setting_text

_BAD_VALUES = [
    ("auto.offset.reset", "erliest", "allowed is earliest, latest"),
    ("ksql.streams.auto.offset.reset", "", "allowed is earliest, latest"),
    ("commit.interval.ms", "soon", "allowed is a whole number from 0 on"),
    ("cache.max.bytes.buffering", "-1", "allowed is a whole number from 0 on"),
    ("processing.guarantee", "exactly_once", "use exactly_once_v2"),
    ("ksql.suppress.enabled", "yes", "allowed are true and false"),
    ("ksql.query.pull.table.scan.enabled", "1", "allowed are true and false"),
    ("ksql.persistence.default.format.value", "XML", "allowed are AVRO, DELIMITED"),
    ("ksql.persistence.wrap.single.values", "maybe", "allowed are true and false"),
    ("ksql.sink.partitions", "9999999999", "allowed is a whole number from 1 to 2147483647"),
    ("ksql.sink.replicas", "0", "allowed is a whole number from 1 to 32767"),
    ("ksql.output.topic.name.prefix", "a b", "1 to 249 letters, digits"),
    ("ksql.logging.processing.topic.partitions", "x", "allowed is a whole number from 1"),
    ("ksql.streams.max.task.idle.ms", "long", "allowed is a whole number of at least -1"),
    ("ksql.lambdas.enabled", "2", "allowed are true and false"),
]


@pytest.mark.parametrize(("name", "value", "allowed"), _BAD_VALUES)
def test_a_value_that_is_not_allowed_is_refused_where_it_is_given(name: str, value: str, allowed: str) -> None:
    engine = SqlEngine()
    with pytest.raises(StatementError, match=re.escape(allowed)) as caught:
        engine.script(f"LIST STREAMS;\n  SET '{name}' = '{value}';")
    assert caught.value.condition == "INVALID_SETTING"
    assert f"Invalid value {value} for configuration {name}: " in caught.value.message
    assert caught.value.location == Location(2, 3)
    with pytest.raises(RequestError, match=re.escape(allowed)):
        checked_overrides({name: value}, ServerSettings.of({}))
    with pytest.raises(ConfigError, match=re.escape(allowed)):
        ServerSettings.of({name: value})
    if name.startswith("ksql."):
        with pytest.raises(ConfigError, match=re.escape(allowed)):
            check_configuration({name: value})


def test_values_of_requests_may_be_booleans_and_numbers_of_json() -> None:
    given = {
        "ksql.query.pull.table.scan.enabled": True,
        "commit.interval.ms": 5,
        "ksql.streams.auto.offset.reset": None,
    }
    assert checked_overrides(given, ServerSettings.of({})) == {
        "ksql.query.pull.table.scan.enabled": True,
        "commit.interval.ms": 5,
    }


@pytest.mark.parametrize("name", ["ksql.query.pull.max.qsp", "ksql.query.nope", "hayase.server.max.body", "ksql.nope"])
def test_a_server_does_not_start_with_a_setting_that_is_not_there(name: str) -> None:
    with pytest.raises(ConfigError, match="there is no setting") as caught:
        ServerSettings.of({name: "1"})
    assert caught.value.condition == "UNKNOWN_SETTING"


def test_all_defaults_are_values_that_are_allowed() -> None:
    for setting in SETTINGS.values():
        if setting.default is not None:
            setting.read(setting_text(setting.default))


def test_the_defaults_of_a_server_are_those_of_the_table() -> None:
    settings = ServerSettings.of({})
    for name, attribute in OWN_SETTINGS.items():
        default = SETTINGS[name].default
        assert getattr(settings, attribute) == (None if default is None else SETTINGS[name].read(default)), name
    assert settings.max_push_queries == 100 and settings.max_pull_at_once is None


def test_a_name_of_ksqldb_behind_the_prefix_of_streams_is_another_name() -> None:
    engine = SqlEngine()
    (result,) = engine.script("SET 'ksql.streams.ksql.suppress.enabled' = 'false';")
    assert "Hayase has no setting of Kafka Streams of that name" in result.warnings[0]
    assert engine.settings["ksql.suppress.enabled"] == "true"


def test_the_password_of_an_address_is_not_in_the_error() -> None:
    with pytest.raises(ConfigError) as caught:
        configured_setting("ksql.connect.url", "http://ada:sesame@localhost:8083")
    assert "//***@localhost" in str(caught.value) and "sesame" not in str(caught.value)
