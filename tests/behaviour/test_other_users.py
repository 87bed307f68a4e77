"""Other users of the machine read nothing, and can neither hold up nor misdirect who opens something."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.other_user import NOBODY, as_other_user, needs_root, open_below, other_user_goes_on, shared_place

from hayase.core import file_locks
from hayase.core.errors import HayaseError
from hayase.log.open import open_log
from hayase.log.protocol import LogConfig, OutputBatch
from hayase.runtime.driver.lease import FileLease
from hayase.runtime.wire.driver_control import DriverControl
from hayase.runtime.wire.planner_control import PlannerControl
from hayase.state.environment import crash_marker
from hayase.state.environment.bundle import BundleState
from hayase.state.environment.epoch_lock import EpochLock
from hayase.state.environment.remote_bundles_marker import set_moving
from hayase.state.environment.spill import SpillMaps
from hayase.storage.lmdb_env import close_environment, open_environment
from hayase.storage.posix_blobs import PosixBlobs


@pytest.fixture
def place() -> Iterator[Path]:
    with shared_place() as folder:
        yield folder


@pytest.fixture(params=[0o000, 0o002, 0o022], ids=lambda umask: f"umask {umask:03o}")
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def use_log(folder: Path) -> None:
    log = open_log(LogConfig("embedded", str(folder), {"fsync": "false"}))
    log.create_topic("orders", 1, {"remote.storage.enable": "false"})
    writer = log.writer()
    writer.append([OutputBatch("orders", [b"k"], [b"secret"], [1])])
    writer.close()
    log.close()


def use_state(folder: Path) -> None:
    state = BundleState(folder, application_id="shop", checkpoint_id="l", bundle="0-0")
    maps = SpillMaps(folder)
    maps.env()
    maps.close()
    state.close()
    close_environment(folder)


def use_blobs(folder: Path) -> None:
    assert PosixBlobs(folder).put_if_absent("changelog/0-0/1", b"secret")


def use_lease(folder: Path) -> None:
    with FileLease(folder, "shop"):
        pass


def use_gate(folder: Path) -> None:
    set_moving(folder, moving=True)
    with EpochLock(folder).moving():
        pass
    with EpochLock(folder).reading(1):
        pass


def use_control(folder: Path) -> None:
    set_moving(folder, moving=True)
    control = DriverControl(folder)
    control.request_pause(True)
    planner = PlannerControl(folder)
    planner.publish_status(b"{}")
    with planner.reporting() as tell:
        tell(b"line")


USES = [use_log, use_state, use_blobs, use_lease, use_gate, use_control]


@pytest.mark.parametrize("use", USES)
def test_what_is_made_is_private_whatever_the_umask_is(use, place: Path, umask: int) -> None:
    use(place / "made" / "here")
    assert open_below(place / "made") == []


@pytest.mark.long
@needs_root
@pytest.mark.parametrize("use", USES)
def test_another_user_finds_and_reads_nothing(use, place: Path, umask: int) -> None:
    use(place / "made")
    assert isinstance(as_other_user(lambda: list((place / "made").iterdir())), PermissionError)
    for path in (place / "made").rglob("*"):
        assert isinstance(as_other_user(lambda path=path: os.open(path, os.O_RDONLY)), PermissionError), path


@pytest.mark.parametrize("use", [use_log, use_state, use_blobs, use_lease])
def test_a_folder_that_the_user_made_before_is_closed_when_it_is_empty(use, place: Path) -> None:
    (place / "given").mkdir(0o755)
    use(place / "given")
    assert [
        each for each in open_below(place / "given") if use is use_log or not each.startswith(f"{place}/given ")
    ] == []


def test_a_log_of_before_that_others_could_read_is_closed(place: Path) -> None:
    use_log(place / "log")
    for path in (place / "log", *(place / "log").iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)
    open_log(LogConfig("embedded", str(place / "log"), {})).close()
    assert open_below(place / "log") == []


@needs_root
def test_a_log_in_a_folder_of_another_user_is_refused_by_its_name_owner_and_mode(place: Path) -> None:
    (place / "log").mkdir(0o777)
    os.chown(place / "log", NOBODY, NOBODY)
    with pytest.raises(HayaseError, match=r"nobody.*chown") as error:
        use_log(place / "log")
    assert error.value.condition == "FOLDER_NOT_PRIVATE"
    assert error.value.context["folder"] == str(place / "log")


@needs_root
def test_a_log_of_another_user_planted_in_a_place_open_to_all_is_not_used(place: Path) -> None:
    place.chmod(0o1777)
    place_of_log = place / "log"
    as_other_user(lambda: (place_of_log.mkdir(), place_of_log.chmod(0o777)))
    with pytest.raises(HayaseError) as error:
        use_log(place_of_log)
    assert error.value.condition == "FOLDER_NOT_PRIVATE"


@needs_root
def test_a_planted_link_does_not_lead_a_log_elsewhere(place: Path) -> None:
    place.chmod(0o1777)
    (place / "victim").mkdir(0o700)
    as_other_user(lambda: (place / "log").symlink_to(place / "victim"))
    with pytest.raises((HayaseError, OSError)):  # the system may refuse to follow it, before we do
        use_log(place / "log")
    assert list((place / "victim").iterdir()) == []


@needs_root
@pytest.mark.parametrize("kind", ["symlink", "hard link", "pipe", "other's file"])
def test_something_planted_in_the_place_of_a_lease_is_refused_at_once_and_left_alone(place: Path, kind: str) -> None:
    precious = place / "precious"
    precious.write_text("precious")
    folder = place / "open"
    folder.mkdir()
    folder.chmod(0o777)
    if kind == "symlink":
        as_other_user(lambda: (folder / "lease").symlink_to(precious))
    elif kind == "hard link":  # as another user could where the system does not protect against it
        os.link(precious, folder / "lease")
    elif kind == "pipe":
        as_other_user(lambda: os.mkfifo(folder / "lease", 0o666))
    else:
        as_other_user(lambda: (folder / "lease").write_text("pid 1"))
    begun = time.monotonic()
    with pytest.raises((HayaseError, PermissionError)) as error, FileLease(folder, "shop"):
        pass
    assert time.monotonic() - begun < 5
    if isinstance(error.value, HayaseError):
        assert error.value.condition == "FILE_NOT_PRIVATE"
        assert str(folder / "lease") in error.value.message
    assert precious.read_text() == "precious"


@pytest.mark.long
@needs_root
@pytest.mark.parametrize("name", ["OPENING", "HOLD"])
def test_a_lock_that_another_user_holds_does_not_hold_up_a_start(
    place: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_locks, "WAIT_S", 0.5, raising=False)
    folder = place / "state"
    use_state(folder)
    folder.chmod(0o755)  # as it was before folders were private
    (folder / name).chmod(0o644)

    def hold() -> int:
        descriptor = os.open(folder / name, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return descriptor

    begun = time.monotonic()
    with other_user_goes_on(hold) as pid, pytest.raises(HayaseError) as error:
        use_state(folder)
    assert time.monotonic() - begun < 20
    assert error.value.condition == "LOCK_HELD"
    assert str(folder / name) in error.value.message
    assert f"pid {pid} of user nobody" in error.value.message


@pytest.mark.long
@needs_root
def test_a_lock_of_lmdb_that_another_user_holds_does_not_hold_up_a_start(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_locks, "WAIT_S", 0.5, raising=False)
    folder = place / "env"
    open_environment(folder)
    close_environment(folder)
    folder.chmod(0o755)
    (folder / "lock.mdb").chmod(0o666)

    def hold() -> int:
        descriptor = os.open(folder / "lock.mdb", os.O_RDWR)
        fcntl.lockf(descriptor, fcntl.LOCK_EX)
        return descriptor

    with other_user_goes_on(hold) as pid, pytest.raises(HayaseError) as error:
        open_environment(folder)
    assert error.value.condition == "LOCK_HELD"
    assert f"pid {pid} of user nobody" in error.value.message


@pytest.mark.long
def test_a_lock_of_a_stopped_process_of_the_same_user_is_not_waited_for_either(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_locks, "WAIT_S", 0.3, raising=False)
    use_state(place / "state")
    descriptor = os.open(place / "state" / "OPENING", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    child = os.fork()
    if child == 0:  # holds the lock as well, and is stopped
        os.kill(os.getpid(), 19)
        os._exit(0)
    try:
        os.waitpid(child, os.WUNTRACED)
        monkeypatch.setattr(file_locks, "_flock_holders", lambda _: [child])
        with pytest.raises(HayaseError) as error, crash_marker.opening(place / "state"):
            pass
        assert error.value.condition == "LOCK_HELD"
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(descriptor)


@pytest.mark.long
def test_a_lock_of_a_process_that_works_is_waited_for(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    monkeypatch.setattr(file_locks, "WAIT_S", 0.1, raising=False)
    use_state(place / "state")
    descriptor = os.open(place / "state" / "OPENING", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    timer = threading.Timer(1.0, os.close, [descriptor])
    timer.start()
    with crash_marker.opening(place / "state"):
        timer.join()


def test_a_group_that_was_given_access_has_it_to_what_is_made_later(place: Path, umask: int) -> None:
    from hayase.core.private_files import private_folder

    private_folder(place / "shared", "write")
    use_blobs(place / "shared" / "checkpoint")
    use_state(place / "shared" / "state")
    modes = {stat.S_IMODE(path.lstat().st_mode) for path in (place / "shared").rglob("*")}
    assert modes == {0o2770, 0o660}
    private_folder(place / "shared", "read")
    modes = {stat.S_IMODE(path.lstat().st_mode) for path in (place / "shared").rglob("*")}
    assert modes == {0o2750, 0o640}
    private_folder(place / "shared")  # says nothing: it stays so
    assert stat.S_IMODE((place / "shared").stat().st_mode) == 0o2750
    private_folder(place / "shared", "none")
    assert open_below(place / "shared") == []
