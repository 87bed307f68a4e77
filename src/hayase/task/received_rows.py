"""The rows that tasks of lower levels sent to the tasks of a process, from their arrival to the end of the epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import itemgetter

from hayase.state.delta.journal import EdgeRow
from hayase.state.environment.spill import EpochSpace

_STORED_BYTES = 300
"""What a row costs in memory whose payload is on disk."""

_Payload = bytes | Callable[[], bytes]
"""In memory, or read from disk at every call."""


class ReceivedRows:
    """Rows by the task and the edge that they are for; payloads beyond the space's share are on disk.

    Args:
        rows: that have arrived.
        space: closed by `close`; `None`: all rows stay in memory.
    """

    def __init__(self, rows: Iterable[EdgeRow] = (), space: EpochSpace | None = None) -> None:
        self._space = space
        self._in_memory_bytes = 0
        self._payloads: dict[str, dict[tuple[str, str], list[tuple[int, _Payload]]]] = {}
        for row in rows:
            self.add(row)

    def add(self, row: EdgeRow) -> None:
        """One more; raises StateError `DISK_FULL`."""
        payload: _Payload = row.payload
        if self._space is None or self._in_memory_bytes + row.size_bytes <= self._space.share:
            self._in_memory_bytes += row.size_bytes
        else:
            payload = partial(self._space.file.read, self._space.file.append(row.payload))
            self._in_memory_bytes += _STORED_BYTES
        self._payloads.setdefault(row.task, {}).setdefault((row.edge, row.origin), []).append((row.seq, payload))

    def inputs_of(self, task: str) -> dict[tuple[str, str], Iterator[EdgeRow]]:
        """The rows for a task by edge and origin, ascending by `seq`; each is read from disk when its turn comes."""
        return {
            (edge, origin): self._read(task, edge, origin, payloads)
            for (edge, origin), payloads in self._payloads.get(task, {}).items()
        }

    def close(self) -> None:
        """Give the space back; payloads on disk cannot be read any more."""
        if self._space is not None:
            self._space.close()

    def _read(self, task: str, edge: str, origin: str, payloads: list[tuple[int, _Payload]]) -> Iterator[EdgeRow]:
        for seq, payload in sorted(payloads, key=itemgetter(0)):
            yield EdgeRow(task, edge, origin, seq, payload if isinstance(payload, bytes) else payload())
