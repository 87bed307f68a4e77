"""Locks that another process keeps do not hang a start."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from hayase.core.errors import StateError
from hayase.core.file_locks import take_lock
from hayase.core.private_files import open_file


def test_a_lock_that_is_never_free_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "OPENING"
    first, second = (open_file(path, os.O_RDWR | os.O_CREAT) for _ in range(2))
    fcntl.flock(first, fcntl.LOCK_EX)
    with pytest.raises(StateError) as refused:
        take_lock(second, path, timeout_s=0.05)
    assert refused.value.condition == "LOCK_HELD"
    assert str(path) in refused.value.message
    os.close(first)
    take_lock(second, path, timeout_s=0.05)
    os.close(second)


def test_shared_locks_do_not_exclude_each_other(tmp_path: Path) -> None:
    path = tmp_path / "HOLD"
    handles = [open_file(path, os.O_RDWR | os.O_CREAT) for _ in range(2)]
    for handle in handles:
        take_lock(handle, path, shared=True, timeout_s=0.05)

    for handle in handles:
        os.close(handle)
