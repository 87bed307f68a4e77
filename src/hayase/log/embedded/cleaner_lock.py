"""The cleaner's lock: one cleaner of a log at a time, as long as it makes progress.

A record lock on a file over processes, which goes with its process and is not inherited over a fork, and a note of this
process's own over its threads. Both are by file, not by process id: it does not matter in which containers the
processes are. The holder renews the file's modification time between its steps. One that has not done so for long hangs
(it was stopped, or its storage does not answer): then another takes over, with a new file in place of the locked one.
Should the first wake up, it finds that it is not the holder any more; what it does until then is harmless
(`CleanedPartition`).
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hayase.core.errors import LogError
from hayase.core.private_files import open_file
from hayase.log.embedded.failures import io_errors

_NAME = "cleaner.lock"
_FUTURE_S = 5.0
_holders: dict[tuple[int, str], CleanerTurn] = {}
_holders_lock = threading.Lock()


class CleanerTurn:
    """A turn of a cleaner: renewed between its steps, ended when it is done, or taken from it.

    Args:
        path: of the locked file.
        descriptor: of the locked file.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._lost = False

    def renew(self) -> bool:
        """Say that the cleaner makes progress; `False` if another has taken over."""
        if not self._lost:
            os.utime(self._descriptor)
            self._lost = not _is_at(self._path, self._descriptor)
        return not self._lost

    def end(self) -> None:
        """Let the next one have its turn."""
        os.close(self._descriptor)


class CleanerLock:
    """The lock of a log's cleaners.

    Args:
        folder: of the log.
        timeout_ms: how long a cleaner may take for a step before another takes over.
    """

    def __init__(self, folder: str, timeout_ms: int) -> None:
        self._path = Path(folder, _NAME)
        self._timeout_s = timeout_ms / 1000

    @contextmanager
    def held(self) -> Iterator[CleanerTurn]:
        """Have a turn.

        Raises:
            LogError: `CLEANER_BUSY`: another process or thread has it; `DISK_FULL`, `LOG_FAILED`: there is no lock
                file.
        """
        owner = (os.getpid(), str(self._path))
        with _holders_lock, io_errors(str(self._path.parent)):
            turn = self._take(_holders.get(owner))
            _holders[owner] = turn
        try:
            yield turn
        finally:
            with _holders_lock:
                if _holders.get(owner) is turn:
                    del _holders[owner]
            turn.end()

    def _take(self, holder: CleanerTurn | None) -> CleanerTurn:
        """A turn, if there is none in this process or another, or that one hangs."""
        if holder is None:
            while True:
                descriptor = open_file(self._path, os.O_RDWR)
                try:
                    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    os.close(descriptor)
                    break
                if _is_at(self._path, descriptor):
                    return self._begun(descriptor)
                os.close(descriptor)  # another took over between the two calls
        # In this process nothing may open the locked file: closing it would end the lock.
        if not self._hangs():
            raise self._busy()
        return self._take_over()

    def _hangs(self) -> bool:
        age = time.time() - self._path.stat().st_mtime
        return not -_FUTURE_S <= age < self._timeout_s

    def _take_over(self) -> CleanerTurn:
        mine = self._path.with_name(f"{_NAME}.{uuid.uuid4().hex}")
        descriptor = open_file(mine, os.O_RDWR | os.O_EXCL)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            mine.replace(self._path)
        except BaseException:
            mine.unlink(missing_ok=True)
            os.close(descriptor)
            raise
        turn = self._begun(descriptor)
        if not turn.renew():  # two did so at the same moment: the last one has it
            turn.end()
            raise self._busy()
        return turn

    def _begun(self, descriptor: int) -> CleanerTurn:
        os.utime(descriptor)
        return CleanerTurn(self._path, descriptor)

    def _busy(self) -> LogError:
        return LogError(
            "CLEANER_BUSY",
            "another process or thread is cleaning this log; there is nothing to do, or try again later. If it "
            f"hangs, its turn ends {self._timeout_s:.0f} s after its last step (cleaner.timeout.ms)",
            location=str(self._path.parent),
        )


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether the file at that path is the open one."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    mine = os.fstat(descriptor)
    return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)


def _forget_inherited() -> None:
    """The turns of the parent are not the child's."""
    global _holders_lock  # noqa: PLW0603 - a thread of the parent may have held it
    _holders_lock = threading.Lock()
    _holders.clear()


os.register_at_fork(after_in_child=_forget_inherited)
