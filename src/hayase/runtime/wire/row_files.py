"""Rows on their way from one level to the next that are too many for a message."""

from __future__ import annotations

import io
import os
import uuid
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from hayase.core.decoding import decode_msgpack
from hayase.core.errors import StateError
from hayase.core.private_files import open_file
from hayase.runtime.wire.round_results import ROUNDS_FOLDER
from hayase.state.delta.journal import EdgeRow
from hayase.storage.blobs import BlobStore
from hayase.storage.disk_full import naming_full_disk

_WHAT = "Rows on their way to the next level"
_LENGTH_BYTES = 8
_END = bytes(_LENGTH_BYTES)
"""Instead of a length, behind the last row; the checksum of all rows follows."""
_CHECKSUM_BYTES = 4


def write_rows(folder: Path, rows: Iterable[EdgeRow]) -> str:
    """Write rows to a new file of the folder; its path."""
    path = folder / f"rows-{uuid.uuid4().hex}"
    with naming_full_disk(_WHAT, folder), os.fdopen(open_file(path, os.O_WRONLY), "wb") as file:
        file.writelines(_encoded(rows))
    return str(path)


def read_rows(path: Path) -> Iterator[EdgeRow]:
    """The rows of a file, in the order in which they were written.

    Raises:
        StateError: `ROWS_MISSING`: it is gone, or damaged; known only when all were read.
    """
    try:
        with path.open("rb") as file:
            yield from _decoded(file, str(path), os.fstat(file.fileno()).st_size)
    except FileNotFoundError:
        raise _missing(str(path), "is gone") from None


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
        """As `read_rows`, of a file or blob."""
        path = Path(name)
        if path.is_absolute():
            yield from read_rows(path)
            return
        data = self._blobs.get(name)
        if data is None:
            raise _missing(name, "is gone from the runtime's checkpoint")
        yield from _decoded(io.BytesIO(data), name, len(data))

    def remove(self, name: str) -> None:
        """Remove a file or blob; nothing happens if there is none."""
        path = Path(name)
        if path.is_absolute():
            path.unlink(missing_ok=True)
        else:
            self._blobs.delete(name)


def _encoded(rows: Iterable[EdgeRow]) -> Iterator[bytes]:
    checksum = 0
    for row in rows:
        data = msgspec.msgpack.encode(row)
        checksum = zlib.crc32(data, checksum)
        yield len(data).to_bytes(_LENGTH_BYTES, "little")
        yield data
    yield _END
    yield checksum.to_bytes(_CHECKSUM_BYTES, "little")


def _decoded(file: BinaryIO, name: str, size: int) -> Iterator[EdgeRow]:
    checksum = 0
    while (length := file.read(_LENGTH_BYTES)) != _END:
        data = file.read(min(size, int.from_bytes(length, "little")))  # what is damaged may ask for any memory
        checksum = zlib.crc32(data, checksum)
        try:
            yield decode_msgpack(data, as_type=EdgeRow)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise _missing(name, f"is damaged or cut off ({error})") from error
    if file.read() != checksum.to_bytes(_CHECKSUM_BYTES, "little"):
        raise _missing(name, "is damaged: its rows have another checksum")


def _missing(name: str, why: str) -> StateError:
    return StateError(
        "ROWS_MISSING",
        f"{name}, with rows of an epoch for its next level, {why}. Nothing is lost: the epoch is run again, and makes "
        "them again",
    )
