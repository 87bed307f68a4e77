"""`hayase state` and `hayase follow`: stores on the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.query.local_app import START_MS, LocalApp, rows_of

from hayase import Follower
from hayase.cli.main import run_cli
from hayase.query.follower_replica import FollowerReplica
from hayase.storage.lmdb_env import close_environment

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[3]
TARGET = f"{ROOT / 'tests/unit/query/local_app.py'}:orders"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalApp]:
    """An application that has run three epochs."""
    folder = tmp_path_factory.mktemp("state")
    made = LocalApp(folder)
    for number in range(3):
        made.epoch(rows_of(number))
    yield made
    made.close()
    for data in folder.rglob("data.mdb"):
        close_environment(data.parent)


def state(local: LocalApp, command: str, *arguments: str) -> int:
    return run_cli(["state", command, TARGET, *arguments, *settings(local)])


def settings(local: LocalApp) -> list[str]:
    return ["-c", "application.id=app", "-c", f"state.dir={local.folder / 'state'}"]


def test_list_shows_every_store_with_its_kind_rows_and_epoch(
    local: LocalApp, capsys: pytest.CaptureFixture[str]
) -> None:
    assert state(local, "list", "--format", "json") == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["store"]: (row["rows"], row["epoch"]) for row in found}["users"] == (5, 2)
    assert {row["store"] for row in found} == {"users", "items", "hourly"}


def test_list_counts_the_rows_that_scan_prints(local: LocalApp, capsys: pytest.CaptureFixture[str]) -> None:
    assert state(local, "list", "--format", "json") == 0
    listed = {row["store"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    for store, row in listed.items():
        assert state(local, "scan", store, "--limit", "0", "--format", "json") == 0
        assert row["rows"] == len(capsys.readouterr().out.splitlines()) <= row["entries"]
    assert listed["hourly"]["rows"] < listed["hourly"]["entries"]


def test_rows_of_a_large_store_are_not_counted(
    local: LocalApp, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hayase.cli.state._COUNTED_MAX", 3)
    assert state(local, "list", "--format", "json") == 0
    (users,) = [row for row in map(json.loads, capsys.readouterr().out.splitlines()) if row["store"] == "users"]
    assert (users["rows"], users["entries"]) == (None, 5)


def test_get_prints_a_row(local: LocalApp, capsys: pytest.CaptureFixture[str]) -> None:
    assert state(local, "get", "users", "u1") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["key", "value", "timestamp"]
    assert lines[1].split() == ["u1", '{"n":3,"total":6}', "2023-11-14T22:13:20.000Z"]


def test_get_of_a_window_store_prints_the_windows(local: LocalApp, capsys: pytest.CaptureFixture[str]) -> None:
    assert state(local, "get", "hourly", "u1", "--format", "json") == 0
    window = {"start": START_MS, "end": START_MS + 10_000}
    assert json.loads(capsys.readouterr().out) == {
        "key": "u1",
        "window": window,
        "value": {"n": 3},
        "timestamp": START_MS,
    }
    assert state(local, "get", "hourly", "u1") == 0
    assert "2023-11-14T22:13:20.000Z to 2023-11-14T22:13:30.000Z" in capsys.readouterr().out
    assert state(local, "get", "hourly", "u1", "--since", "2023-11-14T22:13:21") == 1


def test_get_of_a_key_that_is_not_there_says_so_and_ends_with_1(
    local: LocalApp, capsys: pytest.CaptureFixture[str]
) -> None:
    assert state(local, "get", "users", "nobody") == 1
    assert capsys.readouterr().err == "no row of key 'nobody' in store 'users'\n"


def test_scan_takes_bounds_and_a_limit_and_says_if_there_is_more(
    local: LocalApp, capsys: pytest.CaptureFixture[str]
) -> None:
    assert state(local, "scan", "users", "--from", "u1", "--to", "u3", "--format", "json") == 0
    assert sorted(json.loads(line)["key"] for line in capsys.readouterr().out.splitlines()) == ["u1", "u2", "u3"]
    assert state(local, "scan", "users", "--limit", "2", "--format", "json") == 0
    told = capsys.readouterr()
    assert len(told.out.splitlines()) == 2 and told.err.startswith("only the first 2 rows")
    assert state(local, "scan", "hourly", "--limit", "0", "--format", "json") == 0
    assert len(capsys.readouterr().out.splitlines()) == 5


def test_as_of_names_an_epoch_or_a_time(local: LocalApp, capsys: pytest.CaptureFixture[str]) -> None:
    assert state(local, "get", "users", "u1", "--as-of", "0", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["value"] == {"n": 1, "total": 1}
    assert state(local, "get", "users", "u1", "--as-of", "2023-11-14T22:13:22Z", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["value"] == {"n": 2, "total": 3}


def test_epochs_prints_the_range_that_as_of_can_name(local: LocalApp, capsys: pytest.CaptureFixture[str]) -> None:
    assert state(local, "epochs", "users") == 0
    _, oldest, newest = capsys.readouterr().out.splitlines()
    assert oldest.split() == ["oldest", "0", "2023-11-14T22:13:21.000Z"]
    assert newest.split() == ["newest", "2", "2023-11-14T22:13:23.000Z"]


def test_a_follower_is_read_by_name_or_folder(local: LocalApp, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Follower(local.topology, local.settings, name="copy").folder
    with FollowerReplica(local.blobs, "app", folder) as replica:
        replica.step()
    for name in ("copy", str(folder)):
        assert state(local, "get", "users", "u1", "--follower", name, "--format", "json") == 0
        assert json.loads(capsys.readouterr().out)["value"] == {"n": 3, "total": 6}
    assert state(local, "followers", "--format", "json") == 0
    found = {row["follower"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert found["copy"] == {"follower": "copy", "epoch": 2, "lag_epochs": 0, "lag_ms": 0, "running": False}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["get", "nothing", "k"], "the topology has no store 'nothing'"),
        (["get", "users", "u1", "--as-of", "9"], "epoch 9 is not a completed one"),
        (["get", "users", "u1", "--as-of", "yesterday"], "--as-of 'yesterday' is no time"),
        (["get", "users", "u1", "--as-of", "1", "--follower", "copy"], "leave one out"),
        (["get", "users", "u1", "--follower", "nobody"], "there is no follower in"),
        (["get", "users", "u1", "--since", "1"], "has no windows"),
        (["scan", "hourly", "--from", "u1"], "is a window store"),
    ],
)
def test_what_is_wrong_is_one_line(
    local: LocalApp, capsys: pytest.CaptureFixture[str], arguments: list[str], error: str
) -> None:
    assert state(local, *arguments) == 1
    told = capsys.readouterr().err
    assert told.startswith("error: ") and error in told and told.count("\n") == 1


def test_follow_follows_until_it_is_told_to_stop(local: LocalApp) -> None:
    command = [
        sys.executable,
        "-c",
        "from hayase.cli.main import main; main()",
        "follow",
        TARGET,
        "--name",
        "cli",
        *settings(local),
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    )
    try:
        assert process.stdout is not None
        assert "following application app" in process.stdout.readline()
        deadline = time.monotonic() + 60
        while Follower(local.topology, local.settings, name="cli").status().epoch < 2:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        told, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0
    assert told.splitlines()[-1] == "stopped: epoch 2, up to date"


def test_as_of_is_a_time_and_as_of_epoch_an_epoch(local: LocalApp, capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for option in (["--as-of-epoch", "0"], ["--as-of", "0"], ["--as-of", "2023-11-14T22:13:22Z"]):
        capsys.readouterr()
        code = state(local, "get", "users", "u1", *option, "--format", "json")
        found.append((code, capsys.readouterr().out))
    assert found[0] == found[1] and found[0][0] == 0
    assert found[2][0] == 0
    assert state(local, "get", "users", "u1", "--as-of-epoch", "1", "--as-of", "2023-11-14") == 1
    assert "--as-of and --as-of-epoch are given; leave one out" in capsys.readouterr().err
