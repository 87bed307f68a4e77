"""Rows that a higher level's slot has received and not processed yet."""

from __future__ import annotations

from dataclasses import dataclass

from hayase.state.delta.journal import EdgeRow, ReceivedRow
from hayase.state.environment.spill import EpochSpace, Spilled, SpillFile

_STORED_BYTES = 300
"""What a row costs in memory whose payload is on disk."""


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A row whose payload is on disk (`ReceivedRow`)."""

    task: str
    edge: str
    origin: str
    seq: int
    file: SpillFile
    place: Spilled

    @property
    def payload(self) -> bytes:
        """Read again at every call."""
        return self.file.read(self.place)

    @property
    def size_bytes(self) -> int:
        """About how much memory it takes with its payload."""
        return self.place.length + _STORED_BYTES


class ReceivedRows:
    """Rows in the order they came; payloads beyond the space's share are on disk.

    Args:
        space: closed by `close`.
    """

    def __init__(self, space: EpochSpace) -> None:
        self._space = space
        self._in_memory = 0
        self.rows: list[ReceivedRow] = []

    def add(self, row: EdgeRow) -> None:
        """One more; raises StateError `DISK_FULL`."""
        if self._in_memory + row.size_bytes <= self._space.share:
            self._in_memory += row.size_bytes
            self.rows.append(row)
            return
        place = self._space.file.append(row.payload)
        self._in_memory += _STORED_BYTES
        self.rows.append(StoredRow(row.task, row.edge, row.origin, row.seq, self._space.file, place))

    def close(self) -> None:
        """Give the space back; payloads on disk cannot be read any more."""
        self._space.close()
