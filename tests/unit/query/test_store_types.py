"""Stores in memory and stores without changelog, through everything a worker does with them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from tests.unit.query.local_app import LocalApp, rows_of, totals_after

from hayase import (
    Consumed,
    Follower,
    JsonSerde,
    Materialized,
    Produced,
    Serdes,
    StoreType,
    StreamsBuilder,
    Topology,
    count,
    sum_,
)
from hayase.cli.main import run_cli
from hayase.core.errors import StateError
from hayase.core.failpoints import VARIABLE
from hayase.core.records import TopicPartition
from hayase.query.follower_replica import FollowerReplica
from hayase.query.local_folders import clear_memory
from hayase.state.changelog.snapshot_policy import SnapshotPolicy
from hayase.storage.lmdb_env import close_environment

pytestmark = pytest.mark.long

MEMORY = Materialized.as_("users").with_store_type(StoreType.IN_MEMORY)
UNLOGGED = Materialized.as_("users").with_logging_disabled()
UNLOGGED_MEMORY = UNLOGGED.with_store_type(StoreType.IN_MEMORY)


def orders(users: Materialized, *others: Materialized) -> Topology:
    """Count and sum per user into `out`; all stores in one sub-topology."""
    builder = StreamsBuilder()
    schema = JsonSerde(schema={"item": pl.String, "amount": pl.Int64})
    given = builder.stream("orders", Consumed.with_(Serdes.string(), schema))
    table = given.group_by_key().agg(users, n=count(), total=sum_("amount"))
    table.to_stream().to("out", Produced.with_(Serdes.string(), Serdes.json()))
    for other in others:
        given.group_by_key().agg(other, n=count(), total=sum_("amount"))
    return builder.build()


class Machine:
    """Runs of an application on one machine, one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._open: list[LocalApp] = []

    def start(self, topology: Topology, **settings: object) -> LocalApp:
        """Start it, as `StreamsApp` does: nothing is left in memory of an earlier run."""
        self.stop()
        app = LocalApp(self.folder, topology, state_memory_dir=self.folder / "memory", **settings)
        clear_memory(app.app.config)
        if "out" not in app.log.describe(["out"]):
            app.log.create_topic("out", 3)
        self._open.append(app)
        return app

    def stop(self) -> None:
        while self._open:
            self._open.pop().close()
        for data in self.folder.rglob("data.mdb"):
            close_environment(data.parent)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.stop()


def users(app: LocalApp, store: str = "users") -> dict[str, object]:
    return {row.key: row.value for row in app.app.store(store).all()}


def written(app: LocalApp) -> list[tuple[str, int]]:
    """User and count of everything in the output topic."""
    found = []
    for number in range(3):
        place = TopicPartition("out", number)
        end = app.log.end_offsets([place])[place]
        for batch in app.reader().fetch(place, 0, end) if end else []:
            pairs = zip(batch.keys, batch.values, strict=True)
            found += [(key.decode(), json.loads(value)["n"]) for key, value in pairs if key and value]
    return sorted(found)


def fail_at(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, epoch: int) -> None:
    """The first attempt that comes there fails."""
    token = str(folder / f"{name}-{epoch}")
    point = {"name": name, "epoch": epoch, "action": "raise", "token": token}
    monkeypatch.setenv(VARIABLE, json.dumps([point]))


def failing_epoch(app: LocalApp, number: int) -> None:
    """An epoch in which an attempt of a bundle fails, and the next one finishes."""
    app.put(rows_of(number))
    assert app.run_with_failures(app.plan_epoch()) == 1


def affected(app: LocalApp) -> set[str]:
    """The users of the bundle that runs first."""
    partitions = {task.partition for task in app.plan.bundles[0].tasks}
    found = set()
    for number in partitions:
        place = TopicPartition("orders", number)
        end = app.log.end_offsets([place])[place]
        for batch in app.reader().fetch(place, 0, end) if end else []:
            found |= {key.decode() for key in batch.keys if key}
    return found


def test_a_store_in_memory_takes_no_room_on_disk(machine: Machine) -> None:
    app = machine.start(orders(MEMORY))
    app.epoch(rows_of(0))
    assert users(app) == totals_after(0)
    assert not list((machine.folder / "state").rglob("state/*/data.mdb"))
    assert list((machine.folder / "memory").rglob("data.mdb"))


def test_a_store_in_memory_is_restored_from_its_deltas_at_the_next_start(machine: Machine) -> None:
    app = machine.start(orders(MEMORY))
    for number in range(3):
        app.epoch(rows_of(number))
    app = machine.start(orders(MEMORY))
    app.epoch(rows_of(3))
    assert users(app) == totals_after(3)


