"""Spark's own checkpoint of a query, kept in the application's: so it is as durable, and wherever that is.

Spark writes its files without fsync and needs a file system. Here it works in a folder of the run, and each file is
published as a blob before anything is done that rests on it. A start recreates the folder from the blobs.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from urllib.parse import quote, unquote

from hayase.core.errors import CheckpointError
from hayase.core.private_files import make_folder, write_file
from hayase.storage.blobs import BlobStore

OFFSETS = "offsets/"
COMMITS = "commits/"


class QueryCheckpoint:
    """One query's. Not safe for several threads at once.

    Args:
        blobs: the application's checkpoint.
        name: of the query, unique in the application.
        folder: where Spark works; must not exist, or be that of an earlier query of this run.
    """

    def __init__(self, blobs: BlobStore, name: str, folder: Path) -> None:
        self._blobs = blobs
        self._prefix = f"spark/in/{name}/"
        self._folder = folder
        self._kept: set[str] = set()

    def restore(self) -> None:
        """Make the folder as the last `keep` found it; nothing where there never was one."""
        for blob in self._blobs.list(self._prefix):
            file = unquote(blob.removeprefix(self._prefix))
            data = self._blobs.get(blob)
            assert data is not None
            path = self._folder / file
            make_folder(path.parent)
            write_file(path, data)
            self._kept.add(file)

    def keep(self, batch: int) -> str:
        """Publish what Spark knows as a batch begins, and above all its offsets; the digest of these.

        Offsets go last: without them Spark plans the batch again, and nothing of it has been written yet.

        Raises:
            CheckpointError: Spark has no offsets of the batch, or other ones than were kept for it.
            StorageError, StateError: the checkpoint cannot be written.
        """
        fresh = self._publish(self._files())
        name = f"{OFFSETS}{batch}"
        try:
            offsets = (self._folder / name).read_bytes()
        except FileNotFoundError as error:
            raise CheckpointError("SPARK_OFFSETS_MISSING", f"Spark has no offsets of batch {batch}") from error
        if name not in fresh and self._blobs.get(self._prefix + quote(name, safe="")) != offsets:
            raise CheckpointError(
                "SPARK_OFFSETS_DIFFER",
                f"the checkpoint has other offsets for batch {batch} than Spark is about to read; restore it from a "
                "copy, or start over with `hayase app reset`",
            )
        return hashlib.blake2b(offsets, digest_size=16).hexdigest()

    def settle(self) -> None:
        """The query has ended in order: if its last batch is complete, keep that too, so that it is not run again.

        A batch that was planned and not begun is not kept: it is planned again.
        """
        files = self._files()
        last = max((int(file.removeprefix(OFFSETS)) for file in self._kept if file.startswith(OFFSETS)), default=None)
        if last is not None and f"{COMMITS}{last}" in files:
            self._publish([file for file in files if not file.startswith(OFFSETS) or file in self._kept])

    def _publish(self, files: list[str]) -> set[str]:
        """Publish what is new and delete what is gone; which files were published by this call."""
        fresh = set()
        for file in files:
            if file in self._kept:
                continue
            try:
                data = (self._folder / file).read_bytes()
            except FileNotFoundError:  # Spark deletes what it does not need any more
                continue
            if self._blobs.put_if_absent(self._prefix + quote(file, safe=""), data):
                fresh.add(file)
            self._kept.add(file)
        for file in sorted(self._kept.difference(files)):
            self._blobs.delete(self._prefix + quote(file, safe=""))
            self._kept.discard(file)
        return fresh

    def _files(self) -> list[str]:
        """Spark's files, without temporaries and checksums: metadata and state, then commits, then offsets."""
        files = [
            (Path(root) / name).relative_to(self._folder).as_posix()
            for root, _, names in os.walk(self._folder)
            for name in names
            if not name.startswith(".") and not name.endswith(".tmp")
        ]
        return sorted(files, key=lambda file: (file.startswith(OFFSETS), file.startswith(COMMITS), file))
