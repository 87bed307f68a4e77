"""Stores whose values a new program cannot read are rewritten.

All of it or nothing, and restore, followers and readers see it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.unit.app import migrated
from tests.unit.query.local_app import START_MS, LocalApp

from hayase import Follower, Serdes, StreamsBuilder, StreamsConfig, Topology
from hayase.app.migrate import Migration, migrate_stores
from hayase.app.migration import finish_migration
from hayase.app.reset import plan_reset
from hayase.app.store_schemas import check_store_schemas
from hayase.cli.main import run_cli
from hayase.compiler.options import configured
from hayase.core.errors import CheckpointError, ConfigError, HayaseError, LeaseHeldError
from hayase.core.failpoints import VARIABLE
from hayase.query.follower_replica import FollowerReplica
from hayase.runtime.driver.lease import lease_for
from hayase.state.changelog.snapshot_policy import SnapshotPolicy
from hayase.storage.lmdb_env import close_environment

pytestmark = pytest.mark.long

ROWS = [("ada", "tea", 3), ("bob", "milk", 2), ("cyd", "air", 0)]
NEW = {"ada": migrated.New("tea", 300, "EUR"), "bob": migrated.New("milk", 200, "EUR")}
PROGRAM = Path(migrated.__file__)


def start(folder: Path, topology: Topology, **settings: Any) -> LocalApp:
    """Start a program as an application does: it is refused if it cannot read its stores."""
    local = LocalApp(folder, topology, num_bundles=2, **settings)
    try:
        finish_migration(local.blobs)
        check_store_schemas(local.blobs, configured(local.topology, StreamsConfig(local.settings)))
    except HayaseError:
        local.close()
        raise
    return local


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """An application of the old version has run two epochs, and was stopped."""
    local = start(tmp_path, migrated.old())
    local.log.create_topic("out", 1)
    local.put([("ada", "tea", 1), ("cyd", "air", 0)], time_ms=START_MS)
    local.epoch([])
    local.put(ROWS, time_ms=START_MS + 1_000)
    local.epoch([])
    local.close()
    yield tmp_path
    for data in tmp_path.rglob("data.mdb"):
        close_environment(data.parent)


def config_of(folder: Path) -> StreamsConfig:
    return StreamsConfig(
        {"application.id": "app", "log.dir": folder / "log", "state.dir": folder / "state", "checkpoint.fsync": False}
    )


def migrate(
    folder: Path, functions: Mapping[str, Any] = migrated.OPTIONS, topology: Topology | None = None, **options: Any
) -> Migration:
    return migrate_stores(topology or migrated.new(), config_of(folder), functions, **options)


def contents(local: LocalApp, source: Any = None) -> dict[str, dict[Any, Any]]:
    """All stores, windows and sessions by their record key."""
    store = (source or local.app).store
    found = {name: {row.key: row.value for row in store(name).all()} for name in (*migrated.STORES, "counts")}
    for name in ("windows", "sessions"):
        found[name] = {key.key: value for key, value in found[name].items()}
    return found


def expect_new(found: dict[str, dict[Any, Any]]) -> None:
    assert found["table"] == found["windows"] == found["sessions"] == NEW
    assert found["versions"] == NEW | {"cyd": migrated.New("air", 0, "EUR")}
    assert found["counts"] == {"ada": 2, "bob": 1, "cyd": 2}


def expect_old(found: dict[str, dict[Any, Any]]) -> None:
    old = {user: migrated.Old(item, amount) for user, item, amount in ROWS}
    assert all(found[name] == old for name in migrated.STORES)


def forget_state(folder: Path) -> None:
    for data in (folder / "state" / "app" / "state").rglob("data.mdb"):
        close_environment(data.parent)
    shutil.rmtree(folder / "state" / "app" / "state")


def test_the_new_program_goes_on_with_what_was_rewritten_also_after_a_restore(folder: Path) -> None:
    with pytest.raises(CheckpointError, match="hayase state migrate"):
        start(folder, migrated.new())
    found = migrate(folder)
    assert [(s.store, s.values, s.changed, s.deleted, s.failed) for s in found.stores] == [
        ("sessions", 3, 2, 1, 0),
        ("table", 3, 2, 1, 0),
        ("versions", 5, 5, 0, 0),
        ("windows", 3, 2, 1, 0),
    ]
    assert (found.epoch, found.finished) == (2, False)
    local = start(folder, migrated.new())
    expect_new(contents(local))  # before it has run
    assert local.app.store("versions").get("ada", START_MS).value == migrated.New("tea", 100, "EUR")
    assert local.app.store("table").get("ada").timestamp_ms == START_MS + 1_000
    local.put([("bob", "milk", 5)], time_ms=START_MS + 2_000)
    assert local.epoch([]) == 3
    expected = contents(local)
    assert expected["table"] == NEW | {"bob": migrated.New("milk", 500, "EUR")}
    local.close()
    forget_state(folder)
    again = start(folder, migrated.new())
    again.put([("ada", "tea", 3)], time_ms=START_MS + 3_000)
    again.epoch([])
    assert contents(again)["table"] == expected["table"]
    assert contents(again)["counts"] == {"ada": 3, "bob": 2, "cyd": 2}
    again.close()


def test_followers_see_it_and_states_as_of_an_older_epoch_stay_as_they_were(folder: Path) -> None:
    local = start(folder, migrated.old())
    follower = Follower(migrated.new(), local.settings, directory=folder / "copy")
    with FollowerReplica(local.blobs, "app", follower.folder) as replica:
        replica.step()
        migrate(folder)
        while replica.step():
            pass
        expect_new(contents(local, follower))
    assert local.app.store("table", as_of_epoch=1).get("ada").value == migrated.Old("tea", 3)
    local.close()


def test_values_are_taken_from_the_checkpoint_even_if_the_state_is_gone_and_history_lies_below_a_snapshot(
    folder: Path,
) -> None:
    local = start(folder, migrated.old())
    local.snapshots = SnapshotPolicy(min_delta_bytes=0)
    local.put([("ada", "tea", 3)], time_ms=START_MS + 1_500)
    local.epoch([])
    local.close()
    forget_state(folder)
    assert migrate(folder).epoch == 3
    local = start(folder, migrated.new())
    local.epoch([])
    assert contents(local)["table"] == NEW
    local.close()


def test_what_does_not_fit_in_memory_goes_through_the_disk_and_in_parts(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hayase.app.migrate._SPILL_EVERY", 1)
    monkeypatch.setattr("hayase.app.migrate._PIECE_BYTES", 1)
    monkeypatch.setattr("hayase.state.environment.spill.EpochSpace.share", 0)
    migrate(folder)
    assert list((folder / "state").rglob("changelog/*/parts/*"))
    forget_state(folder)
    local = start(folder, migrated.new())
    local.epoch([])
    expect_new(contents(local))
    local.close()


def files(folder: Path) -> list[Path]:
    """What is in the checkpoint, except for the lease."""
    checkpoint = Path(config_of(folder).checkpoint_dir)
    return sorted(path for path in checkpoint.rglob("*") if path.is_file() and path.name != "lease")


def test_a_dry_run_counts_and_writes_nothing_while_the_application_runs(folder: Path) -> None:
    local = start(folder, migrated.old())
    local.put(ROWS, time_ms=START_MS + 2_000)
    local.plan_epoch()
    before = files(folder)
    with lease_for(local.blobs, "app"):
        found = migrate(folder, dry_run=True)
        assert sum(store.changed + store.deleted for store in found.stores) == 14
        assert found.epoch is None
        with pytest.raises(LeaseHeldError):
            migrate(folder)
    assert files(folder) == before
    expect_old(contents(local))
    local.close()


def test_if_any_value_fails_nothing_is_written_and_store_key_and_reason_are_told(folder: Path) -> None:
    def broken(value: dict[str, Any]) -> Any:
        return {"item": "tea"} if value["item"] == "milk" else migrated.with_currency(value)

    found = migrate(folder, {**migrated.OPTIONS, "windows": broken, "versions": lambda value: value["cents"]})
    stores = {store.store: store for store in found.stores}
    assert (found.epoch, found.failed) == (None, 6)
    ((key, reason),) = stores["windows"].failures
    assert key == "bob" and "cents" in reason
    assert set(stores["versions"].failures) >= {("ada", "KeyError: 'cents'")}
    local = start(folder, migrated.old())
    expect_old(contents(local))
    local.epoch([])
    local.close()


def test_of_a_migration_that_fails_nothing_is_left(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hayase.app.migrate._SPILL_EVERY", 1)
    monkeypatch.setattr("hayase.state.environment.spill.EpochSpace.share", 0)
    for item in ("tea", "milk", "air"):  # one of them is in a bundle that comes behind another

        def failing(value: dict[str, Any], item: str = item) -> Any:
            return value["cents"] if value["item"] == item else migrated.kept_with_currency(value)

        assert migrate(folder, {**migrated.OPTIONS, "versions": failing}).failed
    left = [path for path in (folder / "state").rglob("*") if "migration" in path.parts or "parts" in path.parts]
    assert not [path for path in left if path.is_file()]


def test_a_program_that_was_started_and_never_ran_an_epoch_can_be_replaced(tmp_path: Path) -> None:
    start(tmp_path, migrated.old()).close()
    found = migrate(tmp_path)
    assert (found.epoch, sum(store.values for store in found.stores)) == (None, 0)
    local = start(tmp_path, migrated.new())
    local.log.create_topic("out", 1)
    local.put([("ada", "tea", 3), ("bob", "milk", 2)])
    local.epoch([])
    assert contents(local)["table"] == NEW
    local.close()


def test_what_a_migration_needs_is_said_before_anything_is_read(folder: Path) -> None:
    without = {store: function for store, function in migrated.OPTIONS.items() if store != "table"}
    with pytest.raises(ConfigError, match="values of 'table' cannot be read"):
        migrate(folder, without)
    with pytest.raises(ConfigError, match="'counts'") as raised:
        migrate(folder, {**migrated.OPTIONS, "counts": migrated.with_currency})
    assert raised.value.condition == "STORE_NOT_CHANGED"
    assert migrate(folder, {}, migrated.old()).stores == ()


def test_an_epoch_that_is_open_must_be_finished_by_the_program_that_began_it(folder: Path) -> None:
    local = start(folder, migrated.old())
    local.put(ROWS)
    local.epoch([], done=False)
    local.close()
    with pytest.raises(CheckpointError) as raised:
        migrate(folder)
    assert (raised.value.condition, raised.value.context["epoch"]) == ("EPOCH_OPEN", 2)


def test_another_topology_and_other_keys_are_refused(folder: Path) -> None:
    builder = StreamsBuilder()
    read = migrated.Consumed.with_(Serdes.string(), migrated.JsonSerde(migrated.New))
    builder.table("orders", read, migrated.Materialized.as_("table"))
    with pytest.raises(CheckpointError, match="is not the one that its checkpoint was made with"):
        migrate(folder, {"table": migrated.with_currency}, builder.build())
    builder = StreamsBuilder()
    read = migrated.Consumed.with_(Serdes.long(), migrated.JsonSerde(migrated.New))
    builder.table("orders", read, migrated.Materialized.as_("table"))
    with pytest.raises(CheckpointError, match="keys of store 'table'") as raised:
        migrate(folder, {"table": migrated.with_currency}, builder.build())
    assert raised.value.condition == "STORE_KEYS_CHANGED"


def test_a_second_migration_finds_nothing_to_do_and_the_old_program_is_refused(folder: Path) -> None:
    migrate(folder)
    assert migrate(folder, {}) == Migration((), None)
    with pytest.raises(CheckpointError, match="cents"):
        start(folder, migrated.old())


def command(folder: Path, *options: str) -> list[str]:
    target = f"{PROGRAM}:new"
    state = f"state.dir={folder / 'state'}"
    return ["state", "migrate", target, "-c", "application.id=app", "-c", state, *options]


ALL = [f"--with={store}={PROGRAM}:{function.__name__}" for store, function in migrated.OPTIONS.items()]


def test_on_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(command(folder, *ALL, "--dry-run", "--format", "json")) == 0
    said = capsys.readouterr()
    lines = [json.loads(line) for line in said.out.splitlines()]
    assert lines[1] == {"store": "table", "values": 3, "changed": 2, "deleted": 1, "failed": 0}
    assert "nothing was written" in said.err
    failing = [option.replace("kept_with_currency", "with_currency") for option in ALL]
    assert run_cli(command(folder, *failing)) == 1
    assert "store 'versions', key 'cyd': [VERSION_NOT_DELETABLE]" in capsys.readouterr().err
    assert run_cli(command(folder, *ALL)) == 0
    assert "written as epoch 2" in capsys.readouterr().err
    assert run_cli(command(folder)) == 0
    assert "nothing is to be rewritten" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("--with=m.py:f", "does not say of which store: sessions, table, versions, windows"),
        (f"--with=table={PROGRAM}:nothing", "has no function 'nothing'"),
        ("--with=table=there", "takes [STORE=]FILE:FUNCTION"),
    ],
)
def test_what_is_wrong_with_an_option_is_told(
    folder: Path, option: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(command(folder, option)) != 0
    assert told in capsys.readouterr().err


@pytest.mark.crash
@pytest.mark.parametrize(
    ("failpoint", "committed"),
    [
        ("inside_migration", False),
        ("before_migration", False),
        ("after_migration", True),
        ("between_migrations", True),
        ("before_migration_cleared", True),
    ],
)
def test_killed_anywhere_it_is_done_or_it_is_not(folder: Path, failpoint: str, committed: bool) -> None:
    points = [{"name": failpoint, "action": "kill_worker", "token": str(folder / "token")}]
    environment = {**os.environ, VARIABLE: json.dumps(points)}
    code = "import sys; from hayase.cli.main import run_cli; sys.exit(run_cli(sys.argv[1:]))"
    killed = subprocess.run(
        [sys.executable, "-c", code, *command(folder, *ALL)], env=environment, capture_output=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    if committed:
        local = start(folder, migrated.new())
    else:
        local = start(folder, migrated.old())
        expect_old(contents(local))
        local.epoch([])
        local.close()
        assert migrate(folder).epoch == 3
        local = start(folder, migrated.new())
    local.epoch([])
    expect_new(contents(local))
    assert not local.blobs.list("migration/")
    local.close()
    assert plan_reset(config_of(folder)).present
