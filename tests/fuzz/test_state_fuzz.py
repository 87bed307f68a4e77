"""Damaged blobs of the checkpoint, and files of local state, end in their named errors.

Never in a crash, never in other data.

How many inputs are tried: HAYASE_FUZZ_INPUTS, 200 where that is not set.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from hayase.core.errors import StateError
from hayase.state.changelog.changelog import Changelog
from hayase.state.changelog.snapshot import Manifest
from hayase.state.delta.changes import StateChanges, StoreChanges
from hayase.state.delta.delta import Delta, Piece, encode_piece
from hayase.state.environment import crash_marker
from hayase.state.environment.bundle import BundleState
from hayase.state.environment.environment import Meta, read_meta
from hayase.storage.lmdb_env import close_environment
from hayase.storage.lmdb_pages import PagesDamaged
from hayase.storage.page_checksums import PageChecksums
from hayase.storage.posix_blobs import PosixBlobs

INPUTS = int(os.environ.get("HAYASE_FUZZ_INPUTS", "200"))
CONDITIONS = {"DELTA_CORRUPT", "SNAPSHOT_CORRUPT", "CHANGELOG_GAP"}
Content = dict[bytes, bytes]


def damage(rng: random.Random, data: bytes) -> bytes:
    """Flip a bit, cut, insert, repeat, or fill with zeros."""
    place = rng.randrange(len(data))
    match rng.randrange(6):
        case 0 | 1:
            return data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]
        case 2:
            return data[:place]
        case 3:
            return data[:place] + rng.randbytes(rng.randrange(1, 20)) + data[place:]
        case 4:
            return data + data[place:]
        case _:
            length = rng.randrange(1, 65)
            return data[:place] + bytes(len(data[place : place + length])) + data[place + length :]


def changes(epoch: int) -> StateChanges:
    keys = [b"shared-%d" % (number % 5) for number in range(epoch, epoch + 5)] + [b"own-%d" % epoch]
    return StateChanges({("0_0", "s"): StoreChanges([], keys, [b"%d" % epoch * 30 for _ in keys])})


class Checkpoint:
    """Deltas of 24 epochs, one of them in parts, and snapshots of two of them; damaged and fixed again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.blobs = PosixBlobs(folder / "c", fsync=False)
        changelog, previous = Changelog(self.blobs, "b0"), (-1, "")
        with_state = BundleState(folder / "maker", application_id="app", checkpoint_id="l", bundle="b0")
        for epoch in range(24):
            delta = Delta("app", "l", "b0", epoch, "r", *previous)
            if epoch == 22:
                delta.parts.append(changelog.publish_part(epoch, 0, Piece("changes", encode_piece(changes(epoch)))))
            else:
                delta.changes = changes(epoch)
            previous = (epoch, changelog.publish(delta).digest)
            changelog.apply(with_state, delta)
            if epoch in (3, 20):
                changelog.snapshots.publish(with_state, epoch)
        self.truth = content(with_state)
        with_state.close()
        close_environment(with_state.path)
        folders = ("changelog/b0/", "changelog/b0/parts/", "snapshots/b0/", "snapshots/b0/parts/")
        self.names = [name for each in folders for name in self.blobs.list(each)]
        self.restores = 0

    def restore(self) -> Content:
        """All stores, restored into a new folder."""
        self.restores += 1
        path = self.folder / f"restored-{self.restores}"
        state = BundleState(path, application_id="app", checkpoint_id="l", bundle="b0")
        try:
            assert Changelog(self.blobs, "b0").catch_up(state, 23)
            return content(state)
        finally:
            state.close()
            close_environment(path)

    def replace(self, name: str, data: bytes) -> Callable[[], None]:
        """Put other bytes in the place of a blob; gives what undoes it."""
        path = self.blobs.root / name
        before = path.read_bytes()
        path.write_bytes(data)
        return lambda: path.write_bytes(before) and None


def content(state: BundleState) -> Content:
    with state.begin() as epoch:
        return dict(epoch.task("0_0").store("s").range())


def error_of(checkpoint: Checkpoint) -> StateError | None:
    """Why it could not be restored; otherwise all is right."""
    try:
        restored = checkpoint.restore()
    except StateError as error:
        return error
    assert restored == checkpoint.truth
    return None


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return Checkpoint(tmp_path_factory.mktemp("checkpoint"))


