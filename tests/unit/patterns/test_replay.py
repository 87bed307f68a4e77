"""Replays: equal byte by byte, up to a time, with another program, with tables of the DSL."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.unit.patterns import local_orders
from tests.unit.patterns.local_orders import LocalOrders
from tests.unit.patterns.shop import Expired, Paid, Pay, Place, Placed
from tests.unit.patterns.test_read_models import Events, model_in, order

from hayase import Consumed, Grouped, Serdes, StreamsBuilder
from hayase.core.config import StreamsConfig
from hayase.core.errors import ConfigError, StateError
from hayase.patterns import PatternsApp, ReadModel, SqliteTable, TableChange, TableSource, Upsert
from hayase.patterns.replay import replay
from hayase.task.epoch_record import record_name


@pytest.fixture
def events(tmp_path: Path) -> Iterator[Events]:
    made = Events(tmp_path)
    made.record("a", Placed("book"), Paid(5), Paid(6))
    made.record("b", Placed("pen"), Paid(1), Expired())
    yield made
    made.log.close()


def topology() -> Any:
    builder = StreamsBuilder()
    order.add_to(builder)
    return builder.build()


def rows(folder: Path, table: str = "orders") -> list[tuple[Any, ...]]:
    with contextlib.closing(sqlite3.connect(folder / "replay.sqlite")) as database:
        return database.execute(f'SELECT * FROM "{table}" ORDER BY 1').fetchall()


def test_two_replays_are_equal_byte_by_byte(events: Events, tmp_path: Path) -> None:
    for folder in ("one", "two"):
        replay(topology(), [model_in(tmp_path)], events.settings, tmp_path / folder)
    for name in ("replay.sqlite", "manifest.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert rows(tmp_path / "one") == [("a", "book", 6)]
    assert [row[:3] for row in rows(tmp_path / "one", "order-state")] == [("a", 3, "Order"), ("b", 3, "Order")]
    assert not (tmp_path / "shop.db").exists()


def test_a_replay_ends_with_a_time(events: Events, tmp_path: Path) -> None:
    result = replay(topology(), [model_in(tmp_path)], events.settings, tmp_path / "out", until_ms=5)
    assert rows(tmp_path / "out") == [("a", "book", 6), ("b", "pen", 1)]
    assert result.events == 5


def test_another_program_replays_the_same_events(events: Events, tmp_path: Path) -> None:
    what_if = ReadModel(
        "orders",
        order,
        lambda event: Upsert(order_id=event.aggregate_id, cents=event.version),
        model_in(tmp_path).target,
    )
    replay(topology(), [what_if], events.settings, tmp_path / "out")
    assert rows(tmp_path / "out") == [("a", None, 3), ("b", None, 3)]


@dataclass
class ItemRow:
    item: str
    orders: int


def test_a_table_of_the_dsl_is_replayed_by_its_topology(events: Events, tmp_path: Path) -> None:
    builder = StreamsBuilder()
    order.add_to(builder)
    text = Serdes.string()
    placed = order.events(builder).filter(lambda key, recorded: isinstance(recorded.event, Placed))
    counts = placed.map(lambda key, recorded: (recorded.event.item, "")).group_by_key(Grouped.with_(text, text)).count()
    source = TableSource(counts, "items", text, Serdes.long())

    def project(change: TableChange[str, int]) -> object:
        return ItemRow(change.key, change.value or 0)

    items = ReadModel("items", source, project, SqliteTable(ItemRow, "item", tmp_path / "shop.db"))
    events.record("c", Placed("book"))
    replay(builder.build(), [items], events.settings, tmp_path / "out")
    assert rows(tmp_path / "out", "items") == [("book", 2), ("pen", 1)]


def test_a_folder_with_something_in_it_is_refused(events: Events, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="FOLDER_NOT_EMPTY"):
        replay(topology(), [], events.settings, tmp_path)


def test_a_topic_that_would_lose_events_is_refused(events: Events, tmp_path: Path) -> None:
    events.log.alter_topic_config("order-events", {"retention.ms": "1000"})
    with pytest.raises(ConfigError, match="EVENTS_WOULD_BE_LOST"):
        replay(topology(), [], events.settings, tmp_path / "out")


def epochs_of_orders(folder: Path, *commands: object, **options: Any) -> LocalOrders:
    """An application that took each command in an epoch of its own."""
    orders = LocalOrders(folder, **options)
    with PatternsApp(local_orders.topology, orders.settings).commands("order") as client:
        for command in commands:
            client.send_nowait("17", command)
            orders.epoch()
    return orders


def test_a_replay_ends_with_an_epoch(tmp_path: Path) -> None:
    orders = epochs_of_orders(tmp_path, Place("book"), Pay(5), Pay(7))
    settings = StreamsConfig(orders.settings)
    for epoch, version in ((0, 1), (1, 3), (2, 5)):
        folder = tmp_path / f"to {epoch}"
        replay(topology(), [], settings, folder, until_epoch=epoch)
        state = PatternsApp(local_orders.topology, orders.settings).events("order").state("17", epoch=epoch)
        assert [row[:2] for row in rows(folder, "order-state")] == [("17", state.version)] == [("17", version)]
    orders.app.close()


def test_a_replay_to_an_epoch_has_of_other_topics_what_the_epoch_has_read(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    order.add_to(builder)
    text = Serdes.string()
    visits = builder.stream("visits", Consumed.with_(text, text))
    source = TableSource(visits.group_by_key().count(), "visits-rows", text, Serdes.long())

    def project(change: TableChange[str, int]) -> object:
        return ItemRow(change.key, change.value or 0)

    counted = ReadModel("visited", source, project, SqliteTable(ItemRow, "item", tmp_path / "shop.db"))
    orders = LocalOrders(tmp_path, topology=builder.build(), topics=(*order.topics, source.topic))
    for _ in range(2):  # of a time that is later than that of all epochs
        orders.app.put([("ada", "", 0)], "visits", time_ms=4_000_000_000_000)
        orders.epoch()
    for epoch in (0, 1):
        replay(builder.build(), [counted], StreamsConfig(orders.settings), tmp_path / str(epoch), until_epoch=epoch)
        assert rows(tmp_path / str(epoch), "visited") == [("ada", epoch + 1)]
    orders.app.close()


def test_epochs_that_have_one_time_cannot_be_distinguished(tmp_path: Path) -> None:
    orders = epochs_of_orders(tmp_path, Place("book"))
    orders.epoch(after_ms=0)
    with pytest.raises(StateError, match="give epoch 1") as error:
        replay(topology(), [], StreamsConfig(orders.settings), tmp_path / "out", until_epoch=0)
    assert error.value.condition == "EPOCHS_NOT_APART"
    replay(topology(), [], StreamsConfig(orders.settings), tmp_path / "out", until_epoch=1)
    assert [row[:2] for row in rows(tmp_path / "out", "order-state")] == [("17", 1)]
    orders.app.close()


def test_an_epoch_that_is_open_or_forgotten_or_beside_a_time_is_refused(tmp_path: Path) -> None:
    orders = epochs_of_orders(tmp_path, Place("book"), Pay(5))
    settings = StreamsConfig(orders.settings)
    with pytest.raises(ConfigError, match="the last one is epoch 1"):
        replay(topology(), [], settings, tmp_path / "out", until_epoch=2)
    with pytest.raises(ConfigError, match="not both"):
        replay(topology(), [], settings, tmp_path / "out", until_epoch=1, until_ms=5)
    orders.app.blobs.delete(record_name(0))
    with pytest.raises(StateError, match="the oldest that is kept is epoch 1") as error:
        replay(topology(), [], settings, tmp_path / "out", until_epoch=0)
    assert error.value.condition == "EPOCH_FORGOTTEN"
    assert not (tmp_path / "out").exists()
    orders.app.close()
