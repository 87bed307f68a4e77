"""A full disk is one named error wherever local state is written; it changes nothing, and ends when there is room."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.small_disk import fill, mounted
from tests.unit.state.test_changelog import content_of, opened
from tests.unit.state.test_snapshot_thread import advance

from hayase.core.errors import StateError
from hayase.core.metrics import SNAPSHOTS_FAILED
from hayase.state.changelog.changelog import Changelog
from hayase.state.changelog.snapshot_policy import SnapshotPolicy
from hayase.state.changelog.snapshot_thread import SnapshotThread
from hayase.state.delta.changes import StateChanges, StoreChanges
from hayase.state.delta.delta import Delta
from hayase.state.environment.bundle import BundleState
from hayase.state.environment.spill import EpochSpace
from hayase.storage.posix_blobs import PosixBlobs


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MB."""
    with mounted(tmp_path / "small", 4) as folder:
        yield folder


def full(action: Callable[[], object]) -> StateError:
    with pytest.raises(StateError) as raised:
        action()
    assert raised.value.condition == "DISK_FULL"
    return raised.value


OPENED = """
import sys
from pathlib import Path
from tests.small_disk import fill
from hayase.core.errors import StateError
from hayase.storage.lmdb_env import open_environment, read_transaction, run_write

folder, when = Path(sys.argv[1]), sys.argv[2]
if when == "before":
    fill(folder)
try:
    env = open_environment(folder / "e", sync=False)
except StateError as error:
    print(error.condition, str(folder) in error.message)
    raise SystemExit(0)
run_write(env, lambda txn: txn.put(b"a", b"b"))
fill(folder)
from contextlib import ExitStack
with ExitStack() as stack:
    found = {stack.enter_context(read_transaction(env)).get(b"a") for _ in range(900)}
print(found)
"""


@pytest.mark.long
@pytest.mark.parametrize(("when", "said"), [("before", "DISK_FULL True"), ("afterwards", "{b'b'}")])
def test_a_full_disk_kills_nobody_who_opens_or_reads_an_environment(disk: Path, when: str, said: str) -> None:
    ran = subprocess.run([sys.executable, "-c", OPENED, str(disk), when], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout.strip()) == (0, said), ran.stderr


def test_a_delta_is_applied_when_there_is_room_again(disk: Path) -> None:
    with opened(disk / "s") as state:
        keys = [b"%08d" % number for number in range(20_000)]
        stores = StateChanges({("0_0", "s"): StoreChanges([], keys, [b"value"] * len(keys))})
        delta = Delta("app", "l", "b0", 0, "r", -1, "", stores)
        filler = fill(disk)
        assert str(disk / "s") in full(lambda: state.apply(delta)).message
        assert state.epoch == -1 and content_of(state) == {}
        filler.unlink()
        assert state.apply(delta) and len(content_of(state)) == 20_000


def test_a_state_is_opened_when_there_is_room_again(disk: Path) -> None:
    filler = fill(disk)
    make = lambda: BundleState(disk / "s", application_id="app", checkpoint_id="l", bundle="b0")  # noqa: E731
    full(make)
    filler.unlink()
    make().close()


@pytest.mark.parametrize("what", ["file", "maps"])
def test_what_an_epoch_spills_has_the_same_error(disk: Path, what: str) -> None:
    space = EpochSpace(disk / "spill", 1 << 20)

    def spill() -> None:
        if what == "file":
            space.file.append(b"x" * (1 << 20))
        else:
            space.maps.store().put_many([b"k"], [b"v" * (1 << 20)])

    filler = fill(disk)
    with space:
        assert str(disk / "spill") in full(spill).message
        filler.unlink()
        spill()


def test_a_snapshot_is_made_when_there_is_room_again(tmp_path: Path, disk: Path) -> None:
    blobs, failures, now = PosixBlobs(tmp_path / "c", fsync=False), list[Exception](), [0.0]
    policy = SnapshotPolicy(min_delta_bytes=0, report=failures.append)
    thread, changelog = SnapshotThread(blobs, policy, clock=lambda: now[0]), Changelog(blobs, "b0")
    with opened(disk / "s") as state:
        advance(changelog, state, 1)
        filler = fill(disk)
        thread.offer(state)
        thread.wait()
        (failure,) = failures
        assert isinstance(failure, StateError) and failure.condition == "DISK_FULL"
        assert str(disk / "s") in failure.message and state.take_events() == {SNAPSHOTS_FAILED: 1}
        filler.unlink()
        now[0] = 2.0
        thread.offer(state)
        thread.wait()
        thread.close()
    assert changelog.snapshots.epochs() == [0]
