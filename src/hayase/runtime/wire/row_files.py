"""Files of rows on their way from one level to the next: those that are too many for a message. On one machine only."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from hayase.core.private_files import open_file
from hayase.state.delta.journal import EdgeRow
from hayase.storage.disk_full import naming_full_disk

_WHAT = "Rows on their way to the next level"
_LENGTH_BYTES = 8


def write_rows(folder: Path, rows: Iterable[EdgeRow]) -> Path:
    """Write rows to a new file of the folder."""
    path = folder / f"rows-{uuid.uuid4().hex}"
    with naming_full_disk(_WHAT, folder), os.fdopen(open_file(path, os.O_WRONLY), "wb") as file:
        for row in rows:
            data = msgspec.msgpack.encode(row)
            file.write(len(data).to_bytes(_LENGTH_BYTES, "little"))
            file.write(data)
    return path


def read_rows(path: Path) -> Iterator[EdgeRow]:
    """The rows of a file, in the order in which they were written."""
    with path.open("rb") as file:
        while length := file.read(_LENGTH_BYTES):
            yield msgspec.msgpack.decode(file.read(int.from_bytes(length, "little")), type=EdgeRow)
