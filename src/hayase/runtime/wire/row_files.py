"""Rows on their way from one level to the next that are too many for a message."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from hayase.core.errors import StateError
from hayase.core.private_files import open_file
from hayase.runtime.wire.round_results import ROUNDS_FOLDER
from hayase.state.delta.journal import EdgeRow
from hayase.storage.blobs import BlobStore
from hayase.storage.disk_full import naming_full_disk

_WHAT = "Rows on their way to the next level"
_LENGTH_BYTES = 8


def write_rows(folder: Path, rows: Iterable[EdgeRow]) -> str:
    """Write rows to a new file of the folder; its path."""
    path = folder / f"rows-{uuid.uuid4().hex}"
    with naming_full_disk(_WHAT, folder), os.fdopen(open_file(path, os.O_WRONLY), "wb") as file:
        file.writelines(_encoded(rows))
    return str(path)


def read_rows(path: Path) -> Iterator[EdgeRow]:
    """The rows of a file, in the order in which they were written."""
    with path.open("rb") as file:
        while length := file.read(_LENGTH_BYTES):
            yield _decoded(file.read(int.from_bytes(length, "little")))


class RowFiles:
    """Rows in files of one machine, or, between machines, in blobs of the runtime's checkpoint.

    Args:
        blobs: the runtime's checkpoint.
    """

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs

    def write_blob(self, rows: Iterable[EdgeRow]) -> str:
        """Write rows to a new blob; its name."""
        name = f"{ROUNDS_FOLDER}rows/{uuid.uuid4().hex}"
        self._blobs.put_if_absent(name, b"".join(_encoded(rows)))
        return name

    def read(self, name: str) -> Iterator[EdgeRow]:
        """The rows of a file or blob, in the order in which they were written."""
        path = Path(name)
        if path.is_absolute():
            yield from read_rows(path)
            return
        data = self._blobs.get(name)
        if data is None:
            raise StateError(
                "ROWS_MISSING",
                f"{name}, with rows of the level before, is gone from the runtime's checkpoint: restart the topology, "
                "which runs the epoch again",
            )
        view = memoryview(data)
        while view:
            end = _LENGTH_BYTES + int.from_bytes(view[:_LENGTH_BYTES], "little")
            yield _decoded(view[_LENGTH_BYTES:end])
            view = view[end:]

    def remove(self, name: str) -> None:
        """Remove a file or blob; nothing happens if there is none."""
        path = Path(name)
        if path.is_absolute():
            path.unlink(missing_ok=True)
        else:
            self._blobs.delete(name)


def _encoded(rows: Iterable[EdgeRow]) -> Iterator[bytes]:
    for row in rows:
        data = msgspec.msgpack.encode(row)
        yield len(data).to_bytes(_LENGTH_BYTES, "little")
        yield data


def _decoded(data: bytes | memoryview) -> EdgeRow:
    return msgspec.msgpack.decode(data, type=EdgeRow)
