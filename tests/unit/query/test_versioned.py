"""Versioned tables, read from outside: as of a timestamp, after a restart, and as of an older epoch."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from tests.unit.query.local_app import START_MS, LocalApp

from hayase import Consumed, JsonSerde, Materialized, Serdes, Stores, StreamsBuilder, Topology
from hayase.core.errors import StateError
from hayase.storage.lmdb_env import close_environment

pytestmark = pytest.mark.long


def prices() -> Topology:
    builder = StreamsBuilder()
    schema = JsonSerde(schema={"item": pl.String, "amount": pl.Int64})
    supplier = Stores.persistent_versioned_key_value_store("prices", timedelta(seconds=10))
    builder.table("orders", Consumed.with_(Serdes.string(), schema), Materialized.as_(supplier))
    builder.stream("others", Consumed.with_(Serdes.string(), schema)).to_table(Materialized.as_("plain"))
    return builder.build()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """With two epochs: prices of 1 and 3, then 2 for the time between."""
    local = LocalApp(tmp_path, prices())
    local.put([("tea", "x", 1), ("milk", "x", 9)], time_ms=START_MS)
    local.put([("tea", "x", 3)], time_ms=START_MS + 2_000)
    local.epoch()
    local.put([("tea", "x", 2)], time_ms=START_MS + 1_000)
    local.epoch()
    local.close()
    yield tmp_path
    for data in tmp_path.rglob("data.mdb"):
        close_environment(data.parent)


@pytest.fixture
def local(folder: Path) -> Iterator[LocalApp]:
    made = LocalApp(folder, prices())
    yield made
    made.close()


def test_a_row_is_read_as_it_is_and_as_it_was(local: LocalApp) -> None:
    store = local.app.store("prices")
    answer = store.get("tea")
    assert (answer.value["amount"], answer.timestamp_ms, answer.epoch) == (3, START_MS + 2_000, 1)
    found = [store.get("tea", START_MS + after).value for after in (-1, 0, 999, 1_000, 1_999, 2_000)]
    assert [None if value is None else value["amount"] for value in found] == [None, 1, 1, 2, 2, 3]
    when = datetime.fromtimestamp(START_MS / 1000 + 1, UTC)
    assert store.get("tea", as_of_timestamp=when).timestamp_ms == START_MS + 1_000
    assert {row.key: row.value["amount"] for row in store.all()} == {"tea": 3, "milk": 9}
    assert [row.key for row in store.range("n", None)] == ["tea"]


def test_versions_are_restored_from_the_changelog(folder: Path) -> None:
    shutil.rmtree(folder / "state")
    local = LocalApp(folder, prices())
    local.put([("tea", "x", 4)], time_ms=START_MS + 11_500)  # the beginning cannot be asked for any more
    local.epoch()
    found = [local.app.store("prices").get("tea", START_MS + after).value for after in (999, 1_999, 11_499, 11_500)]
    assert [None if value is None else value["amount"] for value in found] == [None, 2, 3, 4]
    local.close()


def test_as_of_an_older_epoch_the_row_that_came_late_is_not_there_yet(local: LocalApp) -> None:
    before = local.app.store("prices", as_of_epoch=0)
    assert before.get("tea", START_MS + 1_500).value["amount"] == 1


def test_other_stores_do_not_know_what_their_rows_were(local: LocalApp) -> None:
    with pytest.raises(StateError) as raised:
        local.app.store("plain").get("tea", START_MS)
    assert raised.value.condition == "WRONG_STORE_KIND"
    assert "as_of_timestamp" in raised.value.message
