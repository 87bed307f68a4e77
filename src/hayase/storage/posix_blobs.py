"""Blobs as files of a POSIX file system, published with `link`."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import uuid
from pathlib import Path

from hayase.core.errors import ConfigError
from hayase.core.private_files import make_folder, open_file, private_folder
from hayase.core.steps import moved
from hayase.storage.blobs import check_folder, name_parts
from hayase.storage.disk_full import disk_full, is_out_of_space

TEMPORARIES = ".tmp"
"""Folder of blobs that are not published yet."""
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK)


class PosixBlobs:
    """A `BlobStore` in a folder of a local file system.

    A blob is written to a temporary, synced, and then linked to its name: `link` fails if the name is taken, and is
    atomic, so that no reader ever sees half a blob. A temporary is locked as long as it is written; those that are not
    locked were left behind by dead processes and are removed at the first write. No process ids are involved, which
    containers may have in common. Safe for several processes and threads; may be pickled and inherited over a fork.

    Args:
        root: the folder; made at the first write.
        fsync: whether a blob is on the disk when `put_if_absent` returns. Without, a power loss can take blobs away.
    """

    def __init__(self, root: Path, fsync: bool = True) -> None:
        self.root = Path(root)
        self.fsync = fsync
        self._ready = False

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.root, self.fsync)

    @property
    def publishes_once(self) -> bool:
        """Always: `link` fails if the name is taken."""
        return True

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Publish a blob; `False`, and nothing changed, if there is one of that name already.

        Raises:
            StateError: `DISK_FULL`: no space, or a quota or file size limit was hit; nothing was published.
            ConfigError: `LINKS_NOT_SUPPORTED`: the file system has no hard links.
        """
        path = self._path(name)
        try:
            if not self._ready:
                self._prepare()
            self._make_folder(path.parent)
            created = self._link_new(path, data)
            # The loser syncs as well: the winner may not have got that far, and we go on as if it were durable.
            if self.fsync:
                _sync_folder(path.parent)
            return created
        except OSError as error:
            if is_out_of_space(error.errno):
                raise disk_full(name, self.root, error) from error
            if error.errno in _NO_LINKS:
                raise ConfigError(
                    "LINKS_NOT_SUPPORTED",
                    f"The file system of {self.root} does not support hard links ({error.strerror}), which publishing "
                    "exactly once needs. Choose a folder on a local POSIX file system.",
                ) from error
            raise

    def get(self, name: str) -> bytes | None:
        """The blob; `None` if there is none."""
        moved()
        try:
            return self._path(name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def size(self, name: str) -> int | None:
        """Bytes of the blob; `None` if there is none."""
        try:
            return self._path(name).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return None

    def exists(self, name: str) -> bool:
        """Whether there is a blob of that name."""
        return self._path(name).is_file()

    def list(self, prefix: str) -> list[str]:
        """Names of the blobs in the folder `prefix` (`a/b/`; empty for the root), sorted; not those of its folders."""
        folder = self._path(prefix.rstrip("/")) if prefix else self.root
        try:
            with os.scandir(folder) as entries:
                return sorted(prefix + entry.name for entry in entries if entry.is_file())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def delete(self, name: str) -> None:
        """Remove a blob; nothing happens if there is none."""
        self._path(name).unlink(missing_ok=True)

    def delete_below(self, folder: str) -> None:
        """Remove a folder (`a/b/`) and everything in it; a symbolic link is removed, not followed."""
        check_folder(folder)
        path = self._path(folder[:-1])
        if path.is_symlink():
            path.unlink()
        elif path.is_dir():
            shutil.rmtree(path)

    def is_empty(self) -> bool:
        """Whether there is nothing but temporaries in the folder, or no folder."""
        try:
            with os.scandir(self.root) as entries:
                return all(entry.name == TEMPORARIES for entry in entries)
        except (FileNotFoundError, NotADirectoryError):
            return True

    def tidy(self) -> None:
        """Remove the temporaries, and the folder if it is empty then."""
        if self.is_empty() and self.root.exists():
            shutil.rmtree(self.root / TEMPORARIES, ignore_errors=True)
            self._ready = False
            try:
                self.root.rmdir()
            except OSError:
                return

    def _path(self, name: str) -> Path:
        parts = name_parts(name)
        if parts[0] == TEMPORARIES:
            raise ValueError(f"{name!r} is no name of a blob: '{TEMPORARIES}' is where unfinished ones are")
        return self.root.joinpath(*parts)

    def _prepare(self) -> None:
        self._make_folder(self.root)
        private_folder(self.root, contents=())
        folder = self.root / TEMPORARIES
        self._make_folder(folder)
        for path in folder.iterdir():
            _remove_if_left_behind(path)
        self._ready = True

    def _make_folder(self, folder: Path) -> None:
        if folder.is_dir():
            return
        self._make_folder(folder.parent)
        make_folder(folder)
        if self.fsync:
            _sync_folder(folder.parent)

    def _link_new(self, path: Path, data: bytes) -> bool:
        if path.exists():
            return False
        descriptor, temporary = self._new_temporary()
        try:
            self._write(descriptor, data)
            try:
                os.link(temporary, path)
            except FileExistsError:
                return False
            return True
        finally:
            temporary.unlink(missing_ok=True)
            os.close(descriptor)

    def _new_temporary(self) -> tuple[int, Path]:
        """A new file that is locked; in between, another process may have taken it for one that was left behind."""
        while True:
            path = self.root / TEMPORARIES / uuid.uuid4().hex
            descriptor = open_file(path, os.O_WRONLY | os.O_EXCL)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(descriptor).st_nlink:
                    return descriptor, path
            except BlockingIOError:
                pass
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def _write(self, descriptor: int, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        if self.fsync:
            os.fsync(descriptor)


def _remove_if_left_behind(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink(missing_ok=True)
    except BlockingIOError:
        return  # it is being written
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
