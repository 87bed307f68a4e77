"""Processes that are killed anywhere in an epoch, one or two at a time, lose nothing and count nothing twice."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hayase.state.changelog.changelog import Changelog
from hayase.state.environment.bundle import BundleState
from hayase.storage.lmdb_env import close_environment
from hayase.storage.posix_blobs import PosixBlobs

pytestmark = pytest.mark.crash

EPOCHS = """
import os, random, sys
from pathlib import Path
from hayase.core.errors import StateError
from hayase.state.environment.bundle import BundleState
from hayase.state.changelog.changelog import Changelog
from hayase.state.delta.changes import StateChanges, StoreChanges
from hayase.state.delta.delta import Delta
from hayase.state.delta.journal import Journal
from hayase.state.changelog.snapshot_policy import SnapshotPolicy, maybe_snapshot
from hayase.storage.posix_blobs import PosixBlobs

folder = Path(sys.argv[1])
changelog = Changelog(PosixBlobs(folder / "checkpoint", fsync=False), "b0")
state = BundleState(folder / sys.argv[2], application_id="app", checkpoint_id="l", bundle="b0")
failures = []
rng = random.Random()
policy = SnapshotPolicy(min_delta_bytes=60_000, report=failures.append)
# The first delta of a process costs 0.2 s, for pyarrow imports pandas; the kills shall hit epochs, not that.
Delta("", "", "", 0, "", 0, "", StateChanges({("", ""): StoreChanges([], [b""], [b""])})).to_bytes()
print("ready", flush=True)
def run(epoch):
    found = changelog.get(epoch)
    if found is None and changelog.catch_up(state, epoch - 1):
        with state.begin() as begun:
            if begun.epoch == epoch - 1:
                store = begun.task("0_0").store("counts")
                # Not deterministic: an adopted delta must not be mixed with own work.
                for key in (b"all", os.urandom(1)):
                    store.put(key, b"%d" % (int(store.get(key) or b"0") + 1))
                found = changelog.publish(
                    Delta("app", "l", "b0", epoch, f"r{epoch}", begun.epoch, begun.digest, begun.changes(), Journal())
                )
    if found is not None:
        changelog.apply(state, found)
        maybe_snapshot(state, changelog, policy)

while True:
    try:
        run(max([*changelog.epochs(), -1]) + rng.randrange(2))
    except StateError as error:
        # The rival is ahead, and has deleted what this one was about to read or to do.
        if len(sys.argv) == 3 or error.condition not in ("CHANGELOG_GAP", "EPOCH_IS_HISTORY"):
            raise
    if failures:
        raise failures[0]
"""


def start(folder: Path, state: str, *rival: str) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(
        [sys.executable, "-c", EPOCHS, str(folder), state, *rival], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout is not None
    child.stdout.readline()
    return child


def check(folder: Path, state_name: str) -> int:
    """The state, brought up to date, has counted every epoch once; returns how many."""
    changelog = Changelog(PosixBlobs(folder / "checkpoint"), "b0")
    state = BundleState(folder / state_name, application_id="app", checkpoint_id="l", bundle="b0")
    last = max([*changelog.epochs(), -1])
    assert state.epoch <= last
    assert changelog.catch_up(state, last)
    with state.begin() as epoch:
        counts = {key: int(value) for key, value in epoch.task("0_0").store("counts").range()}
        assert epoch.task("0_0").store("counts").approximate_count() == len(counts)
    assert counts.pop(b"all", 0) == last + 1 == sum(counts.values())
    state.close()
    close_environment(state.path)
    return last + 1


@pytest.mark.parametrize("rivals", [("s",), ("s", "s"), ("s", "other")], ids=["alone", "same-state", "other-state"])
def test_whatever_is_killed_every_epoch_counts_once(tmp_path: Path, rivals: tuple[str, ...]) -> None:
    seed = random.randrange(1 << 30)
    print("seed", seed)
    rng = random.Random(seed)
    for _ in range(5):
        children = [start(tmp_path, state, *rivals[1:]) for state in rivals]
        time.sleep(rng.uniform(0.05, 0.4))
        for child in children:
            assert child.poll() is None, child.communicate()[1].decode()
            child.send_signal(signal.SIGKILL)
            child.communicate()
        check(tmp_path, "s")
    # Snapshots were made and history deleted on the way, and a new machine gets there too.
    assert check(tmp_path, "new") == check(tmp_path, "s") > 5
