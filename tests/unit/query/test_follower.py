"""A follower: copies of all stores, always after one epoch, made from the checkpoint alone."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from datetime import timedelta
from pathlib import Path

import pytest
from tests.unit.query.local_app import EPOCH_MS, START_MS, LocalApp, rows_of, totals_after
from tests.unit.query.test_pin import sums

from hayase import Follower
from hayase.app.reset import reset_application
from hayase.core.errors import StateError, StreamsStoppedError, UnknownStoreError
from hayase.core.time import ManualClock
from hayase.query.follower_replica import FollowerReplica, FollowerStatus, read_status
from hayase.query.standby import Standbys
from hayase.state.changelog.snapshot_policy import SnapshotPolicy
from hayase.task.epoch_record import Epochs

pytestmark = pytest.mark.long


@pytest.fixture
def follower(local: LocalApp, tmp_path: Path) -> Follower:
    """Not started."""
    return Follower(local.topology, local.settings, directory=tmp_path / "copy")


def replica_of(local: LocalApp, follower: Follower, now_ms: int = START_MS) -> FollowerReplica:
    return FollowerReplica(local.blobs, "app", follower.folder, clock=ManualClock(now_ms))


def users(follower: Follower) -> dict[str, object]:
    return {row.key: row.value for row in follower.store("users").all()}


def test_it_shows_every_epoch_that_is_through_one_after_the_other(local: LocalApp, follower: Follower) -> None:
    with replica_of(local, follower) as replica:
        for number in range(4):
            local.epoch(rows_of(number))
            assert replica.step() and not replica.step()
            assert users(follower) == totals_after(number)
            with follower.pin("users", "items", "hourly") as pinned:
                assert pinned.epoch == number
                assert sums(pinned)[0] == sums(pinned)[1]


def test_an_epoch_that_is_not_marked_yet_is_not_shown(local: LocalApp, follower: Follower) -> None:
    with replica_of(local, follower) as replica:
        local.epoch(rows_of(0))
        local.epoch(rows_of(1), done=False)
        replica.step()
        assert not replica.step()
        assert users(follower) == totals_after(0)
        assert {row.value["n"] for row in local.app.store("users").all()} == {2}  # the workers are ahead


def test_it_needs_nothing_from_the_workers(local: LocalApp, follower: Follower) -> None:
    for number in range(3):
        local.epoch(rows_of(number))
    local.close()
    shutil.rmtree(local.folder / "state" / "app" / "state")
    shutil.rmtree(local.folder / "log")
    with replica_of(local, follower) as replica:
        replica.step()
    assert users(follower) == totals_after(2)
    assert follower.store("users").get("u1").epoch == 2


def test_it_knows_its_lag(local: LocalApp, follower: Follower) -> None:
    with replica_of(local, follower, now_ms=START_MS + 10 * EPOCH_MS) as replica:
        replica.step()
        for number in range(3):
            local.epoch(rows_of(number))
        replica.step()
        assert replica.status() == FollowerStatus(0, 2, 8 * EPOCH_MS, True)  # epoch 1 was begun at 2
        assert read_status(follower.folder) == follower.status() == replica.status()
        while replica.step():
            pass
        assert replica.status() == FollowerStatus(2, 0, 0, True)
    assert follower.status() == FollowerStatus(2, 0, 0, False)


def test_it_waits_for_an_application_that_has_not_started(tmp_path: Path, local: LocalApp) -> None:
    from hayase.storage.open import open_blobs

    with FollowerReplica(open_blobs(str(tmp_path / "nothing")), "app", tmp_path / "copy") as replica:
        assert not replica.step()
        assert replica.status().waiting


def test_far_behind_it_begins_from_the_newest_snapshot(local: LocalApp, follower: Follower) -> None:
    with replica_of(local, follower) as replica:
        local.epoch(rows_of(0))
        replica.step()
    for number in range(1, 30):
        local.snapshots = SnapshotPolicy(min_delta_bytes=0) if number == 25 else None
        local.epoch(rows_of(number))
    for bundle in (local.folder / "state" / "app" / "checkpoint" / "changelog").iterdir():
        assert len(list(bundle.iterdir())) <= 5  # history below the snapshot is gone
    with replica_of(local, follower) as replica:
        assert replica.step() and not replica.step()
    assert users(follower) == totals_after(29)


def test_deltas_deleted_under_it_make_it_take_the_snapshot(local: LocalApp, follower: Follower) -> None:
    with replica_of(local, follower) as replica:
        local.epoch(rows_of(0))
        replica.step()
        for number in range(1, 4):
            local.snapshots = SnapshotPolicy(min_delta_bytes=0) if number == 3 else None
            local.epoch(rows_of(number))
        while replica.step():
            pass
        assert users(follower) == totals_after(3)


def test_a_snapshot_of_the_epoch_at_work_makes_it_wait_for_that_to_be_through(
    local: LocalApp, follower: Follower
) -> None:
    with replica_of(local, follower) as replica:
        local.epoch(rows_of(0))
        replica.step()
        local.epoch(rows_of(1))
        local.snapshots = SnapshotPolicy(min_delta_bytes=0)
        local.epoch(rows_of(2), done=False)  # deletes the delta of epoch 1
        assert not replica.step()
        assert replica.status().lag_epochs == 2
        record = Epochs(local.blobs).record(2)
        assert record is not None
        local.mark_done(record)
        assert replica.step()
        assert users(follower) == totals_after(2)


def test_it_goes_on_from_its_own_states(local: LocalApp, follower: Follower) -> None:
    for number in range(3):
        local.epoch(rows_of(number))
        with replica_of(local, follower) as replica:
            while replica.step():
                pass
        if number == 1:  # what it has is not needed again
            for delta in (local.folder / "state" / "app" / "checkpoint" / "changelog").glob(f"*/{0:020d}"):
                delta.unlink()
    assert users(follower) == totals_after(2)


def test_two_processes_do_not_keep_one_follower(local: LocalApp, follower: Follower) -> None:
    with replica_of(local, follower):
        with pytest.raises(StateError) as raised:
            follower.start()
        assert raised.value.condition == "FOLLOWER_RUNNING"
        assert "pid" in raised.value.message


def test_an_application_that_is_started_over_is_followed_from_its_beginning(
    local: LocalApp, follower: Follower, tmp_path: Path
) -> None:
    with replica_of(local, follower) as replica:
        for number in range(3):
            local.epoch(rows_of(number))
        replica.step()
        reset_application(local.app.config, local.log)
        assert not replica.step() and replica.status().waiting
        local.close()
        again = LocalApp(tmp_path)
        again.epoch()  # what is in the topic
        with pytest.raises(StateError, match="another checkpoint"):
            users(follower)
        replica.step()
        assert users(follower) == totals_after(2)
        again.close()


def test_a_damaged_changelog_stops_it_with_the_reason(local: LocalApp, follower: Follower) -> None:
    local.epoch(rows_of(0))
    (delta,) = (local.folder / "state" / "app" / "checkpoint" / "changelog" / "0-0").iterdir()
    delta.write_bytes(delta.read_bytes()[:-1])
    with follower, pytest.raises(StateError) as raised:
        follower.wait_for(0)
    assert raised.value.condition == "DELTA_CORRUPT"
    assert follower.error is raised.value
    with pytest.raises(StreamsStoppedError):
        follower.start()


def test_readers_in_other_threads_always_find_all_stores_at_one_epoch(local: LocalApp, follower: Follower) -> None:
    seen: list[int] = []
    failed: list[BaseException] = []
    stop = threading.Event()

    def read() -> None:
        try:
            while not stop.is_set():
                with follower.pin("users", "items", "hourly") as pinned:
                    by_user, by_item = sums(pinned)
                    assert by_user == by_item
                    seen.append(pinned.epoch)
        except BaseException as error:
            failed.append(error)

    local.epoch(rows_of(0))
    with follower:
        assert follower.wait_for(0)
        readers = [threading.Thread(target=read) for _ in range(3)]
        for each in readers:
            each.start()
        for number in range(1, 15):
            local.epoch(rows_of(number))
        assert follower.wait_for(14)
        stop.set()
        for each in readers:
            each.join()
    assert not failed, failed
    assert len(set(seen)) > 1


def test_waiting_for_an_epoch_ends_with_the_timeout(local: LocalApp, follower: Follower) -> None:
    local.epoch(rows_of(0))
    with follower:
        assert follower.wait_for(0)
        assert not follower.wait_for(1, timedelta(milliseconds=20))


def test_a_store_that_is_not_there_is_an_error_before_anything_is_read(follower: Follower) -> None:
    with pytest.raises(UnknownStoreError):
        follower.store("nothing")


def test_standbys_follow_in_processes_of_their_own_and_end_when_told(local: LocalApp, tmp_path: Path) -> None:
    local.epoch(rows_of(0))
    checkpoint, folder = local.app.config.checkpoint_dir, tmp_path / "state" / "app" / "followers"
    standbys = Standbys(checkpoint, "app", folder, 1)
    try:
        mine = Follower(local.topology, local.settings, name="standby-0")
        assert mine.wait_for(0)
        local.epoch(rows_of(1))
        assert mine.wait_for(1)
        assert users(mine) == totals_after(1)
        assert mine.status().running
    finally:
        standbys.stop()
    assert not mine.status().running
    assert users(mine) == totals_after(1)


def test_a_standby_that_ends_is_started_again_after_a_while(local: LocalApp, tmp_path: Path) -> None:
    now = [0.0]
    standbys = Standbys(local.app.config.checkpoint_dir, "app", tmp_path / "f", 1, monotonic=lambda: now[0])
    try:
        (first,) = standbys.pids
        os.kill(first, signal.SIGKILL)
        os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
        standbys.check()
        assert standbys.pids == [first]
        now[0] = 60.0
        standbys.check()
        assert standbys.pids != [first]
    finally:
        standbys.stop()
