"""Files that were read: what is known of each, and what becomes of it when all of it is published."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from hayase.connect.contracts import OffsetStorageReader
from hayase.connect.exceptions import ConnectError
from hayase.connect.files.paths import errors_of
from hayase.connect.model import SourceOffset, SourcePartition

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_LOG = logging.getLogger(__name__)
_NAMES_MAX = 10_000


class AfterFile(StrEnum):
    """What becomes of a file whose rows are all published."""

    KEEP = "keep"
    MOVE = "move"
    DELETE = "delete"


def version_of(info: Mapping[str, Any]) -> str:
    """What tells a file from another one that took its name, of what its file system says about it.

    Example:
        >>> version_of({"ino": 7, "mtime": 1.5}), version_of({"ETag": "abc"})
        ('7 1.5', 'abc')
    """
    if "ino" in info:
        return f"{info['ino']} {info.get('mtime')}"
    return str(info.get("ETag") or info.get("LastModified") or info.get("mtime") or "")


class ReadFiles:
    """Files by path: how far each was read. Belongs to one task.

    A file is moved or deleted when its last rows are published, and its offset is forgotten with the next transaction.
    One that cannot be moved or deleted stays known, and is tried again.

    Args:
        files: the file system.
        after: what becomes of files.
        move_path: the folder that they are moved to.
        stored: offsets of the connector when the task starts.
        publish: takes an offset of a partition of the source; `None`: it is forgotten.
    """

    def __init__(
        self,
        files: AbstractFileSystem,
        after: AfterFile,
        move_path: str | None,
        stored: OffsetStorageReader,
        publish: Callable[[SourcePartition, SourceOffset | None], None],
    ) -> None:
        self._files = files
        self._after = after
        self._move_path = move_path
        self._publish = publish
        self._offsets: dict[str, Mapping[str, object]] = {
            str(dict(where)["file"]): offset for where, offset in stored.offsets().items() if "file" in dict(where)
        }
        self._ending: list[str] = []  # whose last rows are polled, and not published
        self._ended: list[str] = []  # whose last rows are published
        self.failures = 0

    def next_row(self, path: str, size: int, version: str) -> int | None:
        """Which row of a file is next; `None`: it is read.

        Raises:
            ConnectError: `FILE_CHANGED`.
        """
        stored = self._offsets.get(path)
        if stored is None:
            return 0
        # A file that stays may be touched; one that is to be put away must be the one that was read.
        kept = stored["done"] and self._after is AfterFile.KEEP
        if stored["size"] != size or (stored.get("version", version) != version and not kept):
            raise ConnectError(
                "FILE_CHANGED",
                f"the file has {size} bytes and is version {version}; when it was read, it had {stored['size']} bytes "
                f"and was version {stored.get('version', 'unknown')}. Files must be complete when they are found: "
                "rename them into place, or raise settle.ms; a new file needs a new name, until the one before is "
                "moved or deleted",
                file=path,
            )
        row = stored["row"]
        assert isinstance(row, int)
        return None if stored["done"] else row

    def end(self, path: str, row: int, size: int, version: str) -> None:
        """The last row of a file is polled."""
        done = {"row": row, "size": size, "version": version, "done": True}
        self._offsets[path] = done
        self._ending.append(path)
        self._publish({"file": path}, done)

    def published(self) -> None:
        """All that was polled is published: move or delete the files that have ended."""
        ending, self._ending = self._ending, []
        if self._after is not AfterFile.KEEP:
            self._ended += ending
            self._clear()

    def look_at(self, found: Collection[str]) -> set[str]:
        """Move or delete files that were published by a task before, and forget those that are gone.

        Args:
            found: the files that are there.

        Returns:
            Those of them that are not there any more.
        """
        if self._after is AfterFile.KEEP:
            return set()
        waiting = {*self._ending, *self._ended}
        for path, offset in list(self._offsets.items()):
            if not offset["done"] or path in waiting:
                continue
            if path in found:
                self._ended.append(path)
            elif not self._files.exists(path):
                self._forget(path)
        return self._clear()

    def _clear(self) -> set[str]:
        """Put away files that have ended; those that were."""
        ended, self._ended = self._ended, []
        cleared: set[str] = set()
        for path in ended:
            try:
                if self._put_away(path):
                    self._forget(path)
                    cleared.add(path)
            except errors_of(self._files) as error:
                self.failures += 1
                self._ended.append(path)
                _LOG.warning("the file %s is published, and cannot be %sd: %s", path, self._after, error)
        return cleared

    def _forget(self, path: str) -> None:
        del self._offsets[path]
        self._publish({"file": path}, None)

    def _put_away(self, path: str) -> bool:
        """Move or delete a file; `False`: it is another one by now, which the next look refuses."""
        if not self._files.exists(path):
            return True
        info = self._files.info(path)
        stored = self._offsets[path]
        if stored["size"] != info["size"] or stored.get("version", version_of(info)) != version_of(info):
            return False
        if self._after is AfterFile.DELETE:
            self._files.rm_file(path)
            return True
        import fsspec.core

        assert self._move_path is not None
        folder = fsspec.core.url_to_fs(self._move_path)[1].rstrip("/")
        self._files.makedirs(folder, exist_ok=True)
        self._files.mv(path, self._free_name(f"{folder}/{path.rpartition('/')[2]}"))
        return True

    def _free_name(self, target: str) -> str:
        """A path that no file has: an older file of that name stays."""
        stem, dot, suffix = target.rpartition(".")
        if "/" in suffix or not dot:
            stem, suffix = target, ""
        names = (target, *(f"{stem}-{number}{dot}{suffix}" for number in range(1, _NAMES_MAX)))
        for name in names:
            if not self._files.exists(name):
                return name
        raise FileExistsError(f"{target} and {_NAMES_MAX - 1} names like it are taken")
