"""Damaged local state gives no other value: it is found, named and rebuilt from the checkpoint by itself."""

from __future__ import annotations

import logging
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest
from tests.budget import examples
from tests.unit.state.test_changelog import opened

from hayase.core.errors import StateError
from hayase.core.metrics import STATES_REBUILT
from hayase.state.changelog.changelog import Changelog
from hayase.state.delta.changes import StateChanges, StoreChanges
from hayase.state.delta.delta import Delta
from hayase.state.environment import crash_marker
from hayase.state.environment.bundle import BundleState
from hayase.state.environment.environment import damaged
from hayase.state.environment.reader import BundleReader
from hayase.storage.lmdb_env import close_environment
from hayase.storage.page_checksums import PAGES_FILE
from hayase.storage.posix_blobs import PosixBlobs

ROWS = {b"key-%06d" % number: b"value-%06d" % number * 3 for number in range(500)} | {b"large": b"x" * 10_000}


@pytest.fixture
def changelog(tmp_path: Path) -> Changelog:
    made = Changelog(PosixBlobs(tmp_path / "c", fsync=False), "b0")
    prev = (-1, "")
    for epoch in range(3):  # so that pages are used again
        stores = StateChanges({("0_0", "s"): StoreChanges([], list(ROWS), list(ROWS.values()))})
        prev = (epoch, made.publish(Delta("app", "l", "b0", epoch, "r", *prev, stores)).digest)
    return made


@pytest.fixture
def folder(tmp_path: Path, changelog: Changelog) -> Iterator[Path]:
    """Of a state that is not in use."""
    with opened(tmp_path / "s") as state:
        for epoch in range(3):
            changelog.catch_up(state, epoch)
    yield tmp_path / "s"
    close_environment(tmp_path / "s")


def flip(folder: Path, found: bytes, at: int = 0, bit: int = 0x04) -> None:
    """Change one bit of the file, wherever those bytes are."""
    data = bytearray((folder / "data.mdb").read_bytes())
    place = data.find(found)
    assert place >= 0
    while place >= 0:  # also in pages that are not used any more
        data[place + at] ^= bit
        place = data.find(found, place + 1)
    (folder / "data.mdb").write_bytes(data)


def everything(state: BundleState) -> dict[bytes, bytes]:
    with state.begin() as epoch:
        return dict(epoch.task("0_0").store("s").range())


@pytest.mark.parametrize(
    "found", [ROWS[b"key-000123"], b"key-000123", b"x" * 10_000], ids=["value", "key", "large value"]
)
def test_a_damaged_state_is_rebuilt_from_the_checkpoint_with_a_warning(
    folder: Path, changelog: Changelog, caplog: pytest.LogCaptureFixture, found: bytes
) -> None:
    flip(folder, found, 9)
    with caplog.at_level(logging.WARNING, "hayase.state"), opened(folder) as state:
        assert state.epoch == -1 and not state.damaged
        assert str(folder / "data.mdb") in caplog.text and "rebuilt from the checkpoint" in caplog.text
        assert state.take_events() == {STATES_REBUILT: 1}
        changelog.catch_up(state, 2)
        assert everything(state) == ROWS


def test_a_state_without_damage_is_kept(folder: Path) -> None:
    with opened(folder) as state:
        assert state.epoch == 2 and everything(state) == ROWS and not state.take_events()


def test_a_folder_that_was_copied_is_kept_if_nothing_in_it_is_damaged(folder: Path, changelog: Changelog) -> None:
    for name in ("one", "two"):
        shutil.copytree(folder, folder.parent / name)
    with opened(folder.parent / "one") as state:
        assert state.epoch == 2 and everything(state) == ROWS and not state.take_events()
    flip(folder.parent / "two", ROWS[b"key-000123"], 9)
    with opened(folder.parent / "two") as state:
        assert state.epoch == -1 and state.take_events() == {STATES_REBUILT: 1}
        changelog.catch_up(state, 2)
        assert everything(state) == ROWS


def test_a_file_of_another_commit_that_was_put_in_the_place_of_the_newest_is_rebuilt(
    folder: Path, changelog: Changelog
) -> None:
    before = (folder / "data.mdb").read_bytes()
    stores = StateChanges({("0_0", "s"): StoreChanges([], [b"later"], [b"1"])})
    with opened(folder) as state:
        for epoch in range(3, 6):
            changelog.publish(Delta("app", "l", "b0", epoch, "r", state.epoch, state.digest, stores))
            changelog.catch_up(state, epoch)
    close_environment(folder)
    (folder / "data.mdb").unlink()
    (folder / "data.mdb").write_bytes(before)
    with opened(folder) as state:
        assert state.epoch == -1 and state.take_events() == {STATES_REBUILT: 1}
        changelog.catch_up(state, 5)
        assert everything(state) == {**ROWS, b"later": b"1"}


ANY_BYTE = """
import sys, shutil
from pathlib import Path
from tests.unit.state.test_damage import ROWS, everything
from tests.unit.state.test_changelog import opened
from hayase.state.changelog.changelog import Changelog
from hayase.storage.posix_blobs import PosixBlobs

folder, places = Path(sys.argv[1]), [int(each) for each in sys.argv[2].split(",")]
changelog = Changelog(PosixBlobs(folder / "c", fsync=False), "b0")
rebuilt = 0
for number, place in enumerate(places):
    copy = folder / f"copy-{number}"
    shutil.copytree(folder / "s", copy)
    data = bytearray((copy / "data.mdb").read_bytes())
    data[place] ^= 1 << number % 8
    (copy / "data.mdb").write_bytes(data)
    with opened(copy) as state:
        rebuilt += state.epoch == -1
        changelog.catch_up(state, 2)
        assert everything(state) == ROWS, place
    shutil.rmtree(copy)
print(rebuilt)
"""


