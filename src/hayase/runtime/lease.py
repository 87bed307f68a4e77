"""One running copy per application: a lock in the checkpoint, held by the driver for as long as it lives."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from pathlib import Path
from types import TracebackType

from hayase.core.errors import LeaseHeldError

_PROBE_S = 0.2
"""`lease_holder` holds the lock for microseconds; a start that meets it tries again for so long."""


def lease_holder(checkpoint: Path) -> str | None:
    """Who has the lease, as `pid 123 on host`; `None` if nobody has."""
    try:
        handle = os.open(checkpoint / "lease", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.read(handle, 200).decode(errors="replace").strip() or "holder unknown"
    finally:
        os.close(handle)
    return None


class Lease:
    """Holds the lock from `__enter__` to `__exit__`; the operating system lets go of it when the process dies."""

    def __init__(self, checkpoint: Path, application_id: str) -> None:
        self._path = checkpoint / "lease"
        self._application_id = application_id
        self._file: int | None = None

    def __enter__(self) -> Lease:
        """Take the lease.

        Raises:
            LeaseHeldError: another process has it.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if not _locked(handle):
            holder = os.read(handle, 200).decode(errors="replace").strip()
            os.close(handle)
            raise LeaseHeldError(
                "LEASE_HELD",
                f"application {self._application_id!r} is running already ({holder or 'holder unknown'}); stop it first, "
                "or give this one another application.id",
            )
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"pid {os.getpid()} on {socket.gethostname()}".encode(), 0)
        self._file = handle
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _locked(handle: int) -> bool:
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