def test_a_store_in_memory_is_restored_from_a_snapshot(machine: Machine) -> None:
    app = machine.start(orders(MEMORY))
    app.snapshots = SnapshotPolicy(min_delta_bytes=1)
    for number in range(20):
        app.epoch(rows_of(number))
    assert all(app.blobs.list(f"snapshots/{bundle.id}/") for bundle in app.plan.bundles)
    app = machine.start(orders(MEMORY))
    app.epoch(rows_of(20))
    assert users(app) == totals_after(20)


def test_a_store_in_memory_that_does_not_run_says_so(machine: Machine) -> None:
    app = machine.start(orders(MEMORY))
    app.epoch(rows_of(0))
    machine.stop()
    clear_memory(app.app.config)
    with pytest.raises(StateError, match="keeps these stores in memory") as caught:
        app.app.store("users").get("u0")
    assert caught.value.condition == "STATE_NOT_THERE"


def test_followers_and_older_epochs_have_stores_in_memory_on_disk(machine: Machine, tmp_path: Path) -> None:
    app = machine.start(orders(MEMORY))
    for number in range(2):
        app.epoch(rows_of(number))
    follower = Follower(app.topology, app.settings, directory=tmp_path / "copy")
    with FollowerReplica(app.blobs, "app", follower.folder) as replica:
        replica.step()
        assert {row.key: row.value for row in follower.store("users").all()} == totals_after(1)
    assert {row.key: row.value for row in app.app.store("users", as_of_epoch=0).all()} == totals_after(0)


def test_the_setting_decides_for_stores_that_do_not_say(machine: Machine) -> None:
    app = machine.start(orders(Materialized.as_("users")), default_dsl_store="in_memory")
    app.epoch(rows_of(0))
    assert not list((machine.folder / "state").rglob("state/*/data.mdb"))


def test_stores_of_a_sub_topology_lie_on_disk_if_one_of_them_is_to(machine: Machine) -> None:
    app = machine.start(orders(MEMORY, Materialized.as_("others")))
    app.epoch(rows_of(0))
    assert users(app) == users(app, "others") == totals_after(0)
    assert not list((machine.folder / "memory").rglob("data.mdb"))


@pytest.mark.parametrize("options", [UNLOGGED, UNLOGGED_MEMORY], ids=["disk", "memory"])
def test_without_a_changelog_nothing_is_published_of_a_store(machine: Machine, options: Materialized) -> None:
    app = machine.start(orders(options))
    for number in range(3):
        app.epoch(rows_of(number))
    assert users(app) == totals_after(2)
    names = [name for bundle in app.plan.bundles for name in app.blobs.list(f"changelog/{bundle.id}/")]
    deltas = [app.blobs.get(name) or b"" for name in names]
    assert len(deltas) == 3 * len(app.plan.bundles)
    assert not any(b"users" in data for data in deltas)


def test_without_a_changelog_a_store_on_disk_goes_on_after_a_restart(machine: Machine) -> None:
    app = machine.start(orders(UNLOGGED))
    app.epoch(rows_of(0))
    app = machine.start(orders(UNLOGGED))
    app.epoch(rows_of(1))
    assert users(app) == totals_after(1)


def test_without_a_changelog_a_store_in_memory_begins_empty_after_a_restart(machine: Machine) -> None:
    app = machine.start(orders(UNLOGGED_MEMORY, Materialized.as_("logged")))
    app.epoch(rows_of(0))
    app = machine.start(orders(UNLOGGED_MEMORY, Materialized.as_("logged")))
    app.epoch(rows_of(1))
    assert {user: row["n"] for user, row in users(app).items()} == dict.fromkeys(totals_after(0), 1)  # type: ignore[index]
    assert users(app, "logged") == totals_after(1)


def test_without_a_changelog_a_store_whose_state_is_lost_begins_empty(machine: Machine) -> None:
    app = machine.start(orders(UNLOGGED, Materialized.as_("logged")))
    app.epoch(rows_of(0))
    machine.stop()
    shutil.rmtree(machine.folder / "state" / "app" / "unlogged")
    shutil.rmtree(machine.folder / "state" / "app" / "state")
    app = machine.start(orders(UNLOGGED, Materialized.as_("logged")))
    app.epoch(rows_of(1))
    assert {row["n"] for row in users(app).values()} == {1}  # type: ignore[index]
    assert users(app, "logged") == totals_after(1)


