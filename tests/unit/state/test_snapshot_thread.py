"""Snapshots are made beside the epochs.

No epoch waits for one, and a kill in the middle leaves nothing half-written.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import lmdb
import pytest
from tests.unit.state.test_changelog import content_of, make, opened

from hayase.core.failpoints import VARIABLE
from hayase.core.metrics import SNAPSHOTS_FAILED
from hayase.state.changelog.changelog import Changelog
from hayase.state.changelog.snapshot_policy import SnapshotPolicy
from hayase.state.changelog.snapshot_thread import SnapshotThread
from hayase.state.environment.bundle import BundleState
from hayase.storage.posix_blobs import PosixBlobs

pytestmark = pytest.mark.long


def advance(changelog: Changelog, state: BundleState, epochs: int) -> None:
    for _ in range(epochs):
        last = changelog.get(state.epoch)
        changelog.apply(state, changelog.publish(make(last, state.epoch + 1)))


def test_epochs_go_on_while_a_snapshot_is_made(tmp_path: Path) -> None:
    begun, may_go_on = threading.Event(), threading.Event()

    def slow(state: BundleState, changelog: Changelog, *_: object) -> None:
        begun.set()
        assert may_go_on.wait(60)
        changelog.snapshots.publish(state, 0)

    blobs, failures = PosixBlobs(tmp_path / "c", fsync=False), list[Exception]()
    thread = SnapshotThread(blobs, SnapshotPolicy(min_delta_bytes=0, report=failures.append), slow)
    changelog = Changelog(blobs, "b0")
    with opened(tmp_path / "s") as state:
        advance(changelog, state, 1)
        thread.offer(state)
        assert begun.wait(60)
        advance(changelog, state, 5)
        thread.offer(state)
        assert changelog.snapshots.epochs() == []
        may_go_on.set()
        thread.wait()
        thread.close()
        assert changelog.snapshots.epochs() == [5] and failures == []


def test_a_snapshot_in_the_background_replaces_history(tmp_path: Path) -> None:
    blobs, failures = PosixBlobs(tmp_path / "c", fsync=False), list[Exception]()
    thread = SnapshotThread(blobs, SnapshotPolicy(min_delta_bytes=3000, report=failures.append))
    changelog = Changelog(blobs, "b0")
    with opened(tmp_path / "s") as state:
        for _ in range(60):
            advance(changelog, state, 1)
            thread.offer(state)
        thread.wait()
        thread.close()
        expected = content_of(state)
    assert failures == [] and changelog.epochs()[0] == changelog.snapshots.epochs()[-1] > 0
    with opened(tmp_path / "new") as state:
        assert Changelog(blobs, "b0").catch_up(state, 59)
        assert content_of(state) == expected


def test_what_is_not_due_starts_no_thread(tmp_path: Path) -> None:
    blobs = PosixBlobs(tmp_path / "c", fsync=False)
    thread = SnapshotThread(blobs, SnapshotPolicy())
    before = threading.active_count()
    with opened(tmp_path / "s") as state:
        advance(Changelog(blobs, "b0"), state, 2)
        thread.offer(state)
    assert threading.active_count() == before
    thread.close()
    thread.close()


def test_after_closing_nothing_is_taken(tmp_path: Path) -> None:
    blobs = PosixBlobs(tmp_path / "c", fsync=False)
    thread = SnapshotThread(blobs, SnapshotPolicy(min_delta_bytes=0))
    changelog = Changelog(blobs, "b0")
    with opened(tmp_path / "s") as state:
        advance(changelog, state, 1)
        thread.close()
        thread.offer(state)
        thread.wait()
    assert changelog.snapshots.epochs() == []


FORKED = """
import os, sys, threading
from pathlib import Path
from hayase.state.changelog.snapshot_policy import SnapshotPolicy
from hayase.state.changelog.snapshot_thread import SnapshotThread
from hayase.storage.lmdb_env import close_environment
from hayase.storage.posix_blobs import PosixBlobs
from hayase.state.changelog.changelog import Changelog
from tests.unit.state.test_changelog import opened
from tests.unit.state.test_snapshot_thread import advance

folder = Path(sys.argv[1])
blobs = PosixBlobs(folder / "c", fsync=False)
busy, go = threading.Event(), threading.Event()
def slow(state, changelog, policy, cost):
    busy.set()
    go.wait(60)
    changelog.snapshots.publish(state, 0)
