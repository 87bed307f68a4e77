"""Where the stores of a topology are kept, and whether they have changelogs."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hayase import (
    Consumed,
    HayaseError,
    Materialized,
    Serdes,
    Stores,
    StoreType,
    StreamsBuilder,
    StreamsConfig,
    TimeWindows,
    Topology,
)
from hayase.compiler.options import configured
from hayase.core.errors import ConfigError
from hayase.state.stores.spec import StoreSpec
from hayase.testing import TopologyTestDriver

TEXT = Serdes.string()
SECOND = timedelta(seconds=1)


def topology(options: Materialized) -> Topology:
    """A table, an aggregate, windows, and a global table, each with these options."""
    builder = StreamsBuilder()
    consumed = Consumed.with_(TEXT, TEXT)
    builder.table("t", consumed, with_name(options, "table"))
    builder.global_table("g", consumed, with_name(options, "global"))
    grouped = builder.stream("in", consumed).group_by_key()
    grouped.count(with_name(options, "count"))
    windows = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
    grouped.windowed_by(windows).count(with_name(options, "windows").with_retention(timedelta(hours=1)))
    return builder.build()


def with_name(options: Materialized, name: str) -> Materialized:
    made = Materialized.as_(name)
    if options.store_type is not None:
        made = made.with_store_type(options.store_type)
    return made if options.logging else made.with_logging_disabled()


def stores(options: Materialized, **settings: str) -> dict[str, StoreSpec]:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return dict(configured(topology(options), StreamsConfig({"application.id": "a", **given})).stores)


def test_stores_are_on_disk_and_logged_unless_something_else_is_said() -> None:
    assert {(spec.store_type, spec.logging) for spec in stores(Materialized()).values()} == {
        (StoreType.PERSISTENT, True)
    }


@pytest.mark.parametrize(
    ("settings", "in_memory"),
    [
        ({"default_dsl_store": "in_memory"}, True),
        ({"default_dsl_store": "rocksDB"}, False),
        ({"default_dsl_store": "in_memory", "dsl_store_suppliers_class": "persistent"}, False),
        (
            {
                "dsl_store_suppliers_class": "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers"
                "$InMemoryDslStoreSuppliers"
            },
            True,
        ),
    ],
)
def test_settings_say_where_stores_are_that_do_not_say_it_themselves(settings: dict[str, str], in_memory: bool) -> None:
    assert {spec.in_memory for spec in stores(Materialized(), **settings).values()} == {in_memory}
    said = Materialized().with_store_type(StoreType.IN_MEMORY)
    assert all(spec.in_memory for spec in stores(said, **settings).values())


def test_a_store_type_is_also_what_materialized_begins_with() -> None:
    assert Materialized.as_(StoreType.IN_MEMORY) == Materialized().with_store_type(StoreType.IN_MEMORY)
    assert Materialized.as_("s").with_store_type("in_memory").store_type is StoreType.IN_MEMORY  # type: ignore[arg-type]


def test_another_store_type_is_refused_with_those_there_are() -> None:
    with pytest.raises(HayaseError, match=r"StoreType\.PERSISTENT, StoreType\.IN_MEMORY") as caught:
        Materialized().with_store_type("rocks")  # type: ignore[arg-type]
    assert caught.value.condition == "INVALID_STORE_TYPE"


@pytest.mark.parametrize("key", ["default.dsl.store", "dsl.store.suppliers.class"])
def test_another_store_type_in_the_settings_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match="in_memory"):
        StreamsConfig({"application.id": "a", key: "paper"})


def test_a_global_table_is_logged_in_any_case() -> None:
    found = stores(Materialized().with_logging_disabled())
    assert {name: spec.logging for name, spec in found.items()} == {
        "table": False,
        "count": False,
        "windows": False,
        "global": True,
    }


def test_logging_can_be_enabled_again_but_takes_no_settings_of_a_topic() -> None:
    options = Materialized().with_logging_disabled().with_logging_enabled({})
    assert options.logging
    with pytest.raises(HayaseError, match=r"state\.history\.retention\.ms") as caught:
        options.with_logging_enabled({"min.insync.replicas": "2"})
    assert caught.value.condition == "CHANGELOG_IS_NO_TOPIC"


@pytest.mark.parametrize("logged", [True, False], ids=["logged", "unlogged"])
@pytest.mark.parametrize("store_type", list(StoreType))
def test_the_test_driver_runs_every_kind_alike(store_type: StoreType, logged: bool) -> None:
    options = Materialized().with_store_type(store_type)
    with TopologyTestDriver(topology(options if logged else options.with_logging_disabled())) as driver:
        source = driver.create_input_topic("in", TEXT, TEXT)
        driver.create_input_topic("t", TEXT, TEXT).pipe_input("k", "v")
        for time_ms in (0, 1, 60_000):
            source.pipe_input("k", "v", timestamp_ms=time_ms)
        assert driver.store("count").get("k").value == 3
        assert driver.store("table").get("k").value == "v"
        assert [found.value for _, found in driver.store("windows").fetch("k", 0, 60_000)] == [2, 1]


def test_stores_of_processors_say_themselves_where_they_are_whatever_the_settings() -> None:
    made = [
        Stores.key_value_store("a", TEXT, TEXT),
        Stores.timestamped_key_value_store("b", TEXT, TEXT, store_type=StoreType.IN_MEMORY, logging=False),
        Stores.window_store("c", TEXT, TEXT, window_size=SECOND, retention=SECOND, logging=False),
    ]
    assert [(spec.store_type, spec.logging) for spec in made] == [
        (StoreType.PERSISTENT, True),
        (StoreType.IN_MEMORY, False),
        (StoreType.PERSISTENT, False),
    ]
