"""Folders that are made once and kept."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from hayase.core.cache import cache_root, cached_folder


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