@pytest.mark.long
def test_a_damaged_blob_of_the_checkpoint_gives_its_named_error_or_the_right_state(checkpoint: Checkpoint) -> None:
    rng = random.Random(3)
    told = 0
    for _ in range(max(1, INPUTS // 10)):
        name = rng.choice(checkpoint.names)
        before = (checkpoint.blobs.root / name).read_bytes()
        broken = damage(rng, before)
        undo = checkpoint.replace(name, broken)
        error = error_of(checkpoint)
        undo()
        if error is not None:
            told += 1
            assert error.condition in CONDITIONS, (name, error)
            assert error.condition == "CHANGELOG_GAP" or name in error.message, (name, error)
            assert "from a copy" in error.message
    assert told or INPUTS < 100


def test_every_damaged_delta_is_found_when_it_is_read(checkpoint: Checkpoint) -> None:
    rng = random.Random(4)
    data = checkpoint.blobs.get(f"changelog/b0/{5:020d}")
    assert data is not None
    for _ in range(INPUTS):
        broken = damage(rng, data)
        if broken == data:
            continue
        for journal, wanted in ((True, True), (False, False)):
            with pytest.raises(StateError, match="DELTA_CORRUPT"):
                Delta.from_bytes(broken, bundle="b0", epoch=5, journal=journal, changes=wanted)


def test_every_damaged_manifest_is_found_when_it_is_read(checkpoint: Checkpoint) -> None:
    rng = random.Random(5)
    snapshots, name = Changelog(checkpoint.blobs, "b0").snapshots, f"snapshots/b0/{20:020d}"
    data = checkpoint.blobs.get(name)
    assert data is not None
    for _ in range(INPUTS):
        broken = damage(rng, data)
        undo = checkpoint.replace(name, broken)
        try:
            if broken != data:
                with pytest.raises(StateError, match="SNAPSHOT_CORRUPT") as raised:
                    snapshots.manifest(20)
                assert name in raised.value.message
        finally:
            undo()


def test_a_damaged_snapshot_is_passed_over_where_deltas_reach_further_back(
    checkpoint: Checkpoint, caplog: pytest.LogCaptureFixture
) -> None:
    snapshots = Changelog(checkpoint.blobs, "b0").snapshots
    manifest = snapshots.manifest(20)
    assert isinstance(manifest, Manifest)
    for name in (f"snapshots/b0/{20:020d}", manifest.parts[0].name):
        data = (checkpoint.blobs.root / name).read_bytes()
        undo = checkpoint.replace(name, damage(random.Random(1), data))
        try:
            caplog.clear()
            assert checkpoint.restore() == checkpoint.truth
            assert "skipped" in caplog.text and name in caplog.text
        finally:
            undo()


@pytest.mark.long
def test_a_damaged_file_of_local_state_is_found_before_lmdb_looks_at_it(tmp_path: Path, checkpoint: Checkpoint) -> None:
    rng = random.Random(6)
    path = tmp_path / "s"
    state = BundleState(path, application_id="app", checkpoint_id="l", bundle="b0")
    for epoch in range(0, 24, 3):
        Changelog(checkpoint.blobs, "b0").catch_up(state, epoch)
    state.close()
    close_environment(path)
    file = path / "data.mdb"
    data = file.read_bytes()
    PageChecksums(path).verify()
    found = 0
    for _ in range(INPUTS):
        file.write_bytes(damage(rng, data))
        try:
            PageChecksums(path).check()
        except PagesDamaged:
            found += 1
        finally:
            file.write_bytes(data)
    assert found > INPUTS // 5
    PageChecksums(path).verify()


def test_a_damaged_boot_file_or_table_of_checksums_is_no_crash(tmp_path: Path, checkpoint: Checkpoint) -> None:
    rng = random.Random(8)
    path = tmp_path / "s"
    for number in range(max(1, INPUTS // 10)):
        state = BundleState(path, application_id="app", checkpoint_id="l", bundle="b0")
        Changelog(checkpoint.blobs, "b0").catch_up(state, 23)
        assert content(state) == checkpoint.truth
        state.close()
        close_environment(path)
        file = path / (crash_marker.BOOT_FILE if number % 2 else "PAGES")
        file.write_bytes(damage(rng, file.read_bytes()))


class OneEntry:
    """A transaction of an environment that says one thing about itself."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def get(self, _: bytes) -> bytes:
        return self._data


def test_what_the_environment_says_about_itself_is_read_or_refused_whatever_it_is() -> None:
    rng = random.Random(9)
    data = msgspec.msgpack.encode(Meta(1, "app", "l", "b0", 5, "d", 260, 10, 2))
    for _ in range(INPUTS):
        meta = read_meta(cast("Any", OneEntry(damage(rng, data))))
        assert meta is None or isinstance(meta, Meta)