@pytest.mark.parametrize("options", [UNLOGGED, UNLOGGED_MEMORY], ids=["disk", "memory"])
def test_an_epoch_that_another_attempt_committed_empties_a_store_without_changelog_and_sends_what_was_committed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, options: Materialized, caplog: pytest.LogCaptureFixture
) -> None:
    app = machine.start(orders(options, Materialized.as_("logged")))
    app.epoch(rows_of(0))
    fail_at(monkeypatch, machine.folder, "before_apply", 1)
    failing_epoch(app, 1)
    mine = affected(app)
    assert mine
    app.epoch(rows_of(2))
    # Of epoch 1 came what the first attempt had counted; from epoch 2 on the store counts again.
    counts = {user: [n for name, n in written(app) if name == user] for user in totals_after(0)}
    assert counts == {user: sorted([1, 2, 1] if user in mine else [1, 2, 3]) for user in counts}
    assert {user: row["n"] for user, row in users(app).items()} == {  # type: ignore[index]
        user: 1 if user in mine else 3 for user in counts
    }
    assert users(app, "logged") == totals_after(2)
    assert "stores without changelog begin empty: users" in caplog.text


@pytest.mark.parametrize("step", ["before_delta", "between_applies", "after_apply", "after_publish"])
def test_an_attempt_that_fails_elsewhere_loses_nothing_of_a_store_without_changelog(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    app = machine.start(orders(UNLOGGED, Materialized.as_("logged")))
    app.epoch(rows_of(0))
    fail_at(monkeypatch, machine.folder, step, 1)
    failing_epoch(app, 1)
    app.epoch(rows_of(2))
    assert users(app) == users(app, "logged") == totals_after(2)
    assert written(app) == [(user, n) for user in sorted(totals_after(0)) for n in (1, 2, 3)]


def test_an_epoch_larger_than_memory_is_kept_in_a_store_without_changelog(machine: Machine) -> None:
    app = machine.start(orders(UNLOGGED, Materialized.as_("logged")), epoch_memory_max_bytes=1 << 20)
    many = [(f"u{number}", "i" * 200, number) for number in range(6_000)]
    app.epoch(many)
    app.epoch(many)
    assert users(app) == users(app, "logged")
    assert {row["n"] for row in users(app).values()} == {2}  # type: ignore[index]


def test_rows_from_before_a_store_lost_its_changelog_do_not_come_back(machine: Machine) -> None:
    logged = Materialized.as_("users")
    machine.start(orders(logged)).epoch(rows_of(0))
    machine.start(orders(UNLOGGED)).epoch([("u0", "i", 7)])
    app = machine.start(orders(logged))
    app.epoch([("u0", "i", 1)])
    found = users(app)
    assert found["u0"] == {"n": 1, "total": 1}
    # Users whose task had no record meanwhile are as they were.
    assert {user: row for user, row in found.items() if user != "u0"}.items() <= totals_after(0).items()


def test_a_store_without_changelog_has_no_copies_and_no_past(machine: Machine, tmp_path: Path) -> None:
    app = machine.start(orders(UNLOGGED))
    app.epoch(rows_of(0))
    follower = Follower(app.topology, app.settings, directory=tmp_path / "copy")
    asked = [
        lambda: app.app.store("users", as_of_epoch=0),
        lambda: app.app.history("users"),
        lambda: follower.store("users"),
        lambda: follower.pin("users").__enter__(),
        lambda: app.app.pin("users", as_of_epoch=0).__enter__(),
    ]
    for ask in asked:
        with pytest.raises(StateError, match=r"users.*has no changelog") as caught:
            ask()
        assert caught.value.condition == "STORE_NOT_LOGGED"


def test_stores_with_and_without_changelog_are_pinned_at_one_epoch(machine: Machine) -> None:
    second = Materialized.as_("memory").with_store_type(StoreType.IN_MEMORY).with_logging_disabled()
    app = machine.start(orders(UNLOGGED, second, Materialized.as_("logged")))
    for number in range(2):
        app.epoch(rows_of(number))
    with app.app.pin("users", "memory", "logged") as pinned:
        assert pinned.epoch == 1
        found = [{row.key: row.value for row in pinned.store(name).all()} for name in ("users", "memory", "logged")]
    assert found == [totals_after(1)] * 3


def listed() -> Topology:
    """For the command line."""
    return orders(UNLOGGED, Materialized.as_("logged"))


def test_state_list_says_where_stores_are_kept(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    app = machine.start(listed())
    app.epoch(rows_of(0))
    settings = [f"state.dir={machine.folder / 'state'}", "application.id=app"]
    options = [part for setting in settings for part in ("-c", setting)]
    target = f"{Path(__file__)}:listed"
    assert run_cli(["state", "list", target, "--format", "json", *options]) == 0
    now = {row["store"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert now["users"] == {
        "store": "users",
        "kind": "timestamped_key_value",
        "kept": "disk, no changelog",
        "rows": 5,
        "entries": 5,
        "epoch": 0,
    }
    assert now["logged"]["kept"] == "disk"
    assert run_cli(["state", "list", target, "--as-of", "0", "--format", "json", *options]) == 0
    then = {row["store"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert (then["users"]["rows"], then["logged"]["rows"]) == (None, 5)
