"""Locks that one process holds and others look at."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

import pytest

from hayase.core import file_locks
from hayase.core.file_locks import lock_alone, lock_holder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "lock").write_text("pid 7")
    return tmp_path / "lock"


def test_the_holder_is_named_while_it_holds_and_not_after(path: Path) -> None:
    assert lock_holder(path) is None
    handle = os.open(path, os.O_RDWR)
    assert lock_alone(handle)
    assert lock_holder(path) == "pid 7"
    os.close(handle)
    assert lock_holder(path) is None


def test_one_holder_keeps_the_other_out(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_locks, "_PROBE_S", 0.05)
    first, second = os.open(path, os.O_RDWR), os.open(path, os.O_RDWR)
    assert lock_alone(first)
    assert not lock_alone(second)
    os.close(first)
    assert lock_alone(second)
    os.close(second)


@pytest.mark.long
def test_who_looks_at_a_lock_does_not_keep_its_taker_out(path: Path) -> None:
    looking, taking = os.open(path, os.O_RDONLY), os.open(path, os.O_RDWR)
    fcntl.flock(looking, fcntl.LOCK_SH)
    timer = threading.Timer(0.2, os.close, [looking])
    timer.start()
    assert lock_alone(taking)
    timer.join()
    os.close(taking)


def test_a_lock_that_is_let_go_of_while_its_holder_is_looked_for_is_taken(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, waiting = os.open(path, os.O_RDWR), os.open(path, os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)

    def holders(_: int) -> list[int]:
        os.close(held)
        return []

    monkeypatch.setattr(file_locks, "WAIT_S", 0.0)
    monkeypatch.setattr(file_locks, "_flock_holders", holders)
    file_locks.lock_within(waiting, fcntl.LOCK_EX, path)
    os.close(waiting)
