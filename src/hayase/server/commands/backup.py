"""A copy of the command topic in a file."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from hayase.core.errors import ConfigError, FolderError
from hayase.core.private_files import make_folder, open_file

_LOG = logging.getLogger("hayase.server")


def whole_lines(data: bytes) -> tuple[list[bytes], bytes]:
    """The records of a copy, and the part of one behind them that a crash may have left."""
    *lines, cut = data.split(b"\n")
    return lines, cut


class CommandBackup:
    """A file with a line for each record of the command topic; its folder and file are closed to other users.

    What counts is the topic: a line that cannot be written fails no command, and is written with the next one, or at
    the next start.

    Args:
        file: where.
        now_ms: the wall clock, for the name of a file that is put aside.
    """

    def __init__(self, file: Path, now_ms: Callable[[], int]) -> None:
        self._file = file
        self._now_ms = now_ms
        self._length = 0
        self._waiting: list[bytes] = []

    def complete(self, lines: Sequence[bytes]) -> None:
        """Copy what an earlier run could not, or all if the file is new or of other commands.

        Raises:
            ConfigError: `BACKUP_FAILED`: the file cannot be written.
            FolderError: `FILE_NOT_PRIVATE`: it is a link, or another user's.
        """
        try:
            make_folder(self._file.parent)
            with os.fdopen(open_file(self._file, os.O_RDWR), "rb") as file:
                data = file.read()
            there, cut = whole_lines(data)
            whole = data[: len(data) - len(cut)]
            if there != list(lines[: len(there)]):
                self._file.rename(self._file.with_suffix(f".{self._now_ms()}.jsonl"))
                whole, there = b"", []
            self._length, self._waiting = len(whole), list(lines[len(there) :])
            self._write()
        except OSError as error:
            raise ConfigError(
                "BACKUP_FAILED",
                f"ksql.metastore.backup.location: commands cannot be copied to {self._file}: {error}. Give a folder "
                "that can be written, or leave the setting out",
                setting="ksql.metastore.backup.location",
            ) from error

    def append(self, line: bytes) -> None:
        """Copy a record."""
        self._waiting.append(line)
        try:
            make_folder(self._file.parent)
            self._write()
        except (OSError, FolderError) as error:
            _LOG.error(
                "%d records of the command topic could not be copied to %s: %s. They are in the topic; the copy is "
                "tried again with the next command, and at the next start",
                len(self._waiting),
                self._file,
                error,
            )

    def _write(self) -> None:
        with os.fdopen(open_file(self._file, os.O_RDWR), "r+b") as file:
            # A part of a line may be there, of an attempt that failed.
            place = min(self._length, file.seek(0, os.SEEK_END))
            file.truncate(place)
            file.seek(place)
            written = b"".join(line + b"\n" for line in self._waiting)
            file.write(written)
        self._length, self._waiting = place + len(written), []
