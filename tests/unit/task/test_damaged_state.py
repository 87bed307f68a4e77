"""An epoch that meets damaged state is run again over a state that was rebuilt, in the same attempt."""

from __future__ import annotations

import logging
from pathlib import Path

import lmdb
import pytest
from tests.unit.query.local_app import LocalApp

from hayase import Consumed, Materialized, Serdes, StreamsBuilder
from hayase.core.errors import StateError
from hayase.state.environment.bundle import BundleState
from hayase.state.environment.environment import damaged
from hayase.state.environment.epoch import EpochState
from hayase.state.environment.unlogged import UnloggedStores
from hayase.topology.topology import Topology


@pytest.mark.parametrize("kind", ["checksum", "lmdb"])
def test_an_epoch_that_meets_damaged_state_rebuilds_it_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    app = LocalApp(tmp_path)
    app.epoch([("ada", "book", 1), ("bob", "pen", 2)])
    begin, met = BundleState.begin, list[BundleState]()

    def broken_once(state: BundleState) -> EpochState:
        if not met:
            met.append(state)
            raise damaged(state.path, "for this test") if kind == "checksum" else lmdb.CorruptedError("mdb_get")
        return begin(state)

    monkeypatch.setattr(BundleState, "begin", broken_once)
    with caplog.at_level(logging.WARNING):
        app.epoch([("ada", "book", 3)])
    assert len(met) == 1 and not met[0].damaged and met[0].epoch == 1
    assert str(met[0].path / "data.mdb") in caplog.text and "the epoch is run again" in caplog.text
    found = {row.key: row.value for row in app.app.store("users").all()}
    app.close()
    assert found["ada"]["total"] == 4 and found["bob"]["total"] == 2


def test_damage_that_comes_back_at_once_ends_the_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = LocalApp(tmp_path)
    app.epoch([("ada", "book", 1)])

    def broken(state: BundleState) -> EpochState:
        raise damaged(state.path, "for this test")

    monkeypatch.setattr(BundleState, "begin", broken)
    with pytest.raises(StateError, match="STATE_DAMAGED"):
        app.epoch([("ada", "book", 3)])
    app.close()


def _logged_and_unlogged() -> Topology:
    builder = StreamsBuilder()
    orders = builder.stream("orders", Consumed.with_(Serdes.string(), Serdes.json())).group_by_key()
    orders.count(Materialized.as_("logged"))
    orders.count(Materialized.as_("unlogged").with_logging_disabled())
    return builder.build()


def _counts(app: LocalApp, store: str) -> dict[str, int]:
    return {row.key: row.value for row in app.app.store(store).all()}


@pytest.mark.parametrize(
    ("wrong", "kept"),
    [("logged", True), ("unlogged", False), ("neither", False)],
    ids=["logged", "unlogged", "neither"],
)
def test_damage_that_lmdb_finds_empties_stores_without_changelog_only_where_it_may_be_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str, kept: bool
) -> None:
    app = LocalApp(tmp_path, _logged_and_unlogged(), partitions=1, num_stream_threads=1)
    app.epoch([("ada", "book", 1)])
    begin, refused = UnloggedStores.begin, list[int]()

    def broken_until_marked(stores: UnloggedStores) -> EpochState:
        (own,) = stores.states
        met = stores._state if wrong == "logged" else own
        if not refused or (met.epoch == 0 and not met.damaged and not kept and len(refused) < 3):
            refused.append(met.epoch)
            raise lmdb.CorruptedError("mdb_get")
        return begin(stores)

    def has_wrong_pages(state: BundleState) -> bool:
        return wrong == ("unlogged" if "unlogged" in str(state.path) else "logged")

    monkeypatch.setattr(UnloggedStores, "begin", broken_until_marked)
    monkeypatch.setattr(BundleState, "has_wrong_pages", has_wrong_pages)
    app.epoch([("ada", "book", 3)])
    assert refused == [0]
    assert _counts(app, "logged") == {"ada": 2}
    assert _counts(app, "unlogged") == {"ada": 2 if kept else 1}
    app.close()
