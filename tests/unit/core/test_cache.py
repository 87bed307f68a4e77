"""Folders that are made once and kept."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

import pytest
from tests.other_user import NOBODY, needs_root

from hayase.core import file_locks
from hayase.core.cache import cache_root, cached_folder
from hayase.core.errors import FolderError


def test_the_root_is_hayase_cache_then_xdg_cache_home_then_home() -> None:
    environ = {"HAYASE_CACHE": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}
    assert cache_root(environ) == Path("/a/hayase")
    del environ["HAYASE_CACHE"]
    assert cache_root(environ) == Path("/b/hayase")
    del environ["XDG_CACHE_HOME"]
    assert cache_root(environ) == Path("/c/.cache/hayase")


def test_a_folder_is_filled_once_by_concurrent_users(tmp_path: Path) -> None:
    fills = []
    start = threading.Barrier(4)

    def fill(folder: Path) -> None:
        fills.append(folder)
        (folder / "jar").write_text("content")

    def use() -> None:
        start.wait()
        assert (cached_folder(tmp_path / "x" / "jars", fill) / "jar").read_text() == "content"

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fills) == 1


def test_a_fill_that_fails_leaves_nothing_and_the_next_one_succeeds(tmp_path: Path) -> None:
    folder = tmp_path / "jars"

    def fail(target: Path) -> None:
        (target / "half").touch()
        raise OSError("connection lost")

    with pytest.raises(OSError, match="connection lost"):
        cached_folder(folder, fail)
    assert not folder.exists()
    assert cached_folder(folder, lambda target: (target / "jar").touch()) == folder
    assert sorted(path.name for path in folder.iterdir()) == [".complete", "jar"]


def test_a_folder_without_its_completion_mark_is_filled_again(tmp_path: Path) -> None:
    folder = tmp_path / "jars"
    folder.mkdir()
    (folder / "half").touch()
    cached_folder(folder, lambda target: (target / "jar").touch())
    assert sorted(path.name for path in folder.iterdir()) == [".complete", "jar"]


@needs_root
def test_what_another_user_put_into_the_cache_is_not_run(tmp_path: Path) -> None:
    folder = cached_folder(tmp_path / "hayase" / "java", lambda made: (made / "java").write_text("x"))
    assert (tmp_path / "hayase").stat().st_mode & 0o077 == 0
    os.chown(folder, NOBODY, NOBODY)
    with pytest.raises(FolderError, match="belongs to nobody"):
        cached_folder(folder, lambda made: None)


@pytest.mark.long
@needs_root
def test_a_lock_of_the_cache_that_another_user_holds_does_not_hold_up_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_locks, "WAIT_S", 0.3)
    lock = tmp_path / "java.lock"
    lock.touch()
    descriptor = os.open(lock, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    monkeypatch.setattr(file_locks, "_at_work", lambda _: False)  # as if another user's
    with pytest.raises(FolderError) as error:
        cached_folder(tmp_path / "java", lambda made: None)
    assert error.value.condition == "LOCK_HELD"
    os.close(descriptor)
