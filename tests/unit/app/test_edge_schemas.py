"""A program that cannot read what an earlier one left between its sub-topologies is refused before it loses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.query.local_app import LocalApp, rows_of

from hayase import Consumed, Grouped, Materialized, Repartitioned, Serde, Serdes, StreamsBuilder, Topology
from hayase.app.edge_schemas import check_edge_schemas
from hayase.compiler.compile import compile_subtopologies
from hayase.compiler.options import compile_options, configured
from hayase.core.config import StreamsConfig
from hayase.core.errors import CheckpointError


def shuffled(key: Serde[Any]) -> Topology:
    builder = StreamsBuilder()
    orders = builder.stream("orders", Consumed.with_(Serdes.string(), Serdes.json()))
    by_amount = orders.group_by(lambda _, order: order["amount"], Grouped.with_(key, Serdes.json()))
    by_amount.count(Materialized.as_("numbers"))
    return builder.build()


def through_a_topic(value: Serde[Any]) -> Topology:
    builder = StreamsBuilder()
    orders = builder.stream("orders", Consumed.with_(Serdes.string(), Serdes.json()))
    amounts = orders.map_values(lambda order: order["amount"])
    amounts.repartition(Repartitioned.with_(Serdes.string(), value).with_name("amounts")).to("out")
    return builder.build()


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[[Topology], LocalApp]]:
    apps: list[LocalApp] = []

    def start(topology: Topology) -> LocalApp:
        app = LocalApp(tmp_path, topology)
        apps.append(app)
        check(app, topology)
        return app

    yield start
    for app in apps:
        app.close()


def check(app: LocalApp, topology: Topology) -> None:
    config = StreamsConfig(app.settings)
    topology = configured(topology, config)
    compiled = compile_subtopologies(topology, compile_options(config))
    check_edge_schemas(app.blobs, app.log, topology, app.plan, compiled, "app")


def test_serdes_of_a_shuffle_may_change_between_epochs(started: Callable[[Topology], LocalApp]) -> None:
    app = started(shuffled(Serdes.long()))
    app.epoch(rows_of(0))
    check(app, shuffled(Serdes.json()))
    check(app, shuffled(Serdes.json()))
    assert len(app.blobs.list("edges/")) == 2


def test_serdes_of_a_shuffle_may_change_while_an_epoch_is_open_that_has_sent_nothing(
    started: Callable[[Topology], LocalApp],
) -> None:
    app = started(shuffled(Serdes.long()))
    app.put(rows_of(0))
    app.plan_epoch()
    check(app, shuffled(Serdes.json()))


def test_what_an_open_epoch_has_sent_must_be_readable(started: Callable[[Topology], LocalApp]) -> None:
    app = started(shuffled(Serdes.long()))
    app.put(rows_of(0))
    record = app.plan_epoch()
    app.run_bundle("0-0", record, [])
    with pytest.raises(CheckpointError, match=r"epoch 0 is open.*written by LongSerde.*read by JsonSerde") as raised:
        check(app, shuffled(Serdes.json()))
    assert raised.value.condition == "OPEN_EPOCH_OF_ANOTHER_PROGRAM"
    assert raised.value.context["topic"].endswith("-repartition")
    check(app, shuffled(Serdes.long()))
    assert len(app.blobs.list("edges/")) == 1


def test_keys_that_are_readable_under_other_bytes_are_other_keys(started: Callable[[Topology], LocalApp]) -> None:
    app = started(shuffled(Serdes.json()))
    app.put(rows_of(0))
    record = app.plan_epoch()
    app.run_bundle("0-0", record, [])
    with pytest.raises(CheckpointError, match=r"of its keys, they were written by JsonSerde.*read by StringSerde"):
        check(app, shuffled(Serdes.string()))


def test_what_is_unread_in_an_internal_topic_must_be_readable(started: Callable[[Topology], LocalApp]) -> None:
    app = started(through_a_topic(Serdes.long()))
    app.epoch()
    check(app, through_a_topic(Serdes.integer()))
    check(app, through_a_topic(Serdes.long()))
    app.put([("u", "i", 1)], topic="app-amounts-repartition")
    with pytest.raises(CheckpointError, match=r"holds 1 records.*written by LongSerde.*read by DoubleSerde") as raised:
        check(app, through_a_topic(Serdes.double()))
    assert raised.value.condition == "UNREAD_INTERNAL_RECORDS"
