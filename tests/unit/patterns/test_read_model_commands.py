"""The commands of read models, replays and erasures."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.unit.patterns import read_model_program
from tests.unit.patterns.shop import Paid, Placed
from tests.unit.patterns.test_read_models import Events

from hayase.cli.main import run_cli
from hayase.patterns.read_models.runner import ReadModelState

TARGET = f"{read_model_program.__file__}:topology"


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Events]:
    monkeypatch.setenv("READ_MODEL_TARGET", str(tmp_path / "shop.db"))
    made = Events(tmp_path)
    made.record("a", Placed("book"), Paid(5))
    yield made
    made.log.close()


def call(events: Events, tmp_path: Path, *arguments: str) -> int:
    where = ["-c", "application.id=orders", "-c", f"log.dir={tmp_path / 'topics'}"]
    return run_cli([*arguments, *where])


@pytest.mark.long
def test_a_model_is_filled_shown_verified_and_replaced(
    events: Events, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call(events, tmp_path, "read-models", "run", TARGET, "--until-filled") == 0
    assert f"orders v1: {ReadModelState.RUNNING}, 2 offsets, lag 0, 100%" in capsys.readouterr().out
    assert call(events, tmp_path, "read-models", "verify", TARGET) == 0
    monkeypatch.setenv("READ_MODEL_VERSION", "2")
    assert call(events, tmp_path, "read-models", "switch", TARGET, "orders") == 1
    assert "has no version 2" in capsys.readouterr().err
    assert call(events, tmp_path, "read-models", "run", TARGET, "orders", "--until-filled") == 0
    assert call(events, tmp_path, "read-models", "switch", TARGET, "orders") == 0
    assert "orders shows version 2; before: 1" in capsys.readouterr().out
    assert call(events, tmp_path, "read-models", "status", TARGET, "--format", "json") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["version"], row["shown"], row["lag"]) for row in rows] == [(1, "no", 0), (2, "yes", 0)]
    assert call(events, tmp_path, "read-models", "drop", TARGET, "orders", "--version", "1") == 0


@pytest.mark.long
def test_verification_ends_with_an_error_where_a_row_was_changed(
    events: Events, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call(events, tmp_path, "read-models", "run", TARGET, "--until-filled")
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        database.execute("DELETE FROM orders_v1")
    assert call(events, tmp_path, "read-models", "verify", TARGET, "orders") == 1
    assert "row a is missing in the table" in capsys.readouterr().err


def test_events_are_replayed_into_a_folder(events: Events, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["events", "replay", TARGET, "--until", "1", "--into", str(tmp_path / "out")]
    assert call(events, tmp_path, *arguments) == 0
    assert "1 records, 1 states" in capsys.readouterr().err
    with closing(sqlite3.connect(tmp_path / "out" / "replay.sqlite")) as database:
        assert database.execute("SELECT * FROM orders").fetchall() == [("a", "book", 0)]


def test_erasing_where_nothing_is_personal_is_refused(
    events: Events, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(events, tmp_path, "events", "erase", TARGET, "customer-17") == 1
    assert "NO_PERSONAL_FIELDS" in capsys.readouterr().err
