"""States of workers that were ended are closed for them, as if they had done so."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hayase.state.delta.delta import Delta
from hayase.state.environment import crash_marker, seal
from hayase.state.environment.bundle import BundleState
from hayase.state.environment.seal import seal_states
from hayase.storage.lmdb_env import close_environment

WORKING = """
import sys, time
from pathlib import Path
from hayase.state.environment.bundle import BundleState
state = BundleState(Path(sys.argv[1]), application_id="app", checkpoint_id="l", bundle="b0")
print(state.epoch, flush=True)
time.sleep(60)
"""


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """The folder of a state that was not closed."""
    state = BundleState(tmp_path / "s", application_id="app", checkpoint_id="l", bundle="b0")
    state.apply(Delta("app", "l", "b0", 0, "r", -1, ""))
    state.close(clean=False)
    close_environment(state.path)
    return state.path


def is_clean(folder: Path) -> bool:
    written = crash_marker.read(folder)
    assert written is not None
    return written.clean


def epoch_after_restart(folder: Path) -> int:
    """What is left of a state when the machine was started again."""
    state = BundleState(folder, application_id="app", checkpoint_id="l", bundle="b0", boot_id="another")
    try:
        return state.epoch
    finally:
        state.close(clean=False)
        close_environment(folder)


def test_a_state_that_nobody_closed_is_lost_with_a_restart_of_the_machine_and_one_that_was_sealed_is_not(
    left: Path,
) -> None:
    shutil.copytree(left, left.parent / "copy")
    assert epoch_after_restart(left.parent / "copy") == -1
    assert seal_states([left, left / "nothing"]) == [] and is_clean(left)
    assert epoch_after_restart(left) == 0


@pytest.mark.long
def test_a_state_that_a_process_has_open_is_left_alone_until_that_was_killed(left: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", WORKING, str(left)], stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None and worker.stdout.readline() == "0\n"
        assert seal_states([left], wait_s=0.05) == [left] and not is_clean(left)
        worker.send_signal(signal.SIGKILL)
    assert seal_states([left]) == [] and is_clean(left)


def test_a_state_of_before_a_power_loss_is_not_closed_as_if_it_were_whole(left: Path) -> None:
    crash_marker.write(left, crash_marker.CrashMarker("another", "l", clean=False))
    assert seal_states([left]) == [left] and not is_clean(left)
    (left / crash_marker.BOOT_FILE).write_bytes(b"torn")
    assert seal_states([left]) == [left]


def test_a_state_that_cannot_be_closed_keeps_no_other_from_it(left: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(left, other)
    (other / "HOLD").unlink()
    (other / "HOLD").mkdir()
    assert seal_states([other, left]) == [other] and is_clean(left)


def test_checksums_are_on_the_disk_when_a_state_is_closed_for_its_worker(
    left: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(seal, "_sync", lambda file: synced.append(file.name))
    assert seal_states([left]) == [] and is_clean(left)
    assert synced == ["data.mdb", "PAGES"]
