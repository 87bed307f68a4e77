"""The local state of a bundle: applied epoch by epoch, all or nothing, thrown away when it cannot be trusted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hayase.core.errors import StateError
from hayase.state.delta.delta import Delta
from hayase.state.environment.bundle import BundleState
from hayase.state.environment.crash_marker import read
from hayase.state.environment.environment import StatePosition
from hayase.storage.lmdb_env import close_environment

Open = Callable[..., BundleState]


@pytest.fixture
def open_state(tmp_path: Path) -> Iterator[Open]:
    opened: list[BundleState] = []

    def open_state(checkpoint_id: str = "l", boot_id: str = "boot-1", bundle: str = "b0") -> BundleState:
        opened.append(
            BundleState(
                tmp_path / "s", application_id="app", checkpoint_id=checkpoint_id, bundle=bundle, boot_id=boot_id
            )
        )
        return opened[-1]

    yield open_state
    for state in opened:
        state.close()
    close_environment(tmp_path / "s")


def next_delta(state: BundleState, **values: bytes | None) -> Delta:
    with state.begin() as epoch:
        store = epoch.task("0_0").store("counts")
        for key, value in values.items():
            store.put(key.encode(), value)
        return Delta(
            "app", state.checkpoint_id, state.bundle, epoch.epoch + 1, "r", epoch.epoch, epoch.digest, epoch.changes()
        )


def content(state: BundleState) -> dict[bytes, bytes]:
    with state.begin() as epoch:
        return dict(epoch.task("0_0").store("counts").range())


def simulate_power_loss(path: Path) -> None:
    """What a process killed by a power loss leaves: files without a clean close. Here: close nothing, drop the map."""
    close_environment(path)


def test_a_new_state_is_at_epoch_minus_one(open_state: Open) -> None:
    state = open_state()
    assert (state.epoch, state.digest) == (-1, "") and content(state) == {}


def test_a_delta_is_applied_once(open_state: Open) -> None:
    state = open_state()
    delta = next_delta(state, a=b"1")
    assert state.apply(delta)
    assert not state.apply(delta)
    assert state.position() == StatePosition(0, delta.digest) and content(state) == {b"a": b"1"}


def test_a_delta_that_does_not_follow_is_refused_and_changes_nothing(open_state: Open) -> None:
    state = open_state()
    first, rival = next_delta(state, a=b"1"), next_delta(state, a=b"2")
    state.apply(first)
    second = next_delta(state, a=b"3")
    foreign = next_delta(state, a=b"4")
    foreign.checkpoint_id = "other"
    state.apply(second)
    before = state.position()
    for delta in (rival, first, foreign):
        with pytest.raises(StateError) as raised:
            state.apply(delta)
        assert raised.value.condition == "DELTA_DOES_NOT_FIT"
    assert state.position() == before and content(state) == {b"a": b"3"}


def test_an_epoch_sees_what_was_applied_when_it_began(open_state: Open) -> None:
    state = open_state()
    state.apply(next_delta(state, a=b"1"))
    with state.begin() as epoch:
        state.apply(next_delta(state, a=b"2", b=b"2"))
        assert dict(epoch.task("0_0").store("counts").range()) == {b"a": b"1"}
        assert epoch.epoch == 0
    assert content(state) == {b"a": b"2", b"b": b"2"}


def test_stores_of_tasks_are_apart(open_state: Open) -> None:
    state = open_state()
    with state.begin() as epoch:
        for task in ("0_0", "0_1", "1_0"):
            for store in ("x", "y"):
                epoch.task(task).store(store).put(b"k", f"{task}/{store}".encode())
        delta = Delta("app", "l", "b0", 0, "r", -1, "", epoch.changes())
    state.apply(delta)
    with state.begin() as epoch:
        assert epoch.task("0_1").store("x").get(b"k") == b"0_1/x"
        assert list(epoch.task("1_0").store("y").range()) == [(b"k", b"1_0/y")]
        assert epoch.changes().stores == {}


def test_the_state_of_another_checkpoint_or_bundle_is_emptied(open_state: Open) -> None:
    state = open_state()
    state.apply(next_delta(state, a=b"1"))
    assert content(open_state()) == {b"a": b"1"}
    other = open_state(checkpoint_id="new")
    assert (other.epoch, content(other)) == (-1, {})
    other.apply(next_delta(other, a=b"2"))
    assert open_state(checkpoint_id="new", bundle="b1").epoch == -1


def test_a_process_kill_loses_nothing(open_state: Open, tmp_path: Path) -> None:
    state = open_state()
    state.apply(next_delta(state, a=b"1"))
    simulate_power_loss(tmp_path / "s")
    assert content(open_state(boot_id="boot-1")) == {b"a": b"1"}


def test_after_a_power_loss_the_files_are_not_opened_but_deleted(open_state: Open, tmp_path: Path) -> None:
    state = open_state()
    state.apply(next_delta(state, a=b"1"))
    state.close(clean=False)
    close_environment(tmp_path / "s")
    # Opening such a file would crash.
    data = tmp_path / "s" / "data.mdb"
    data.write_bytes(data.read_bytes()[:4096] + b"\xde\xad" * 20_000)
    state = open_state(boot_id="boot-2")
    assert (state.epoch, content(state)) == (-1, {})


def test_a_clean_close_survives_a_restart_of_the_machine(open_state: Open, tmp_path: Path) -> None:
    state = open_state()
    state.apply(next_delta(state, a=b"1"))
    state.close()
    state.close()
    boot = read(tmp_path / "s")
    assert boot is not None and boot.clean
    close_environment(tmp_path / "s")
    assert content(open_state(boot_id="boot-2")) == {b"a": b"1"}
    boot = read(tmp_path / "s")
    assert boot is not None and not boot.clean and boot.boot_id == "boot-2"


def test_a_state_is_not_clean_while_somebody_else_has_it_open(open_state: Open, tmp_path: Path) -> None:
    one, other = open_state(), open_state()
    one.close()
    boot = read(tmp_path / "s")
    assert boot is not None and not boot.clean
    other.close()
    boot = read(tmp_path / "s")
    assert boot is not None and boot.clean


def test_a_closed_state_cannot_be_written(open_state: Open) -> None:
    state = open_state()
    delta = next_delta(state, a=b"1")
    state.close()
    with pytest.raises(StateError) as raised:
        state.apply(delta)
    assert raised.value.condition == "STATE_CLOSED"


def test_a_missing_boot_file_means_that_nothing_can_be_trusted(open_state: Open, tmp_path: Path) -> None:
    state = open_state()
    state.apply(next_delta(state, a=b"1"))
    state.close()
    (tmp_path / "s" / "BOOT").unlink()
    assert open_state().epoch == -1


@pytest.mark.parametrize(
    "torn", [b"", b'{"boot_id":"b', b"\x00" * 64, b'{"boot_id":"\xff\xfe","lineage":"l","clean":true}', b"[]"]
)
def test_a_torn_boot_file_means_that_nothing_can_be_trusted(open_state: Open, tmp_path: Path, torn: bytes) -> None:
    state = open_state()
    state.apply(next_delta(state, a=b"1"))
    state.close()
    (tmp_path / "s" / "BOOT").write_bytes(torn)
    assert open_state().epoch == -1


@pytest.mark.parametrize("left", [0.9, 0.5, 0.0])
def test_a_file_that_was_cut_off_is_not_read_but_deleted(open_state: Open, tmp_path: Path, left: float) -> None:
    first = open_state()
    first.apply(next_delta(first, **{f"k{number}": b"v" * 500 for number in range(200)}))
    first.close()
    close_environment(tmp_path / "s")
    file = tmp_path / "s" / "data.mdb"
    with file.open("r+b") as opened:
        opened.truncate(int(file.stat().st_size * left))
    again = open_state()
    assert again.epoch == -1 and content(again) == {}


def test_a_file_that_is_no_environment_is_deleted(open_state: Open, tmp_path: Path) -> None:
    first = open_state()
    first.apply(next_delta(first, k=b"v"))
    first.close()
    close_environment(tmp_path / "s")
    (tmp_path / "s" / "data.mdb").write_bytes(b"?" * 20_000)
    again = open_state()
    again.apply(next_delta(again, k=b"w"))
    assert content(again) == {b"k": b"w"}


def test_what_killed_processes_left_is_removed(open_state: Open, tmp_path: Path) -> None:
    leftover = tmp_path / "s" / "temporary-x"
    leftover.mkdir(parents=True)
    (leftover / "data.mdb").write_bytes(b"half")
    open_state()
    assert not leftover.exists()


APPLY_BEYOND_A_LIMIT = """
import resource, signal, sys
from pathlib import Path
from hayase.core.errors import StateError
from hayase.state.environment.bundle import BundleState
from hayase.state.delta.delta import Delta

