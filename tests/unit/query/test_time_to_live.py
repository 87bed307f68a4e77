"""Stores with a time to live, read from outside.

A row that has expired is not there, after a restore and as of then neither.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest
from tests.unit.query.local_app import START_MS, LocalApp

from hayase import (
    Consumed,
    Follower,
    JsonSerde,
    KeyQuery,
    Materialized,
    RangeQuery,
    Serdes,
    StateQueryRequest,
    StreamsBuilder,
    Topology,
    count,
)
from hayase.query.follower_replica import FollowerReplica
from hayase.query.stores import StoreHandle
from hayase.storage.lmdb_env import close_environment

pytestmark = pytest.mark.long

TTL = timedelta(seconds=10)


def recent() -> Topology:
    builder = StreamsBuilder()
    schema = JsonSerde(schema={"item": pl.String, "amount": pl.Int64})
    given = builder.stream("orders", Consumed.with_(Serdes.string(), schema))
    given.group_by_key().agg(Materialized.as_("recent").with_ttl(TTL), n=count())
    return builder.build()


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalApp]:
    """With two epochs: users of one partition each at 0 s and at 5 s, then one of them again at 12 s."""
    made = LocalApp(tmp_path, recent(), num_bundles=1)
    made.put([("ada", "x", 1)], time_ms=START_MS)
    made.epoch([])
    made.put([("ada", "x", 1)], time_ms=START_MS + 5_000)
    made.put([("bob", "x", 1), ("cyd", "x", 1)], time_ms=START_MS + 5_000)
    made.epoch([])
    yield made
    made.close()
    for data in tmp_path.rglob("data.mdb"):
        close_environment(data.parent)


def rows(store: StoreHandle) -> dict[str, int]:
    return {row.key: row.value["n"] for row in store.all()}


def expire(local: LocalApp) -> None:
    """All that was there expires, in every partition."""
    for user in ("ada", "bob", "cyd", "dan", "eve", "fay", "gus", "hal"):
        local.put([(user, "x", 1)], time_ms=START_MS + (20_000 if user > "cyd" else 0))
    local.epoch([])


def test_a_row_that_has_expired_is_in_no_answer(local: LocalApp) -> None:
    store = local.app.store("recent")
    assert rows(store) == {"ada": 2, "bob": 1, "cyd": 1}
    expire(local)
    assert set(rows(store)) == {"dan", "eve", "fay", "gus", "hal"}
    assert store.get("ada").value is None
    assert store.get("dan").value["n"] == 1
    asked = StateQueryRequest.in_store("recent")
    found = local.app.query(asked.with_query(KeyQuery.with_key("ada"))).partition_results
    assert [result.result for result in found.values()] == [None, None, None]
    ranges = local.app.query(asked.with_query(RangeQuery.with_no_bounds())).partition_results
    assert {key for result in ranges.values() for key, _ in result.result} == {"dan", "eve", "fay", "gus", "hal"}


def test_as_of_an_older_epoch_it_is_there_as_it_was_then(local: LocalApp) -> None:
    expire(local)
    assert rows(local.app.store("recent", as_of_epoch=1)) == {"ada": 2, "bob": 1, "cyd": 1}
    assert "ada" not in rows(local.app.store("recent", as_of_epoch=2))


def test_a_restored_state_and_a_follower_show_the_same(tmp_path: Path, local: LocalApp) -> None:
    expire(local)
    before = rows(local.app.store("recent"))
    follower = Follower(local.topology, local.settings, directory=tmp_path / "copy")
    with FollowerReplica(local.blobs, "app", follower.folder) as replica:
        replica.step()
        assert rows(follower.store("recent")) == before
    local.close()
    for data in (tmp_path / "state" / "app" / "state").rglob("data.mdb"):
        close_environment(data.parent)
    shutil.rmtree(tmp_path / "state" / "app" / "state")
    again = LocalApp(tmp_path, recent(), num_bundles=1)
    again.put([("dan", "x", 1)], time_ms=START_MS + 20_001)
    again.epoch([])
    assert rows(again.app.store("recent")) == before | {"dan": 2}
    again.close()


def test_a_time_to_live_may_be_left_out_and_come_back(tmp_path: Path, local: LocalApp) -> None:
    local.close()
    builder = StreamsBuilder()
    schema = JsonSerde(schema={"item": pl.String, "amount": pl.Int64})
    given = builder.stream("orders", Consumed.with_(Serdes.string(), schema))
    given.group_by_key().agg(Materialized.as_("recent"), n=count())
    without = LocalApp(tmp_path, builder.build(), num_bundles=1)
    without.put([("ada", "x", 1)], time_ms=START_MS + 100_000)
    without.epoch([])
    assert rows(without.app.store("recent")) == {"ada": 3, "bob": 1, "cyd": 1}
    without.close()
    again = LocalApp(tmp_path, recent(), num_bundles=1)
    again.put([("ada", "x", 1)], time_ms=START_MS + 100_001)
    again.epoch([])
    assert rows(again.app.store("recent"))["ada"] == 4
    again.close()
