"""An epoch that meets damaged state is run again over a state that was rebuilt, in the same attempt."""

from __future__ import annotations

import logging
from pathlib import Path

import lmdb
import pytest
from tests.unit.query.local_app import LocalApp

from hayase.core.errors import StateError
from hayase.state.bundle import BundleState
from hayase.state.environment import damaged
from hayase.state.epoch import EpochState


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
