"""A process that is forked while a thread of its parent holds a lock of the whole process does not wait for it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from hayase.log.embedded import cleaner_lock, store
from hayase.log.embedded.cleaner_lock import CleanerLock
from hayase.log.embedded.log import EmbeddedLog
from hayase.log.protocol import LogConfig
from hayase.serde import registry
from hayase.serde.registry import SchemaRegistry


def _take_a_turn(folder: Path) -> None:
    with CleanerLock(str(folder), 1_000).held():
        return


def _open_a_log(folder: Path) -> None:
    EmbeddedLog(LogConfig("embedded", str(folder / "log"), {"fsync": "false"})).close()


def _connect(folder: Path) -> None:
    assert SchemaRegistry("http://127.0.0.1:9").held


@pytest.mark.parametrize(
    ("module", "lock", "action"),
    [(cleaner_lock, "_holders_lock", _take_a_turn), (store, "_users_lock", _open_a_log), (registry, "_LOCK", _connect)],
    ids=["cleaner", "log", "schema registry"],
)
def test_a_lock_that_a_thread_of_the_parent_holds_is_free_in_a_forked_child(
    tmp_path: Path, module: ModuleType, lock: str, action: Callable[[Path], None]
) -> None:
    with getattr(module, lock):
        pid = os.fork()
        if not pid:
            signal.alarm(10)
            status = 1
            try:
                action(tmp_path)
                status = 0
            finally:
                os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_turn_of_the_parent_at_the_log_goes_on_after_a_forked_child_asked_for_one(tmp_path: Path) -> None:
    with CleanerLock(str(tmp_path), 60_000).held() as turn:
        pid = os.fork()
        if not pid:
            status = 1
            try:
                with pytest.raises(Exception, match="CLEANER_BUSY"):
                    _take_a_turn(tmp_path)
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert turn.renew()