def delta(state, count):
    with state.begin() as epoch:
        store = epoch.task("0_0").store("counts")
        store.put_many([b"%d" % n for n in range(count)], [b"x" * 100] * count)
        return Delta("app", "l", "b0", epoch.epoch + 1, "r", epoch.epoch, epoch.digest, epoch.changes())

state = BundleState(Path(sys.argv[1]), application_id="app", checkpoint_id="l", bundle="b0")
state.apply(delta(state, 10))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, resource.RLIM_INFINITY))
big = delta(state, 100_000)
try:
    state.apply(big)
except StateError as error:
    print(error.condition, "free space" in error.message, state.epoch)
with state.begin() as epoch:
    print(sum(1 for _ in epoch.task("0_0").store("counts").range()))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(state.apply(big), state.epoch)
"""


@pytest.mark.long
def test_a_full_disk_leaves_the_state_as_it_was(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", APPLY_BEYOND_A_LIMIT, str(tmp_path / "s")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.split("\n")[:3] == ["DISK_FULL True 0", "10", "True 1"], done.stderr


@pytest.mark.long
def test_two_processes_may_have_it_open_and_one_applies_each_delta(open_state: Open, tmp_path: Path) -> None:
    state = open_state(boot_id="")
    deltas: list[Delta] = []
    for number in range(30):
        deltas.append(Delta("app", "l", "b0", number, "r", number - 1, deltas[-1].digest if deltas else ""))
        (tmp_path / f"{number}").write_bytes(deltas[-1].to_bytes())
    script = """
import sys
from pathlib import Path
from hayase.state.environment.bundle import BundleState
from hayase.state.delta.delta import Delta
from hayase.core.errors import StateError
folder = Path(sys.argv[1])
state = BundleState(folder / "s", application_id="app", checkpoint_id="l", bundle="b0")
print("ready", flush=True)
sys.stdin.readline()
won = 0
for number in range(30):
    try:
        won += state.apply(Delta.from_bytes((folder / str(number)).read_bytes()))
    except StateError as error:
        assert error.condition == "DELTA_DOES_NOT_FIT"
print(won)
"""
    children = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    for child in children:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
    won = [int(child.communicate("go\n", timeout=60)[0]) for child in children]
    assert sum(won) == 30 and state.position() == StatePosition(29, deltas[-1].digest)
