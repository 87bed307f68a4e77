"""Several stores and partitions at one epoch, while the application is in the middle of one."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.unit.query.local_app import LocalApp, rows_of, totals_after

from hayase.app.follower import Follower
from hayase.core.errors import StateError
from hayase.query.access import PinnedStores
from hayase.query.follower_replica import FollowerReplica
from hayase.query.local_folders import state_folders
from hayase.state.environment.reader import BundleReader, ReaderSnapshot
from hayase.state.environment.remote_bundles_marker import set_moving


def sums(pinned: PinnedStores) -> tuple[int, int]:
    """The same amount by user and by item, if both stores are after the same epoch."""
    by_user = sum(row.value["total"] for row in pinned.store("users").all())
    return by_user, sum(row.value["total"] for row in pinned.store("items").all())


def half_an_epoch(local: LocalApp, number: int) -> None:
    """Level 0 is complete, level 1 is not."""
    local.put(rows_of(number))
    record = local.plan_epoch()
    for bundle in local.plan.bundles:
        if bundle.level == 0:
            local.run_bundle(bundle.id, record, [])


@pytest.mark.long
def test_what_is_pinned_stays_as_it_is_while_the_application_goes_on(local: LocalApp) -> None:
    local.epoch(rows_of(0))
    with local.app.pin("users", "items") as pinned:
        before = sums(pinned)
        local.epoch(rows_of(1))
        assert pinned.epoch == 0
        assert sums(pinned) == before and before[0] == before[1]
    with local.app.pin("users", "items") as pinned:
        assert pinned.epoch == 1
        assert sums(pinned)[0] > before[0]


@pytest.mark.long
def test_in_mid_epoch_and_without_a_follower_it_is_an_error_that_says_what_to_do(local: LocalApp) -> None:
    local.epoch(rows_of(0))
    half_an_epoch(local, 1)
    with pytest.raises(StateError) as raised, local.app.pin("users", "items"):
        pass
    assert raised.value.condition == "EPOCHS_DIFFER"
    assert "num.standby.replicas" in raised.value.message
    with local.app.pin("users") as pinned:  # one level alone is complete
        assert pinned.epoch == 1


@pytest.mark.long
@pytest.mark.parametrize("read", ["pinned", "all"])
def test_a_bundle_that_has_had_no_epoch_yet_is_waited_for_beside_one_that_has(local: LocalApp, read: str) -> None:
    local.put(rows_of(0))
    record = local.plan_epoch()
    handle = local.app.store("users")
    first, *others = sorted({place.bundle for place in handle.places}, reverse=True)
    local.run_bundle(first, record, [])

    def complete() -> None:
        for bundle in others:
            local.run_bundle(bundle, record, [])

    later = threading.Timer(0.7, complete)
    later.start()
    if read == "all":
        found = len(list(handle.all()))
    else:
        with handle.pinned() as (_, partitions):
            found = sum(1 for partition in partitions for _ in partition.range())
    later.join()
    assert found == len(totals_after(0))


def test_a_state_that_is_just_being_made_is_waited_for(local: LocalApp, monkeypatch: pytest.MonkeyPatch) -> None:
    local.put(rows_of(0))
    record = local.plan_epoch()
    handle = local.app.store("users")
    first, *others = sorted({place.bundle for place in handle.places})
    for bundle in (first, *others):
        local.run_bundle(bundle, record, [])
    snapshot, made = BundleReader.snapshot, []

    @contextmanager
    def without_identity_at_first(reader: BundleReader, **given: Any) -> Iterator[ReaderSnapshot]:
        with snapshot(reader, **given) as taken:
            made.append(taken)
            if len(made) == 2:
                taken.checkpoint_id = ""
            yield taken

    monkeypatch.setattr(BundleReader, "snapshot", without_identity_at_first)
    assert len(handle.all()) == len(totals_after(0))
    assert len(made) > len(others) + 1


def test_before_the_first_epoch_a_store_is_empty_and_nothing_is_waited_for(local: LocalApp) -> None:
    begun = time.monotonic()
    store = local.app.store("users")
    assert store.get("u0").value is None and store.epoch() == -1 and len(store.all()) == 0
    assert store.approximate_num_entries() == 0
    with store.pinned() as (epoch, partitions):
        assert epoch == -1 and [list(partition.range()) for partition in partitions] == [[] for _ in store.places]
    with local.app.pin("users", "items") as pinned:
        assert pinned.epoch == -1 and sums(pinned) == (0, 0)
    assert time.monotonic() - begun < 5
    local.epoch(rows_of(0))
    assert {row.key: row.value for row in store.all()} == totals_after(0)


def test_a_state_that_is_lost_after_an_epoch_is_not_taken_for_an_empty_one(local: LocalApp) -> None:
    local.epoch(rows_of(0))
    local.close()
    shutil.rmtree(state_folders(local.app.config).disk / "state")
    with pytest.raises(StateError, match="wait for its first epoch"):
        local.app.store("users").get("u0")


def test_partitions_can_be_read_one_by_one_while_another_one_is_at_another_epoch(local: LocalApp) -> None:
    local.epoch(rows_of(0))
    local.put(rows_of(1))
    record = local.plan_epoch()
    handle = local.app.store("users")
    first = next(bundle for bundle in local.plan.bundles if bundle.id == handle.places[0].bundle)
    local.run_bundle(first.id, record, [])
    with pytest.raises(StateError, match="EPOCHS_DIFFER"), handle.pinned():
        pass
    partitions = handle.lazy_partitions()
    assert partitions.epoch == -1
    assert next(partitions[0].range())
    assert partitions.epoch == 1
    assert all(any(True for _ in partition.range()) for partition in partitions)
    assert partitions.epoch == 0
    partitions.close()


def test_a_bundle_that_is_behind_is_waited_for_although_the_others_go_on_at_once(local: LocalApp) -> None:
    local.epoch(rows_of(0))
    local.put(rows_of(1))
    record = local.plan_epoch()
    handle = local.app.store("users")
    ahead, *behind = dict.fromkeys(place.bundle for place in handle.places)
    local.run_bundle(ahead, record, [])

    def go_on() -> None:
        for bundle in behind:
            local.run_bundle(bundle, record, [])
        local.mark_done(record)
        local.put(rows_of(2))
        local.run_bundle(ahead, local.plan_epoch(), [])

    thread = threading.Timer(0.1, go_on)
    thread.start()
    with handle.pinned(wait_s=20.0) as (epoch, partitions):
        thread.join()
        assert epoch == 1
        assert sum(1 for partition in partitions for _ in partition.range()) == len(totals_after(1))


@pytest.mark.long
def test_in_mid_epoch_a_follower_is_asked(local: LocalApp) -> None:
    local.epoch(rows_of(0))
    local.epoch(rows_of(1))
    with FollowerReplica(local.blobs, "app", Follower(local.topology, local.settings).folder) as replica:
        assert replica.step()
        half_an_epoch(local, 2)
        with local.app.pin("users", "items") as pinned:
            assert pinned.epoch == 1
            assert sums(pinned)[0] == sums(pinned)[1]
            assert {row.key: row.value for row in pinned.store("users").all()} == totals_after(1)


@pytest.mark.long
def test_a_follower_that_is_behind_the_workers_is_not_taken(local: LocalApp) -> None:
    local.epoch(rows_of(0))
    with FollowerReplica(local.blobs, "app", Follower(local.topology, local.settings).folder) as replica:
        assert replica.step()
    local.epoch(rows_of(1))
    half_an_epoch(local, 2)
    with pytest.raises(StateError, match="no follower that is at epoch 1"), local.app.pin("users", "items"):
        pass


@pytest.mark.long
def test_states_of_a_cluster_are_read_from_the_follower_that_is_furthest(local: LocalApp, tmp_path: Path) -> None:
    local.epoch(rows_of(0))
    workers = tmp_path / "state" / "app" / "state"
    set_moving(workers, moving=True)
    with pytest.raises(StateError) as raised:
        local.app.store("users")
    assert raised.value.condition == "STATE_ELSEWHERE"
    followers = tmp_path / "state" / "app" / "followers"
    with FollowerReplica(local.blobs, "app", followers / "a") as replica:
        while replica.step():
            pass
    local.epoch(rows_of(1))
    with FollowerReplica(local.blobs, "app", followers / "b") as replica:
        while replica.step():
            pass
    assert local.app.store("users").epoch() == 1
    with local.app.pin("users", "items") as pinned:
        assert pinned.epoch == 1
    assert local.app.store("users", as_of_epoch=0).epoch() == 0
    set_moving(workers, moving=False)
    assert local.app.store("users").epoch() == 1
