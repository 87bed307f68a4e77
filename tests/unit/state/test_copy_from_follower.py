"""A state that is missing begins as a copy of another one of the bundle, if there is a good one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hayase.state.changelog.changelog import Changelog
from hayase.state.delta.changes import StateChanges, StoreChanges
from hayase.state.delta.delta import Delta
from hayase.state.environment import crash_marker
from hayase.state.environment.bundle import BundleState
from hayase.state.environment.copy_from_follower import adopt_copy
from hayase.storage.lmdb_env import close_environment
from hayase.storage.posix_blobs import PosixBlobs

IDENTITY = {"application_id": "app", "checkpoint_id": "l", "bundle": "b0"}


@pytest.fixture(autouse=True)
def closed(tmp_path: Path) -> Iterator[None]:
    yield
    for data in tmp_path.rglob("data.mdb"):
        close_environment(data.parent)


def made(path: Path, epochs: int, changelog: Changelog | None = None, checkpoint_id: str = "l") -> BundleState:
    state = BundleState(path, application_id="app", checkpoint_id=checkpoint_id, bundle="b0")
    for number in range(epochs):
        changes = StateChanges({("0_0", "s"): StoreChanges([], [b"k%d" % number], [b"v"])})
        delta = Delta("app", checkpoint_id, "b0", number, "r", state.epoch, state.digest, changes)
        state.apply(changelog.publish(delta) if changelog else delta)
    return state


def keys_of(path: Path) -> list[bytes]:
    state = BundleState(path, **IDENTITY)
    with state.begin() as epoch:
        found = [key for key, _ in epoch.task("0_0").store("s").range()]
    state.close()
    close_environment(path)
    return found


def test_the_copy_at_the_latest_epoch_is_taken_also_while_it_is_in_use(tmp_path: Path) -> None:
    made(tmp_path / "one", 2), made(tmp_path / "two", 4)
    copies = [tmp_path / name for name in ("nothing", "one", "two")]
    assert adopt_copy(tmp_path / "mine", copies, **IDENTITY) == 3
    assert keys_of(tmp_path / "mine") == [b"k0", b"k1", b"k2", b"k3"]


def test_a_state_that_is_there_is_left_alone(tmp_path: Path) -> None:
    made(tmp_path / "copy", 3)
    made(tmp_path / "mine", 1).close()
    assert adopt_copy(tmp_path / "mine", [tmp_path / "copy"], **IDENTITY) is None
    assert keys_of(tmp_path / "mine") == [b"k0"]


def test_a_copy_of_another_checkpoint_is_not_taken(tmp_path: Path) -> None:
    made(tmp_path / "copy", 3, checkpoint_id="other")
    assert adopt_copy(tmp_path / "mine", [tmp_path / "copy"], **IDENTITY) is None
    assert keys_of(tmp_path / "mine") == []


@pytest.mark.parametrize("damage", ["power loss", "cut off", "no environment"])
def test_a_copy_that_cannot_be_trusted_is_not_taken(tmp_path: Path, damage: str) -> None:
    made(tmp_path / "copy", 3).close(clean=False)
    close_environment(tmp_path / "copy")
    data = tmp_path / "copy" / "data.mdb"
    if damage == "power loss":
        crash_marker.write(tmp_path / "copy", crash_marker.CrashMarker("another", "l", clean=False))
    else:
        data.write_bytes(data.read_bytes()[:8192] if damage == "cut off" else b"nonsense" * 2048)
    assert adopt_copy(tmp_path / "mine", [tmp_path / "copy"], **IDENTITY) is None


def test_a_copy_with_a_damaged_page_is_not_taken(tmp_path: Path) -> None:
    made(tmp_path / "copy", 3).close()
    close_environment(tmp_path / "copy")
    data = tmp_path / "copy" / "data.mdb"
    data.write_bytes(data.read_bytes().replace(b"k1", b"k8"))
    assert adopt_copy(tmp_path / "mine", [tmp_path / "copy"], **IDENTITY) is None
    assert not (tmp_path / "mine" / "data.mdb").exists()


def test_a_copy_that_is_behind_or_ahead_of_the_changelog_is_brought_to_it(tmp_path: Path) -> None:
    changelog = Changelog(PosixBlobs(tmp_path / "checkpoint", fsync=False), "b0")
    ahead = made(tmp_path / "copy", 5, changelog)
    for epoch in (3, 4):
        changelog.delete(epoch)  # as if the checkpoint had been restored from a copy
    assert adopt_copy(tmp_path / "mine", [ahead.path], **IDENTITY) == 4
    state = BundleState(tmp_path / "mine", **IDENTITY)
    assert Changelog(PosixBlobs(tmp_path / "checkpoint"), "b0").catch_up(state, 2)
    assert state.epoch == 2
    state.close()
    assert keys_of(tmp_path / "mine") == [b"k0", b"k1", b"k2"]
