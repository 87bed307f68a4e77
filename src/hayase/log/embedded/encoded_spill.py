"""Encoded batches on disk, between their encoding and the transaction that writes them."""

from __future__ import annotations

import os
import tempfile
from types import TracebackType
from typing import IO

from hayase.log.embedded.blob import Blob
from hayase.log.embedded.failures import io_errors


class SpilledBlob:
    """A blob in the file of a spill.

    Args:
        folder: where the file is, for errors.
        file: of the spill.
        position: where its bytes begin.
        blob: the blob, whose bytes are written and not kept.
    """

    __slots__ = ("_file", "_folder", "_length", "_max_timestamp_ms", "_position", "_records")

    def __init__(self, folder: str, file: IO[bytes], position: int, blob: Blob) -> None:
        self._folder = folder
        self._file = file
        self._position = position
        self._length = len(blob.data)
        self._records = blob.records
        self._max_timestamp_ms = blob.max_timestamp_ms

    def load(self) -> Blob:
        """The blob, in memory; raises LogError `LOG_FAILED` if the file does not give what was written."""
        data = bytearray(self._length)
        position, rest = self._position, memoryview(data)
        while rest:
            with io_errors(self._folder):
                count = os.preadv(self._file.fileno(), [rest], position)
                if count == 0:
                    raise OSError(
                        f"the last {len(rest)} bytes of {self._length} did not come back from a temporary file"
                    )
            position, rest = position + count, rest[count:]
        return Blob(data, self._records, self._max_timestamp_ms)


class EncodedSpill:
    """Takes blobs that are too many for memory, into an unnamed file that goes with the process. Not thread-safe.

    Args:
        folder: of the log: where they go next, so that a full disk shows before the transaction.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._end = 0

    def __enter__(self) -> EncodedSpill:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, blob: Blob) -> SpilledBlob:
        """Write a blob.

        Raises:
            LogError: `DISK_FULL`, `LOG_FAILED`: it could not be written.
        """
        with io_errors(self._folder):
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115 - closed with the spill
            rest = memoryview(blob.data)
            while rest:
                rest = rest[self._file.write(rest) :]
        spilled = SpilledBlob(self._folder, self._file, self._end, blob)
        self._end += len(blob.data)
        return spilled
