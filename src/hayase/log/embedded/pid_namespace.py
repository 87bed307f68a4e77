"""A lock that lets only processes of one PID namespace have a log open at a time.

LMDB tells processes and threads apart by their ids: in its table of readers, in locks on bytes of a file, in robust
mutexes whose owner the kernel looks up by thread id. In two containers with a PID namespace each, two of them may have
the same ids. Then a process can be refused a snapshot; or, if it is killed while it waits for the write lock, that lock
counts as its own and is given to a second writer while the first still writes. So a process of another namespace
than those that have the log open is refused.

All users share a lock on a file that says which namespace they are of. Record locks are the kernel's own affair: they
know no ids, and go with their process.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path

from hayase.core.errors import LogError
from hayase.core.private_files import open_file
from hayase.log.embedded.failures import io_errors

USERS_LOCK = "users.lock"
"""Each process that has the log open holds a lock on this file of its folder."""

_ATTEMPTS = 1_000
_PAUSE_S = 0.005
_held: dict[tuple[int, str], int] = {}
_held_lock = threading.Lock()


def enter(folder: str) -> None:
    """Be a user of the log in a folder, which exists; nothing happens if this process is one already.

    Raises:
        LogError: `LOG_IN_OTHER_PID_NAMESPACE`: processes of another namespace have it open; `DISK_FULL`, `LOG_FAILED`.
    """
    with _held_lock, io_errors(folder, "LOG_NOT_OPENED"):
        if (os.getpid(), folder) not in _held:
            descriptor = open_file(Path(folder, USERS_LOCK), os.O_RDWR)
            try:
                _lock(folder, descriptor)
            except BaseException:
                os.close(descriptor)
                raise
            _held[os.getpid(), folder] = descriptor


def leave(folder: str) -> None:
    """Stop using it."""
    with _held_lock:
        descriptor = _held.pop((os.getpid(), folder), None)
        if descriptor is not None:
            os.close(descriptor)


def _lock(folder: str, descriptor: int) -> None:
    mine = _namespace()
    for _ in range(_ATTEMPTS):
        if _try(descriptor, fcntl.LOCK_EX):  # the first of all
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, mine, 0)
            fcntl.lockf(descriptor, fcntl.LOCK_SH)
            return
        if _try(descriptor, fcntl.LOCK_SH):
            theirs = os.pread(descriptor, 100, 0)
            if theirs == mine:
                return
            raise LogError(
                "LOG_IN_OTHER_PID_NAMESPACE",
                f"the log in {folder} is open in processes of another PID namespace "
                f"({theirs.decode(errors='replace')}; this process is in {mine.decode()}), so in another container: "
                "process ids are not unique between them, and the log's locks need that. Let both containers share "
                "one (docker run --pid=container:NAME or --pid=host, shareProcessNamespace in Kubernetes), use the "
                "log from one container at a time, or a Kafka cluster",
                location=folder,
            )
        time.sleep(_PAUSE_S)  # the first of all is about to write down its namespace
    raise LogError("LOG_FAILED", f"{USERS_LOCK} of the log stays locked. Calling again is safe", location=folder)


def _try(descriptor: int, how: int) -> bool:
    try:
        fcntl.lockf(descriptor, how | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _namespace() -> bytes:
    try:
        return os.readlink("/proc/self/ns/pid").encode()  # noqa: PTH115 - no path, but a name
    except OSError:
        return b"?"  # no Linux, or no /proc: there are no namespaces to be seen


def _forget_inherited() -> None:
    """The parent's locks are not the child's."""
    global _held_lock  # noqa: PLW0603 - a thread of the parent may have held it
    _held_lock = threading.Lock()
    _held.clear()


os.register_at_fork(after_in_child=_forget_inherited)
