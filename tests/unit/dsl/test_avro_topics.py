"""Avro in a topology: registry from the application's settings, both forms, failures, subjects of topics and stores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest

from hayase import AvroSerde, Consumed, Materialized, Produced, SchemaRegistryError, Serdes, StreamsBuilder
from hayase.core.errors import ConfigError
from hayase.serde.registry import SchemaRegistry
from hayase.testing import SchemaRegistryServer, TopologyTestDriver

PURCHASE = {
    "type": "record",
    "name": "Purchase",
    "fields": [{"name": "item", "type": "string"}, {"name": "cents", "type": "long"}],
}


@pytest.fixture
def server() -> Iterator[SchemaRegistryServer]:
    with SchemaRegistryServer() as running:
        yield running


def large_purchases() -> Any:
    builder = StreamsBuilder()
    purchases = builder.stream("purchases", Consumed.with_(Serdes.string(), AvroSerde(PURCHASE)))
    purchases.filter(pl.col("cents") > 100).to("large", Produced.with_(Serdes.string(), AvroSerde(PURCHASE)))
    return builder.build()


def settings(server: SchemaRegistryServer, **more: Any) -> dict[str, Any]:
    return {"schema.registry.url": server.url, "schema.registry.max.retries": "0", **more}


@pytest.mark.parametrize("form", ["rows", "columns"])
def test_records_pass_in_both_forms(server: SchemaRegistryServer, form: str) -> None:
    with TopologyTestDriver(large_purchases(), settings(server, **{"processing.form": form})) as driver:
        source = driver.create_input_topic("purchases", Serdes.string(), AvroSerde(PURCHASE))
        sink = driver.create_output_topic("large", Serdes.string(), AvroSerde())
        source.pipe_input("ada", {"item": "book", "cents": 1250})
        source.pipe_input("ada", {"item": "pen", "cents": 30})
        assert sink.read_key_values_to_list() == [("ada", {"item": "book", "cents": 1250})]
    assert SchemaRegistry(server.url).subjects() == ["large-value", "purchases-value"]


@pytest.mark.parametrize("form", ["rows", "columns"])
def test_a_schema_is_asked_for_once_and_not_for_every_record(server: SchemaRegistryServer, form: str) -> None:
    with TopologyTestDriver(large_purchases(), settings(server, **{"processing.form": form})) as driver:
        source = driver.create_input_topic("purchases", Serdes.string(), AvroSerde(PURCHASE))
        for number in range(20):
            source.pipe_input("ada", {"item": "book", "cents": number * 100})
    assert len(server.requests) == 3


@pytest.mark.parametrize("form", ["rows", "columns"])
def test_bytes_that_are_no_record_go_to_the_failure_policy(server: SchemaRegistryServer, form: str) -> None:
    more = {"processing.form": form, "deserialization.exception.handler": "log_and_continue"}
    with TopologyTestDriver(large_purchases(), settings(server, **more)) as driver:
        raw = driver.create_input_topic("purchases", Serdes.string(), Serdes.bytes())
        good = driver.create_input_topic("purchases", Serdes.string(), AvroSerde(PURCHASE))
        sink = driver.create_output_topic("large", Serdes.string(), AvroSerde())
        raw.pipe_input("ada", b"{}")
        raw.pipe_input("ada", b"\0\0\0\0\x63x")
        good.pipe_input("ada", {"item": "book", "cents": 1250})
        assert [key for key, _ in sink.read_key_values_to_list()] == ["ada"]


@pytest.mark.parametrize("form", ["rows", "columns"])
def test_a_registry_that_is_away_stops_the_application_and_drops_nothing(form: str) -> None:
    with SchemaRegistryServer() as server:
        url = server.url
    more = {"processing.form": form, "deserialization.exception.handler": "log_and_continue"}
    config = {"schema.registry.url": url, "schema.registry.max.retries": 0, **more}
    driver = TopologyTestDriver(large_purchases(), config)
    raw = driver.create_input_topic("purchases", Serdes.string(), Serdes.bytes())
    with pytest.raises(SchemaRegistryError, match=url) as found:
        raw.pipe_input("ada", b"\0\0\0\0\1x")
    assert found.value.condition == "SCHEMA_REGISTRY_UNREACHABLE"


@pytest.mark.parametrize("form", ["rows", "columns"])
def test_a_tombstone_needs_no_schema_and_deletes_from_a_table(server: SchemaRegistryServer, form: str) -> None:
    builder = StreamsBuilder()
    builder.table("users", Consumed.with_(Serdes.string(), AvroSerde(PURCHASE)), Materialized.as_("users"))
    with TopologyTestDriver(builder.build(), settings(server, **{"processing.form": form})) as driver:
        source = driver.create_input_topic("users", Serdes.string(), AvroSerde(PURCHASE))
        source.pipe_input("ada", {"item": "book", "cents": 1})
        assert driver.store("users").get("ada").value == {"item": "book", "cents": 1}
        source.pipe_input("ada", None)
        assert driver.store("users").get("ada") is None
    assert "test-users-changelog-value" in SchemaRegistry(server.url).subjects()


def test_without_a_registry_the_error_names_the_setting() -> None:
    with TopologyTestDriver(large_purchases()) as driver:
        source = driver.create_input_topic("purchases", Serdes.string(), AvroSerde(PURCHASE))
        with pytest.raises(ConfigError, match=r"schema\.registry\.url"):
            source.pipe_input("ada", {"item": "book", "cents": 1})


def test_settings_that_exclude_each_other_are_refused(server: SchemaRegistryServer) -> None:
    both = {"auto.register.schemas": "true", "use.latest.version": True}
    with pytest.raises(ConfigError, match="exclude"):
        TopologyTestDriver(large_purchases(), settings(server, **both))


def test_credentials_are_sent_and_a_wrong_password_is_an_error(tmp_path: object) -> None:
    with SchemaRegistryServer(user_info="ada:secret") as server:
        assert SchemaRegistry(server.url, {"basic.auth.user.info": "ada:secret"}).subjects() == []
        with pytest.raises(SchemaRegistryError) as found:
            SchemaRegistry(server.url, {"basic.auth.user.info": "ada:wrong"}).subjects()
    assert found.value.condition == "SCHEMA_REGISTRY_REFUSED"
    assert "secret" not in repr(SchemaRegistry("http://ada:secret@127.0.0.1:1"))


def test_an_unknown_setting_of_the_registry_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"ssl\.ca\.location"):
        SchemaRegistry("https://127.0.0.1:1", {"ssl.ca.locaton": "x"})
