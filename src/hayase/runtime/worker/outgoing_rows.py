"""Rows of a slot on their way to the next level: in a message, or in files if they are many."""

from __future__ import annotations

from collections.abc import Callable

from hayase.runtime.wire.span_protocol import RowFile
from hayase.state.delta.journal import EdgeRow

ROWS_BYTES_MAX = 4 << 20
"""Rows that are more than this go through files, where there are files that their readers see."""


class OutgoingRows:
    """Collects the rows of one level of an epoch.

    Args:
        level_and_slot: where the bundle of a task is.
        write: writes rows to a file; its name. `None`: all rows stay in memory.

    Attributes:
        files: what was written.
        bytes: of all rows.
    """

    def __init__(
        self, level_and_slot: Callable[[str], tuple[int, int]], write: Callable[[list[EdgeRow]], str] | None
    ) -> None:
        self._level_and_slot = level_and_slot
        self._write = write
        self._kept: dict[tuple[int, int], list[EdgeRow]] = {}
        self._kept_bytes = 0
        self.files: list[RowFile] = []
        self.bytes = 0

    def add(self, row: EdgeRow) -> None:
        """Add one; rows to one task stay in order."""
        self._kept.setdefault(self._level_and_slot(row.task), []).append(row)
        self._kept_bytes += len(row.payload)
        self.bytes += len(row.payload)
        if self._write is not None and self._kept_bytes > ROWS_BYTES_MAX:
            for (level, slot), rows in self._kept.items():
                self.files.append(RowFile(level, slot, self._write(rows)))
            self.drop()

    def drop(self) -> None:
        """Forget those in memory."""
        self._kept.clear()
        self._kept_bytes = 0

    def rows(self) -> list[EdgeRow]:
        """Those that are in no file."""
        return [row for rows in self._kept.values() for row in rows]
