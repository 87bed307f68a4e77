"""Says in the program's log that the write lock of an embedded log does not come, and which process keeps it.

LMDB waits for its write lock without a limit: one process writes at a time, for milliseconds. Only a process that was
stopped (SIGSTOP, a debugger, a frozen container) while it wrote keeps the others waiting for longer.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from hayase.core.file_locks import stopped_holders

_LOG = logging.getLogger(__name__)
_NOTICE_S = 5.0
_AGAIN_S = 60.0

_since: dict[int, tuple[str, float]] = {}
"""Thread → folder of the log, since when it waits."""
_watcher: tuple[int, threading.Thread] | None = None


@contextmanager
def waiting_for_write_lock(folder: str, users_lock: str) -> Iterator[Callable[[], None]]:
    """Waiting for the write lock of the log in a folder; to be called once it came.

    Args:
        folder: of the log.
        users_lock: the file in it that every process that uses the log holds a lock on.
    """
    _watch(users_lock)
    thread = threading.get_ident()
    _since[thread] = folder, time.monotonic()
    try:
        yield partial(_came, thread)
    finally:
        _came(thread)


def _came(thread: int) -> None:
    _since.pop(thread, None)


def _watch(users_lock: str) -> None:
    """Start the thread that looks, unless this process has one."""
    global _watcher  # noqa: PLW0603 - one a process; a child of a fork needs its own
    if _watcher is None or _watcher[0] != os.getpid():
        thread = threading.Thread(target=_look, args=(users_lock,), name="hayase-write-lock", daemon=True)
        _watcher = os.getpid(), thread
        thread.start()


def _look(users_lock: str) -> None:
    said: dict[tuple[int, float], float] = {}
    while True:
        time.sleep(_NOTICE_S)
        now = time.monotonic()
        for thread, (folder, since) in list(_since.items()):
            if now - since >= _NOTICE_S and now - said.get((thread, since), -_AGAIN_S) >= _AGAIN_S:
                said = {(thread, since): now}
                _LOG.warning("%s", _notice(folder, users_lock, now - since))


def _notice(folder: str, users_lock: str, waited_s: float) -> str:
    stopped = stopped_holders(Path(folder, users_lock))
    who = (
        f"a process that has the log open is stopped: {', '.join(stopped)}. Let it go on (kill -CONT) or end it"
        if stopped
        else "another process writes all this time: look which processes use the log"
    )
    return f"waiting for {waited_s:.0f} s for the write lock of the embedded log in {folder}: {who}"
