"""Session stores of a running application, read by processes, followers, pins, as of older epochs, by commands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.unit.query.local_app import START_MS, LocalApp

from hayase import (
    Consumed,
    Follower,
    JsonSerde,
    Materialized,
    Serdes,
    SessionWindows,
    StreamsBuilder,
    Topology,
    Window,
    count,
    sum_,
)
from hayase.cli.main import run_cli
from hayase.core.errors import StateError
from hayase.query.follower_replica import FollowerReplica

MINUTE = 60_000
FIRST, SECOND = Window(START_MS, START_MS + MINUTE), Window(START_MS + 60 * MINUTE, START_MS + 60 * MINUTE)


def visits() -> Topology:
    """What users buy in one go (store `visits`), and all together (`users`)."""
    builder = StreamsBuilder()
    schema = JsonSerde(schema={"item": pl.String, "amount": pl.Int64})
    given = builder.stream("orders", Consumed.with_(Serdes.string(), schema)).group_by_key()
    windows = SessionWindows.of_inactivity_gap_and_grace(timedelta(minutes=30), timedelta(days=1))
    given.windowed_by(windows).agg(Materialized.as_("visits"), n=count(), total=sum_("amount"))
    given.agg(Materialized.as_("users"), n=count())
    return builder.build()


@pytest.fixture
def app(tmp_path: Path) -> Iterator[LocalApp]:
    """Ann came twice, Ben once; epoch 0 saw only the beginning."""
    made = LocalApp(tmp_path, visits())
    made.put([("ann", "tea", 3)], time_ms=FIRST.start_ms)
    made.epoch()
    made.put([("ann", "pot", 20), ("ben", "tea", 3)], time_ms=FIRST.end_ms)
    made.put([("ann", "cup", 5)], time_ms=SECOND.start_ms)
    made.epoch()
    yield made
    made.close()


def plain(rows: Any) -> list[tuple[str, Window, int]]:
    return [(row.key.key, row.key.window, row.value["total"]) for row in rows]


ANN = [("ann", FIRST, 23), ("ann", SECOND, 5)]
BEN = ("ben", Window(FIRST.end_ms, FIRST.end_ms), 3)


def test_the_sessions_of_a_key_that_overlap_a_time_come_by_end(app: LocalApp) -> None:
    store = app.app.store("visits")
    assert plain(store.fetch("ann", START_MS, SECOND.end_ms)) == ANN
    assert plain(store.fetch("ann", FIRST.start_ms + 5)) == ANN[:1]
    assert plain(store.find_sessions("ann", FIRST.end_ms + 1, SECOND.start_ms)) == ANN[1:]
    start, end = (datetime.fromtimestamp(ms / 1000, UTC) for ms in FIRST)
    assert plain(store.find_sessions("ann", start, end)) == ANN[:1]


def test_a_session_is_found_by_its_bounds_alone(app: LocalApp) -> None:
    store = app.app.store("visits")
    assert store.fetch_session("ann", *FIRST).value == {"n": 2, "total": 23}
    assert store.fetch_session("ann", FIRST.start_ms, FIRST.end_ms - 1).value is None


def test_all_sessions_of_all_keys_can_be_read(app: LocalApp) -> None:
    store = app.app.store("visits")
    assert sorted(plain(store.all())) == sorted([*ANN, BEN])
    assert sorted(plain(store.fetch_all(FIRST.end_ms, FIRST.end_ms))) == sorted([ANN[0], BEN])


@pytest.mark.long
def test_sessions_are_pinned_followed_and_read_as_they_were(app: LocalApp, tmp_path: Path) -> None:
    with app.app.pin("visits", "users") as pinned:
        assert plain(pinned.store("visits").fetch("ann", 0, SECOND.end_ms)) == ANN
        assert pinned.store("users").get("ann").value == {"n": 3}
    assert plain(app.app.store("visits", as_of_epoch=0).all()) == [("ann", Window(START_MS, START_MS), 3)]
    follower = Follower(app.topology, app.settings, directory=tmp_path / "copy")
    with FollowerReplica(app.blobs, "app", follower.folder) as replica:
        replica.step()
        assert plain(follower.store("visits").fetch("ann", 0, SECOND.end_ms)) == ANN


def test_what_only_session_stores_have_is_refused_elsewhere_and_the_other_way_round(app: LocalApp) -> None:
    sessions, users = app.app.store("visits"), app.app.store("users")
    for ask, instead in [
        (lambda: users.fetch_session("ann", 0, 1), r"use get\(\)"),
        (lambda: users.find_sessions("ann", 0, 1), r"use get\(\)"),
        (lambda: sessions.get("ann"), r"use fetch\(\)"),
    ]:
        with pytest.raises(StateError, match=instead) as caught:
            ask()
        assert caught.value.condition == "WRONG_STORE_KIND"


def test_the_command_line_shows_sessions_with_their_bounds(app: LocalApp, capsys: pytest.CaptureFixture[str]) -> None:
    settings = [f"state.dir={app.settings['state.dir']}", "application.id=app"]
    options = ["--format", "json", *(part for setting in settings for part in ("-c", setting))]
    target = f"{Path(__file__)}:visits"
    assert run_cli(["state", "get", target, "visits", "ann", *options]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [tuple(row["window"].values()) for row in found] == [tuple(FIRST), tuple(SECOND)]
    assert run_cli(["state", "scan", target, "visits", "--since", str(SECOND.start_ms), *options]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_fetch_without_times_gives_all_sessions_of_a_key(app: LocalApp) -> None:
    assert plain(app.app.store("visits").fetch("ann")) == plain(app.app.store("visits").fetch("ann", 0, SECOND.end_ms))
    assert len(app.app.store("visits").fetch("ann")) == 2
    assert len(app.app.store("visits").fetch("ann", None, FIRST.end_ms)) == 1


@pytest.mark.long
@pytest.mark.parametrize("time", ["yesterday", 1.5])
def test_what_is_no_time_is_refused_in_words(app: LocalApp, time: Any) -> None:
    with pytest.raises(StateError, match="is no time; give an aware datetime"):
        app.app.store("visits").fetch("ann", time)
    with pytest.raises(StateError, match="is no time; give an aware datetime"):
        app.app.store("visits", as_of=time)
