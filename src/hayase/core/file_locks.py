"""Locks on files that say which process keeps a folder: held by one, looked at by many."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

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
