"""LMDB environments: once per process, growing, fork-safe."""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import lmdb
import pytest
from tests.namespaces import UNSHARED, needs_namespaces

from hayase.core.errors import StateError
from hayase.storage.lmdb_env import (
    DEFAULT_MAP_SIZE,
    close_environment,
    is_disk_full,
    open_environment,
    read_transaction,
    run_write,
)

SPAWN = multiprocessing.get_context("spawn")
SMALL = 1 << 20


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "env"
    yield path
    close_environment(path)


def _put(path: Path, key: bytes, value: bytes, map_size: int = 1 << 30) -> None:
    run_write(open_environment(path, map_size=map_size), lambda txn: txn.put(key, value))


def _get(path: Path, key: bytes) -> bytes | None:
    with read_transaction(open_environment(path)) as txn:
        return txn.get(key)


def _in_forked_child(action: Callable[[], None]) -> int:
    """Exit status of a forked child: 0 if `action` returned, 1 if it raised."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            action()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_an_environment_is_opened_once_per_process_whatever_the_path_is_called(folder: Path) -> None:
    first = open_environment(folder)
    (folder.parent / "link").symlink_to(folder)
    assert open_environment(folder.parent / "link") is first


def test_another_sync_setting_in_the_same_process_is_refused(folder: Path) -> None:
    open_environment(folder, sync=True)
    with pytest.raises(StateError) as error:
        open_environment(folder, sync=False)
    assert error.value.condition == "ENVIRONMENT_OPEN_OTHERWISE"


def test_a_closed_environment_is_opened_afresh(folder: Path) -> None:
    _put(folder, b"k", b"v")
    before = open_environment(folder)
    close_environment(folder)
    assert open_environment(folder) is not before
    assert _get(folder, b"k") == b"v"


def test_a_folder_that_is_no_environment_cannot_be_opened_readonly(tmp_path: Path) -> None:
    with pytest.raises(StateError) as error:
        open_environment(tmp_path / "absent", readonly=True)
    assert error.value.condition == "ENVIRONMENT_NOT_OPENED"


def test_work_that_raises_writes_nothing(folder: Path) -> None:
    def work(txn: lmdb.Transaction[bytes]) -> None:
        txn.put(b"k", b"v")
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        run_write(open_environment(folder), work)
    assert _get(folder, b"k") is None


def test_a_full_map_grows_and_the_work_runs_again(folder: Path) -> None:
    runs = []

    def work(txn: lmdb.Transaction[bytes]) -> None:
        runs.append(1)
        txn.put(b"k", b"x" * (5 * SMALL))

    run_write(open_environment(folder, map_size=SMALL), work)
    assert len(_get(folder, b"k") or b"") == 5 * SMALL
    assert len(runs) > 1


def test_a_map_grows_while_threads_read(folder: Path) -> None:
    _put(folder, b"k", b"v", map_size=SMALL)
    stop = threading.Event()
    failures: list[Exception] = []
    reads = [0, 0]

    def read(index: int) -> None:
        try:
            while not stop.is_set():
                with read_transaction(open_environment(folder)) as txn:
                    time.sleep(0.001)
                    assert txn.get(b"k") == b"v"
                reads[index] += 1
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=read, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    try:
        for size in range(1, 8):
            _put(folder, b"big", b"x" * (size * SMALL))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failures == []
    assert all(reads)


@pytest.mark.long
def test_a_map_grown_by_another_process_is_followed(folder: Path) -> None:
    open_environment(folder, map_size=SMALL)
    _put(folder, b"k", b"v")
    child = SPAWN.Process(target=_put, args=(folder, b"big", b"x" * (20 * SMALL)))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert len(_get(folder, b"big") or b"") == 20 * SMALL


def test_a_forked_child_opens_its_own_and_leaves_the_parents_snapshot_alone(folder: Path) -> None:
    _put(folder, b"k", b"old")
    env = open_environment(folder)
    with read_transaction(env) as snapshot:
        readers = env.readers()
        del env

        def child() -> None:
            _put(folder, b"k", b"new")
            close_environment(folder)

        status = _in_forked_child(child)
        assert open_environment(folder).readers() == readers
        del child
        assert snapshot.get(b"k") == b"old"
    # The test's own frame holds the parent's transaction, so the child is refused; it must say why, not crash.
    assert status == 1
    assert _get(folder, b"k") == b"old"


def test_a_forked_child_that_holds_nothing_of_the_parent_writes(folder: Path) -> None:
    _put(folder, b"k", b"old")
    assert _in_forked_child(lambda: _put(folder, b"k", b"new")) == 0
    assert _get(folder, b"k") == b"new"


def test_an_environment_of_the_parent_is_refused_in_the_child(folder: Path) -> None:
    env = open_environment(folder)

    def child() -> None:
        with pytest.raises(StateError, match="inherited over a fork"):
            run_write(env, lambda txn: txn.put(b"k", b"v"))

    assert _in_forked_child(child) == 0


@pytest.mark.long
def test_closing_waits_for_transactions_of_other_threads(folder: Path) -> None:
    _put(folder, b"k", b"v")
    began = threading.Event()
    seen: list[bytes | None] = []

    def read() -> None:
        with read_transaction(open_environment(folder)) as txn:
            began.set()
            time.sleep(0.2)
            seen.append(txn.get(b"k"))

    thread = threading.Thread(target=read)
    thread.start()
    began.wait()
    close_environment(folder)
    thread.join()
    assert seen == [b"v"]


def test_a_commit_is_written_through_a_synchronous_descriptor_after_the_data(folder: Path) -> None:
    open_environment(folder, sync=True)
    flags = []
    for descriptor in Path("/proc/self/fd").iterdir():
        if descriptor.resolve() == folder.resolve() / "data.mdb":
            info = Path(f"/proc/self/fdinfo/{descriptor.name}").read_text()
            flags.append(int(next(line for line in info.splitlines() if line.startswith("flags:")).split()[1], 8))
    assert any(flag & os.O_DSYNC for flag in flags)


def _fill_until_the_limit(path: Path) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _put(path, b"before", b"x" * SMALL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8 * SMALL, resource.RLIM_INFINITY))
    with pytest.raises(lmdb.Error) as error:
        _put(path, b"too much", b"x" * (20 * SMALL))
    assert is_disk_full(path, error.value)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    _put(path, b"after", b"y")


@pytest.mark.long
def test_a_full_disk_is_recognised_and_loses_nothing(folder: Path) -> None:
    child = SPAWN.Process(target=_fill_until_the_limit, args=(folder,))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert len(_get(folder, b"before") or b"") == SMALL
    assert _get(folder, b"too much") is None
    assert _get(folder, b"after") == b"y"


def _read_and_be_killed(path: Path) -> None:
    with read_transaction(open_environment(path)):
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.long
def test_the_snapshot_of_a_killed_reader_is_given_up_by_later_writes(folder: Path) -> None:
    _put(folder, b"k", b"v")
    child = SPAWN.Process(target=_read_and_be_killed, args=(folder,))
    child.start()
    child.join()
    env = open_environment(folder)
    assert str(child.pid) in env.readers()
    for number in range(300):
        _put(folder, b"k", str(number).encode())
    assert str(child.pid) not in env.readers()


def test_hundreds_of_environments_fit_into_one_process(tmp_path: Path) -> None:
    names = [tmp_path / str(number) for number in range(300)]
    try:
        for name in names:
            env = open_environment(name, sync=False)
            run_write(env, lambda txn: txn.put(b"k", b"v"))
            assert env.info()["map_size"] == DEFAULT_MAP_SIZE
    finally:
        for name in names:
            close_environment(name)


def test_an_environment_whose_files_were_deleted_is_opened_anew(folder: Path) -> None:
    _put(folder, b"k", b"old")
    before = open_environment(folder)
    shutil.rmtree(folder)
    assert _get(folder, b"k") is None
    assert open_environment(folder) is not before
    _put(folder, b"k", b"new")
    assert _get(folder, b"k") == b"new"


def test_an_environment_in_whose_place_another_process_put_a_new_one_is_seen(folder: Path) -> None:
    _put(folder, b"k", b"old")
    shutil.rmtree(folder)
    process = SPAWN.Process(target=_put, args=(folder, b"k", b"new"))
    process.start()
    process.join()
    assert _get(folder, b"k") == b"new"


def test_a_snapshot_lasts_although_the_files_are_deleted_and_made_anew_meanwhile(folder: Path) -> None:
    _put(folder, b"k", b"old")
    with read_transaction(open_environment(folder)) as snapshot:
        shutil.rmtree(folder)
        _put(folder, b"k", b"new")
        assert snapshot.get(b"k") == b"old"
        assert _get(folder, b"k") == b"new"
    assert _get(folder, b"k") == b"new"


@needs_namespaces
def test_a_process_of_another_container_with_the_same_id_is_told_so(tmp_path: Path) -> None:
    opens = """
import sys
from hayase import HayaseError
from hayase.storage.lmdb_env import open_environment, read_transaction
try:
    with read_transaction(open_environment(sys.argv[1])):
        pass
except HayaseError as error:
    sys.exit(str(error))
print("open", flush=True)
sys.stdin.readline()
"""
    command = [*UNSHARED, sys.executable, "-c", opens, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None and first.stdout.readline() == "open\n"
        second = subprocess.run(command, check=False, capture_output=True, text=True, input="\n")
        first.communicate("\n")
    assert "[ENVIRONMENT_NOT_OPENED]" in second.stderr and "the same process id, 1," in second.stderr
