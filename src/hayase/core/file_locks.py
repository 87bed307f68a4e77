"""Locks on files, waited for no longer than makes sense, and who holds them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import struct
import time
from pathlib import Path

from hayase.core.errors import FolderError
from hayase.core.private_files import open_file

_PROBE_S = 2.0
"""A process that looks at a lock holds it for microseconds, or as long as the machine stops it there.

A process that wants it waits for so long.
"""

WAIT_S = 30.0
"""How long a lock is waited for whose holder is stopped, unknown, or of another user."""
_WORKING_WAIT_S = 600.0
"""How long if its holder is a process of this user's that is at work: a large copy takes its time."""
_POLL_S = 0.005
_POLL_MAX_S = 0.1
_FLOCK = "hhqqi"
"""`struct flock` on 64-bit Linux: type, whence, start, length, pid."""


def lock_file(path: Path, kind: int) -> int:
    """Open a lock file, made if it is missing, and lock it; a descriptor, to be closed.

    Args:
        path: of the file.
        kind: LOCK_SH or LOCK_EX.

    Raises:
        FolderError: `LOCK_HELD`, and as `open_file`.
    """
    descriptor = open_file(path, os.O_RDWR)
    try:
        lock_within(descriptor, kind, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def lock_within(descriptor: int, kind: int, path: Path) -> None:
    """Lock an open file, waiting for its holder for half a minute, or ten if that is a process of ours that is at work.

    Raises:
        FolderError: `LOCK_HELD`: it did not let go.
    """
    begun, pause = time.monotonic(), _POLL_S
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return
        waited = time.monotonic() - begun
        if waited > WAIT_S and (waited > _WORKING_WAIT_S or not _at_work(_flock_holders(descriptor))):
            with contextlib.suppress(BlockingIOError):  # its holder may have let go of it while it was looked for
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
                return
            raise _held(path, _flock_holders(descriptor), waited)
        time.sleep(pause)
        pause = min(2 * pause, _POLL_MAX_S)


def wait_until_readable(path: Path) -> None:
    """Wait until no process has a file, if it is there, locked for itself by `fcntl`.

    The file must not be open in this process.

    Raises:
        FolderError: `LOCK_HELD`: it did not let go for half a minute.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:  # opening it for use says what is wrong with it
        return
    try:
        begun = time.monotonic()
        while True:
            asked = struct.pack(_FLOCK, fcntl.F_RDLCK, os.SEEK_SET, 0, 1, 0)
            kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
            if kind == fcntl.F_UNLCK:
                return
            if (waited := time.monotonic() - begun) > WAIT_S:
                raise _held(path, [pid], waited)
            time.sleep(_POLL_MAX_S)
    finally:
        os.close(descriptor)


def stopped_holders(path: Path) -> list[str]:
    """Processes that hold a record lock of a file and are stopped, as far as the system says so."""
    try:
        inode = path.stat().st_ino
    except OSError:
        return []
    return [_described(pid) for pid in _holders("POSIX", inode) if pid != os.getpid() and not _at_work([pid])]


def _flock_holders(descriptor: int) -> list[int]:
    return _holders("FLOCK", os.fstat(descriptor).st_ino)


def _holders(kind: str, inode: int) -> list[int]:
    """The processes that hold a lock of a file, as far as the system says so."""
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return []
    # "1: FLOCK  ADVISORY  WRITE 4711 08:01:123456 0 EOF"; one that waits has an arrow: "1: -> FLOCK …"
    fields = [line.split() for line in lines if "->" not in line]
    return [int(each[4]) for each in fields if each[1] == kind and each[5].rpartition(":")[2] == str(inode)]


def _at_work(pids: list[int]) -> bool:
    """Whether all of them are this user's, and none is stopped."""
    for pid in pids:
        try:
            place = Path(f"/proc/{pid}")
            if place.stat().st_uid != os.geteuid() or place.joinpath("stat").read_text().rpartition(")")[2][1] in "Tt":
                return False
        except OSError:  # of another container, or gone
            return False
    return bool(pids)


def _held(path: Path, pids: list[int], waited_s: float) -> FolderError:
    holder = ", ".join(map(_described, pids)) or "a process that cannot be seen from here"
    return FolderError(
        "LOCK_HELD",
        f"{path} has been locked for {waited_s:.0f} s by {holder}; nothing was changed. End that process, or have it "
        "go on if it was stopped",
        file=str(path),
        holder=holder,
    )


def _described(pid: int) -> str:
    try:
        owner = Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return f"pid {pid}"
    try:
        return f"pid {pid} of user {pwd.getpwuid(owner).pw_name}"
    except KeyError:
        return f"pid {pid} of user {owner}"


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
        # Not what another user put in its place: opening a pipe would wait for its other end.
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.read(handle, 200).decode(errors="replace").strip() or "holder unknown"
    finally:
        os.close(handle)
    return None
