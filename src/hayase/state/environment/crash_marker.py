"""Whether an environment that is not synced on every commit can still be trusted.

Its commits reach the disk when the system likes. A process that is killed loses nothing, for the pages are the
system's; a power loss may leave any mixture of old and new pages. So a `BOOT` file beside the environment says under
which boot of the machine it was written last, and whether it was synced and closed after that. It is read before the
environment is opened, because opening a damaged one may crash.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from hayase.core.decoding import decode_json
from hayase.core.file_locks import lock_file, lock_within
from hayase.core.private_files import open_file

BOOT_FILE = "BOOT"
_HOLD_FILE = "HOLD"
_OPENING_FILE = "OPENING"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class CrashMarker(msgspec.Struct, frozen=True):
    """What the BOOT file says.

    Attributes:
        boot_id: the boot of the machine under which the environment was opened for writing last.
        checkpoint_id: the checkpoint it belongs to.
        clean: it was synced and closed after that, by the last process that had it open.
    """

    boot_id: str
    checkpoint_id: str = msgspec.field(name="lineage")
    clean: bool

    def trusted(self, boot_id: str) -> bool:
        """Whether the environment may be opened under that boot."""
        return self.clean or self.boot_id == boot_id


def current_boot_id() -> str:
    """Another one after every start of the machine."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        import psutil

        return f"boot-time-{int(psutil.boot_time())}"


def read(folder: Path) -> CrashMarker | None:
    """What the folder's BOOT file says; `None` if there is none or it is torn."""
    try:
        return decode_json((folder / BOOT_FILE).read_bytes(), as_type=CrashMarker)
    except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def write(folder: Path, boot: CrashMarker) -> None:
    """Replace the BOOT file, on the disk when this returns."""
    temporary = folder / f"{BOOT_FILE}.{os.getpid()}"
    with os.fdopen(open_file(temporary, os.O_WRONLY | os.O_TRUNC), "wb") as file:
        file.write(msgspec.json.encode(boot))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(folder / BOOT_FILE)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def opening(folder: Path) -> Iterator[None]:
    """Only one process of the machine at a time is in here for a folder.

    Raises FolderError `LOCK_HELD` if one stays too long.
    """
    descriptor = lock_file(folder / _OPENING_FILE, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(descriptor)


class Hold:
    """Says that this process may write to the environment; the system lets go of it when the process ends."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _HOLD_FILE
        self._descriptor: int | None = lock_file(self._path, fcntl.LOCK_SH)

    def alone(self) -> bool:
        """Whether no other process holds it; call it in `opening`, so that none comes meanwhile."""
        if self._descriptor is None:
            return False
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            return False
        finally:
            # An attempt to convert a lock gives it up even if it fails.
            lock_within(self._descriptor, fcntl.LOCK_SH, self._path)

    @property
    def released(self) -> bool:
        """Whether it was let go of."""
        return self._descriptor is None

    def release(self) -> None:
        """Let go."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
