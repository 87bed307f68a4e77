"""Locks on files that say which process keeps a folder: held by one, looked at by many."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path

import psutil

from hayase.core.errors import StateError

_LOCK_S = 30.0
_PROBE_S = 2.0
"""Who looks at a lock holds it for microseconds, or as long as the machine stops it there; who wants it waits for so long."""


def lock_alone(handle: int) -> bool:
    """Take the lock of an open file for as long as it stays open; `False` if another process has it.

    Waits for those that only look at it, so a refusal takes two seconds.
    """
    deadline = time.monotonic() + _PROBE_S
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        else:
            return True


def take_lock(handle: int, path: Path, *, shared: bool = False, timeout_s: float = _LOCK_S) -> None:
    """Take the lock of an open file that others hold for moments only.

    Raises:
        StateError: `LOCK_HELD`: another process has held it for the whole time.
    """
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(handle, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise StateError(
                    "LOCK_HELD",
                    f"the lock on {path} was not free for {timeout_s:g} s ({_holders(path)}). End that process, or continue it if "
                    "it was stopped, and start again",
                ) from None
            time.sleep(0.005)
        else:
            return


def _holders(path: Path) -> str:
    """The processes that have the file open, as far as the system tells."""
    found = []
    for process in psutil.process_iter(["pid", "username"]):
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and any(opened.path == str(path) for opened in process.open_files()):
                found.append(f"pid {process.pid} of {process.info['username']}")
    return "held by " + ", ".join(found) if found else "its holder is not known"


def lock_holder(path: Path) -> str | None:
    """What the process that has the lock wrote into the file; `None` if no process has it, or there is no file.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     lock_holder(Path(folder) / "lease") is None
        True
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.read(handle, 200).decode(errors="replace").strip() or "holder unknown"
    finally:
        os.close(handle)
    return None