@pytest.mark.long
def test_whichever_byte_of_the_file_is_damaged_the_state_is_right_and_nothing_crashes(folder: Path) -> None:
    size, rng, wanted = (folder / "data.mdb").stat().st_size, random.Random(11), 10 * examples(40)
    places = [*range(16, 192, 5), *range(4096 + 16, 4096 + 192, 5), *(rng.randrange(size) for _ in range(wanted))]
    said = ",".join(map(str, places))
    ran = subprocess.run(
        [sys.executable, "-c", ANY_BYTE, str(folder.parent), said], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > len(places) // 10


@pytest.mark.long
def test_a_file_that_was_cut_short_is_rebuilt(folder: Path, changelog: Changelog) -> None:
    data = (folder / "data.mdb").read_bytes()
    for length in (0, 100, 5000, len(data) // 2, len(data) - 4096):
        (folder / "data.mdb").write_bytes(data[:length])
        with opened(folder) as state:
            changelog.catch_up(state, 2)
            assert everything(state) == ROWS


def test_a_reader_refuses_a_damaged_state_and_the_application_rebuilds_it(folder: Path, changelog: Changelog) -> None:
    flip(folder, ROWS[b"key-000123"], 9)
    reader = BundleReader(folder)
    with pytest.raises(StateError) as raised, reader.snapshot():
        pass
    assert raised.value.condition == "STATE_DAMAGED" and str(folder / "data.mdb") in raised.value.message
    with opened(folder) as state:
        changelog.catch_up(state, 2)
        with reader.snapshot() as snapshot:
            assert snapshot.store("0_0", "s").get(b"key-000123") == ROWS[b"key-000123"]


def test_damage_that_is_found_while_the_application_runs_is_rebuilt_with_the_next_epoch(
    folder: Path, changelog: Changelog
) -> None:
    with opened(folder) as state:
        damaged(folder, "for this test")
        assert state.damaged
        changelog.catch_up(state, 2)
        assert not state.damaged and everything(state) == ROWS and state.take_events() == {STATES_REBUILT: 1}


def test_no_snapshot_is_made_of_a_state_that_was_damaged_under_it(folder: Path, changelog: Changelog) -> None:
    with opened(folder) as state:
        flip(folder, ROWS[b"key-000123"], 9)
        with pytest.raises(StateError, match="STATE_DAMAGED"):
            changelog.snapshots.publish(state, 0)
        assert changelog.snapshots.epochs() == []
        changelog.catch_up(state, 2)
        assert changelog.snapshots.publish(state, 0).epoch == 2


def test_what_lmdb_finds_wrong_is_damage_as_well(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise lmdb.CorruptedError("mdb_put")

    with opened(folder) as state:
        monkeypatch.setattr(BundleState, "_apply", broken)
        with pytest.raises(StateError, match="STATE_DAMAGED"):
            state.apply(Delta("app", "l", "b0", 3, "r", 2, state.digest))
        assert state.damaged


def test_a_state_of_before_there_were_checksums_is_read_and_gets_them(folder: Path) -> None:
    (folder / PAGES_FILE).unlink()
    with BundleReader(folder).snapshot() as snapshot:
        assert dict(snapshot.store("0_0", "s").range()) == ROWS
    close_environment(folder)
    with opened(folder) as state:
        assert state.epoch == 2 and everything(state) == ROWS
    flip(folder, ROWS[b"key-000123"], 9)
    with opened(folder) as state:
        assert state.epoch == -1


def test_a_clean_end_does_not_hide_a_mark_of_damage(folder: Path) -> None:
    damaged(folder, "for this test")
    written = crash_marker.read(folder)
    assert written is not None and written.clean
    with opened(folder) as state:
        assert state.epoch == -1


KILLED = """
import os, sys
from pathlib import Path
from tests.unit.state.test_changelog import opened
from hayase.state.changelog.changelog import Changelog
from hayase.storage.page_checksums import PageChecksums
from hayase.storage.posix_blobs import PosixBlobs

folder = Path(sys.argv[1])
changelog = Changelog(PosixBlobs(folder / "c", fsync=False), "b0")
with opened(folder / "killed") as state:
    changelog.catch_up(state, 1)
    PageChecksums._store = lambda *_: os._exit(9)
    changelog.catch_up(state, 2)
"""


@pytest.mark.long
def test_a_kill_between_a_commit_and_its_checksums_loses_nothing(
    tmp_path: Path, folder: Path, changelog: Changelog
) -> None:
    ran = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], capture_output=True, text=True, check=False)
    assert ran.returncode == 9, ran.stderr
    with opened(tmp_path / "killed") as state:
        assert state.epoch == 2 and everything(state) == ROWS and not state.take_events()
    flip(tmp_path / "killed", ROWS[b"key-000123"], 9)
    with opened(tmp_path / "killed") as state:
        assert state.epoch == -1