thread = SnapshotThread(blobs, SnapshotPolicy(min_delta_bytes=0), slow)
changelog = Changelog(blobs, "b0")
with opened(folder / "s") as state:
    advance(changelog, state, 1)
    thread.offer(state)
    busy.wait(60)
    child = os.fork()
    if child == 0:
        thread.close()          # it is the parent's: nothing to wait for
        go.set()
        with opened(folder / "child") as other:
            Changelog(blobs, "b0").catch_up(other, 0)
            thread.offer(other)
            thread.wait()
            thread.close()
        os._exit(0 if Changelog(blobs, "b0").snapshots.epochs() == [0] else 1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    go.set()
    thread.close()
    print(code)
"""


def test_a_forked_child_has_a_thread_of_its_own(tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", FORKED, str(tmp_path)], capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == "0", ran.stderr


KILLED = """
import sys
from pathlib import Path
from hayase.state.changelog.changelog import Changelog
from hayase.state.changelog.snapshot_policy import SnapshotPolicy
from hayase.state.changelog.snapshot_thread import SnapshotThread
from hayase.storage.posix_blobs import PosixBlobs
from tests.unit.state.test_changelog import opened
from tests.unit.state.test_snapshot_thread import advance

folder = Path(sys.argv[1])
blobs = PosixBlobs(folder / "c", fsync=False)
thread, changelog = SnapshotThread(blobs, SnapshotPolicy(min_delta_bytes=3000)), Changelog(blobs, "b0")
with opened(folder / "s") as state:
    for _ in range(60):
        advance(changelog, state, 1)
        thread.offer(state)
    thread.wait()
"""


@pytest.mark.parametrize("place", ["before_snapshot", "inside_snapshot", "after_snapshot"])
def test_a_kill_while_a_snapshot_is_made_leaves_nothing_half_written(tmp_path: Path, place: str) -> None:
    armed = [{"name": place, "action": "kill_worker", "token": str(tmp_path / "token")}]
    ran = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        env={**os.environ, VARIABLE: json.dumps(armed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    blobs, failures = PosixBlobs(tmp_path / "c", fsync=False), list[Exception]()
    changelog = Changelog(blobs, "b0")
    assert bool(changelog.snapshots.epochs()) == (place == "after_snapshot")
    for manifest in changelog.snapshots.newest_first():
        changelog.snapshots.verify(manifest)
    with opened(tmp_path / "s") as state, opened(tmp_path / "new") as other:
        assert not list(state.path.glob("temporary-*"))
        last = changelog.epochs()[-1]
        assert changelog.catch_up(state, last) and Changelog(blobs, "b0").catch_up(other, last)
        assert content_of(state) == content_of(other)
        thread = SnapshotThread(blobs, SnapshotPolicy(min_delta_bytes=3000, report=failures.append))
        thread.offer(state)
        thread.wait()
        thread.close()
    assert failures == [] and changelog.snapshots.epochs()
    kept = {part.name for manifest in changelog.snapshots.newest_first() for part in manifest.parts}
    assert set(blobs.list("snapshots/b0/parts/")) == kept


@pytest.mark.parametrize("failure", [MemoryError("no memory"), lmdb.CorruptedError("page"), RuntimeError("whatever")])
def test_whatever_a_snapshot_fails_with_the_thread_goes_on(tmp_path: Path, failure: Exception) -> None:
    calls: list[int] = []

    def failing_once(state: BundleState, changelog: Changelog, *_: object) -> None:
        calls.append(state.epoch)
        if len(calls) == 1:
            raise failure
        changelog.snapshots.publish(state, 0)

    blobs, failures, now = PosixBlobs(tmp_path / "c", fsync=False), list[Exception](), [0.0]
    policy = SnapshotPolicy(min_delta_bytes=0, report=failures.append)
    thread = SnapshotThread(blobs, policy, failing_once, clock=lambda: now[0])
    changelog = Changelog(blobs, "b0")
    with opened(tmp_path / "s") as state:
        advance(changelog, state, 1)
        thread.offer(state)
        thread.wait()
        assert failures == [failure] and state.take_events() == {SNAPSHOTS_FAILED: 1}
        advance(changelog, state, 1)
        thread.offer(state)
        thread.wait()
        assert calls == [0]  # the pause is not over
        now[0] = 2.0
        thread.offer(state)
        thread.wait()
        thread.close()
    assert calls == [0, 1] and changelog.snapshots.epochs() == [1] and failures == [failure]


def test_pauses_after_failures_double_up_to_five_minutes(tmp_path: Path) -> None:
    now, attempts = [0.0], list[float]()

    def failing(*_: object) -> None:
        attempts.append(now[0])
        raise OSError(28, "No space left on device")

    blobs = PosixBlobs(tmp_path / "c", fsync=False)
    policy = SnapshotPolicy(min_delta_bytes=0, report=lambda _: None)
    thread = SnapshotThread(blobs, policy, failing, clock=lambda: now[0])
    with opened(tmp_path / "s") as state:
        advance(Changelog(blobs, "b0"), state, 1)
        for second in range(1500):
            now[0] = float(second)
            thread.offer(state)
            thread.wait()
        thread.close()
    pauses = [later - earlier for earlier, later in pairwise(attempts)]
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]


def test_a_reporter_that_fails_does_not_end_the_thread(tmp_path: Path) -> None:
    def broken(_: Exception) -> None:
        raise MemoryError

    def failing(*_: object) -> None:
        raise OSError(5, "Input/output error")

    blobs, now = PosixBlobs(tmp_path / "c", fsync=False), [0.0]
    policy = SnapshotPolicy(min_delta_bytes=0, report=broken)
    thread = SnapshotThread(blobs, policy, failing, clock=lambda: now[0])
    with opened(tmp_path / "s") as state:
        advance(Changelog(blobs, "b0"), state, 1)
        for _ in range(3):
            thread.offer(state)
            thread.wait()
            now[0] += 1000
        thread.close()
        assert state.take_events() == {SNAPSHOTS_FAILED: 3}


def test_an_epoch_does_not_fail_where_its_state_cannot_be_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs, failures = PosixBlobs(tmp_path / "c", fsync=False), list[Exception]()
    thread = SnapshotThread(blobs, SnapshotPolicy(min_delta_bytes=0, report=failures.append))
    with opened(tmp_path / "s") as state:
        advance(Changelog(blobs, "b0"), state, 1)
        with monkeypatch.context() as patched:
            patched.setattr(BundleState, "meta", lambda _: (_ for _ in ()).throw(lmdb.ReadersFullError("readers")))
            thread.offer(state)
        assert [type(each) for each in failures] == [lmdb.ReadersFullError]
    thread.close()


def test_a_thread_that_could_not_begin_begins_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blobs, failures, now = PosixBlobs(tmp_path / "c", fsync=False), list[Exception](), [0.0]
    policy = SnapshotPolicy(min_delta_bytes=0, report=failures.append)
    thread, changelog = SnapshotThread(blobs, policy, clock=lambda: now[0]), Changelog(blobs, "b0")
    with opened(tmp_path / "s") as state:
        advance(changelog, state, 1)
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", lambda _: (_ for _ in ()).throw(RuntimeError("no more threads")))
            thread.offer(state)
        now[0] = 10.0
        thread.offer(state)
        thread.wait()
        thread.close()
    assert len(failures) == 1 and changelog.snapshots.epochs() == [0]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_was_ended_is_begun_again(tmp_path: Path) -> None:
    calls: list[int] = []

    def ending(state: BundleState, changelog: Changelog, *_: object) -> None:
        calls.append(state.epoch)
        if len(calls) == 1:
            raise SystemExit
        changelog.snapshots.publish(state, 0)

    blobs = PosixBlobs(tmp_path / "c", fsync=False)
    thread, changelog = SnapshotThread(blobs, SnapshotPolicy(min_delta_bytes=0), ending), Changelog(blobs, "b0")
    with opened(tmp_path / "s") as state:
        advance(changelog, state, 1)
        for _ in range(2):
            thread.offer(state)
            thread.wait()
            for each in threading.enumerate():
                if each.name == "hayase-snapshots" and len(calls) == 1:
                    each.join(10)
        thread.close()
    assert calls == [0, 0] and changelog.snapshots.epochs() == [0]


class Slow(PosixBlobs):
    """Takes 20 ms to answer, as a store behind a network."""

    def get(self, name: str) -> bytes | None:
        time.sleep(0.02)
        return super().get(name)


def test_snapshots_come_sooner_where_reading_a_delta_takes_longer(tmp_path: Path) -> None:
    def made_at(blobs: PosixBlobs, name: str) -> list[int]:
        policy = SnapshotPolicy(restore_max_ms=2200)
        thread, changelog, made = SnapshotThread(blobs, policy), Changelog(blobs, "b0"), list[int]()
        with opened(tmp_path / name) as state:
            for _ in range(150):
                advance(changelog, state, 1)
                thread.offer(state)
                thread.wait()
                made += [epoch for epoch in changelog.snapshots.epochs() if epoch not in made]
            thread.close()
        return made

    (epoch,) = made_at(Slow(tmp_path / "far", fsync=False), "far-state")
    assert 100 <= epoch + 1 <= 112
    assert made_at(PosixBlobs(tmp_path / "near", fsync=False), "near-state") == []
