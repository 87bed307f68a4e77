"""A follower that is killed anywhere goes on, and never shows stores of different epochs."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.unit.query.local_app import LocalApp, rows_of, totals_after
from tests.unit.query.test_pin import sums

from hayase import Follower
from hayase.core.errors import StateError
from hayase.core.failpoints import VARIABLE
from hayase.state.changelog.snapshot_policy import SnapshotPolicy

pytestmark = pytest.mark.crash
WAIT_S = 120


class Process:
    """A follower in a process of its own."""

    def __init__(self, local: LocalApp, follower: Follower, failpoints: list[dict[str, object]] | None = None) -> None:
        checkpoint = local.app.config.checkpoint_dir
        command = [
            sys.executable,
            "-m",
            "hayase.query.standby",
            checkpoint,
            "app",
            str(follower.folder),
            str(os.getpid()),
        ]
        environment = {**os.environ, VARIABLE: json.dumps(failpoints or []), "PYTHONFAULTHANDLER": "1"}
        self._process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)

    def kill(self) -> None:
        assert self._process.poll() is None, self._process.communicate()[1].decode()
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate()

    def wait(self) -> int:
        self._process.communicate(timeout=60)
        return self._process.returncode

    def reaches(self, follower: Follower, epoch: int) -> None:
        """Fails with what it said if it ends, or does not get there in time."""
        deadline = time.monotonic() + WAIT_S
        while follower.status().epoch < epoch:
            assert self._process.poll() is None, self._process.communicate()[1].decode()
            if time.monotonic() > deadline:
                self._process.send_signal(signal.SIGABRT)  # faulthandler says where it stands
                said = self._process.communicate()[1].decode()
                raise AssertionError(f"not at epoch {epoch}: {follower.status()}\n{said}")
            time.sleep(0.02)


def expect_one_epoch(follower: Follower) -> int:
    """The epoch that all stores are after; -1 if there is nothing yet."""
    try:
        with follower.pin("users", "items", "hourly") as pinned:
            by_user, by_item = sums(pinned)
            assert by_user == by_item
            found = {row.key: row.value for row in pinned.store("users").all()}
            assert found == (totals_after(pinned.epoch) if pinned.epoch >= 0 else {})  # -1: it has not begun
            return pinned.epoch
    except StateError as error:
        # Between two bundles it was killed: nothing is shown rather than something wrong.
        if error.condition not in ("STATE_NOT_THERE", "EPOCHS_DIFFER", "FOREIGN_STATE"):
            raise
        return -1


def test_killed_between_two_bundles_it_shows_nothing_wrong_and_goes_on(local: LocalApp, tmp_path: Path) -> None:
    follower = Follower(local.topology, local.settings, name="f")
    for number in range(2):
        local.epoch(rows_of(number))
    first = Process(local, follower)
    first.reaches(follower, 1)
    first.kill()
    for number in range(2, 6):
        local.epoch(rows_of(number))
        bundle = ("0-0", "1-0")[number % 2]
        point = {
            "name": "follower_between_bundles",
            "bundle": bundle,
            "action": "kill_worker",
            "token": str(tmp_path / f"t{number}"),
        }
        assert Process(local, follower, [point]).wait() == -signal.SIGKILL
        assert expect_one_epoch(follower) in (-1, number - 1, number)
        again = Process(local, follower)
        again.reaches(follower, number)
        assert expect_one_epoch(follower) == number
        again.kill()


def test_killed_at_any_time_it_goes_on(local: LocalApp) -> None:
    seed = random.randrange(1 << 30)
    print("seed", seed)
    draw = random.Random(seed)
    follower = Follower(local.topology, local.settings, name="f")
    number = 0
    for round_ in range(4):
        process = Process(local, follower)
        local.snapshots = SnapshotPolicy(min_delta_bytes=0) if round_ == 2 else None
        end = time.monotonic() + draw.uniform(0.5, 2.5)
        while time.monotonic() < end:
            local.epoch(rows_of(number))
            number += 1
            expect_one_epoch(follower)
        process.kill()
        expect_one_epoch(follower)
    last = Process(local, follower)
    last.reaches(follower, number - 1)
    assert expect_one_epoch(follower) == number - 1
    last.kill()


def test_a_standby_whose_application_was_killed_ends(local: LocalApp, tmp_path: Path) -> None:
    local.epoch(rows_of(0))
    code = (
        "import sys, time; from pathlib import Path; from hayase.query.standby import Standbys\n"
        "standbys = Standbys(sys.argv[1], 'app', Path(sys.argv[2]), 1)\n"
        "print(*standbys.pids, flush=True); time.sleep(60)\n"
    )
    follower = Follower(local.topology, local.settings, directory=tmp_path / "f" / "standby-0")
    command = [sys.executable, "-c", code, local.app.config.checkpoint_dir, str(tmp_path / "f")]
    application = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert application.stdout is not None
    application.stdout.readline()
    assert follower.wait_for(0)
    application.kill()
    application.communicate()
    deadline = time.monotonic() + 60
    while follower.status().running:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert follower.status().epoch == 0
