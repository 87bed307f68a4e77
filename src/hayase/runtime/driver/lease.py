"""One running copy per application: a lease in the checkpoint, held by the driver for as long as it lives."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from types import TracebackType
from typing import Protocol

from hayase.core.errors import LeaseHeldError
from hayase.core.file_locks import lock_alone, lock_holder
from hayase.core.private_files import make_folder, open_file
from hayase.runtime.driver.blob_lease import BlobLease, blob_lease_holder
from hayase.storage.blobs import BlobStore
from hayase.storage.posix_blobs import PosixBlobs


def lease_holder(blobs: BlobStore) -> str | None:
    """The holder of the lease, as `pid 123 on host`; `None` if no process has."""
    if not isinstance(blobs, PosixBlobs):
        return blob_lease_holder(blobs)
    return lock_holder(blobs.root / "lease")


class Lease(Protocol):
    """Held from `__enter__` to `__exit__`."""

    def __enter__(self) -> Lease:
        """Take the lease; raises LeaseHeldError `LEASE_HELD` if another copy has it."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give it back."""
        ...

    def lost(self) -> LeaseHeldError | None:
        """Why it is not ours any more, though it was not given back; `None` as long as it is."""
        ...

    def forget(self) -> None:
        """While it is held: what it keeps in the checkpoint goes when it is given back."""
        ...


def lease_for(blobs: BlobStore, application_id: str) -> Lease:
    """The lease of the checkpoint in that store: a lock of the operating system where there is one."""
    if isinstance(blobs, PosixBlobs):
        return FileLease(blobs.root, application_id)
    return BlobLease(blobs, application_id)


class FileLease:
    """A lock on a file of the checkpoint; the operating system lets go of it when the process dies, and only then."""

    def __init__(self, checkpoint: Path, application_id: str) -> None:
        self._path = checkpoint / "lease"
        self._application_id = application_id
        self._file: int | None = None
        self._forget = False

    def __enter__(self) -> FileLease:
        """Take the lease.

        Raises:
            LeaseHeldError: another process has it.
        """
        handle = self._open_locked()
        while not os.fstat(handle).st_nlink:  # its holder has just removed the file: others lock the next one
            os.close(handle)
            handle = self._open_locked()
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"pid {os.getpid()} on {socket.gethostname()}".encode(), 0)
        self._file = handle
        return self

    def _open_locked(self) -> int:
        make_folder(self._path.parent)
        handle = open_file(self._path, os.O_RDWR)
        if not lock_alone(handle):
            holder = os.read(handle, 200).decode(errors="replace").strip()
            os.close(handle)
            raise LeaseHeldError(
                "LEASE_HELD",
                f"application {self._application_id!r} is running already ({holder or 'holder unknown'}); stop it "
                "first, or give this one another application.id",
            )
        return handle

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            if self._forget:
                self._path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = None

    def lost(self) -> None:
        """Never: the lock ends with the process."""

    def forget(self) -> None:
        """The file goes when the lease is given back."""
        self._forget = True
