"""Reading state from another process while the application runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hayase.core.errors import StateError
from hayase.state.delta.delta import Delta
from hayase.state.environment import crash_marker
from hayase.state.environment.bundle import BundleState
from hayase.state.environment.reader import BundleReader
from hayase.storage.lmdb_env import close_environment

WRITER = """
import sys
from pathlib import Path
from hayase.state.environment.bundle import BundleState
from hayase.state.delta.delta import Delta
state = BundleState(Path(sys.argv[1]), application_id="app", checkpoint_id="l", bundle="b0")
keys = [b"%04d" % number for number in range(500)]
print("ready", flush=True)
while True:
    with state.begin() as epoch:
        number = epoch.epoch + 1
        epoch.task("0_0").store("s").put_many(keys, [b"%d" % number] * len(keys))
        delta = Delta("app", "l", "b0", number, "r", epoch.epoch, epoch.digest, epoch.changes())
    state.apply(delta)
"""


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "s"
    close_environment(tmp_path / "s")


def write(path: Path, count: int) -> None:
    state = BundleState(path, application_id="app", checkpoint_id="l", bundle="b0")
    with state.begin() as epoch:
        epoch.task("0_0").store("s").put_many([b"%06d" % number for number in range(count)], [b"v"] * count)
        delta = Delta("app", "l", "b0", 0, "r", -1, "", epoch.changes())
    state.apply(delta)
    state.close()


@pytest.mark.long
def test_a_reader_sees_whole_epochs_that_never_go_back_while_another_process_writes(path: Path) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
    try:
        assert writer.stdout is not None and writer.stdout.readline() == b"ready\n"
        reader, seen = BundleReader(path), set[int]()
        while len(seen) < 20:
            with reader.snapshot() as snapshot:
                if snapshot.epoch < 0:
                    continue
                values = {value for _, value in snapshot.store("0_0", "s").range()}
                assert values == {b"%d" % snapshot.epoch} and snapshot.checkpoint_id == "l"
                assert snapshot.epoch >= max(seen, default=0)
                seen.add(snapshot.epoch)
    finally:
        writer.kill()
        writer.wait()


def test_a_snapshot_stays_the_same_while_the_application_goes_on(path: Path) -> None:
    write(path, 10)
    with BundleReader(path).snapshot() as snapshot:
        state = BundleState(path, application_id="app", checkpoint_id="l", bundle="b0")
        with state.begin() as epoch:
            epoch.task("0_0").store("s").delete_range(None, None)
            delta = Delta("app", "l", "b0", 1, "r", epoch.epoch, epoch.digest, epoch.changes())
        assert state.apply(delta)
        state.close()
        store = snapshot.store("0_0", "s")
        assert len(list(store.range())) == 10 and store.get(b"000003") == b"v" and store.approximate_count() == 10
        assert store.get_many([b"000001", b"x"]) == [b"v", None]
        assert [key for key, _ in store.range(b"000007", b"000009", reverse=True)] == [b"000008", b"000007"]
        assert snapshot.stores() == [("0_0", "s")]
        assert list(snapshot.store("0_0", "never written").range()) == []


def test_a_scan_is_ended_when_it_takes_too_long(path: Path) -> None:
    write(path, 5000)
    seconds = iter(range(1000))
    with BundleReader(path, clock=lambda: float(next(seconds))).snapshot(max_seconds=3) as snapshot:
        scan = snapshot.store("0_0", "s").range()
        with pytest.raises(StateError) as raised:
            list(scan)
        assert raised.value.condition == "SCAN_TOO_LONG"


def test_a_store_opened_for_queries_cannot_be_written(path: Path) -> None:
    write(path, 1)
    with BundleReader(path).snapshot() as snapshot:
        store = snapshot.store("0_0", "s")
        for attempt in (
            lambda: store.put(b"a", b"b"),
            lambda: store.put_many([b"a"], [b"b"]),
            lambda: store.delete_range(None, None),
        ):
            with pytest.raises(StateError) as raised:
                attempt()
            assert raised.value.condition == "READ_ONLY"


def test_no_state_is_an_error_and_makes_no_files(path: Path) -> None:
    with pytest.raises(StateError) as raised, BundleReader(path).snapshot():
        pass
    assert raised.value.condition == "STATE_NOT_THERE" and not path.exists()


def test_a_reader_that_has_read_looks_again_at_what_can_be_trusted_but_not_at_once(path: Path) -> None:
    write(path, 1)
    now_s = [0.0]
    reader = BundleReader(path, clock=lambda: now_s[0])
    with reader.snapshot():
        pass
    crash_marker.write(path, crash_marker.CrashMarker("another boot", "l", clean=False))
    with reader.snapshot() as snapshot:
        assert snapshot.stores() == [("0_0", "s")]
    now_s[0] = 0.02
    with pytest.raises(StateError) as raised, reader.snapshot():
        pass
    assert raised.value.condition == "STATE_NOT_THERE"
    crash_marker.write(path, crash_marker.CrashMarker("another boot", "l", clean=True))
    with reader.snapshot() as snapshot:
        assert snapshot.stores() == [("0_0", "s")]


def test_an_environment_that_was_closed_meanwhile_is_opened_again_at_once(path: Path) -> None:
    write(path, 1)
    reader = BundleReader(path, clock=lambda: 0.0)
    for _ in range(2):
        with reader.snapshot() as snapshot:
            assert snapshot.stores() == [("0_0", "s")]
        close_environment(path)


def test_what_a_power_loss_left_is_not_opened(path: Path) -> None:
    write_unclean = BundleState(path, application_id="app", checkpoint_id="l", bundle="b0", boot_id="before")
    write_unclean.close(clean=False)
    with pytest.raises(StateError) as raised, BundleReader(path, boot_id="after").snapshot():
        pass
    assert raised.value.condition == "STATE_NOT_THERE"
