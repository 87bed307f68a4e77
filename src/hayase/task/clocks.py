"""Stream-time clocks of a task, kept in its state."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from hayase.state.stores.protocol import ByteStore, TaskState

CLOCK_STORE = "__clocks"
"""Name of the store that holds the clocks; store names of users cannot begin with `__`."""
STREAM_TIME = "task/stream-time"
"""Clock of a task with processors or stores with a time to live; no node has a slash in its name."""

_INT64 = struct.Struct(">q")


def task_stream_time(clock_store: ByteStore) -> int:
    """The stream time of a task after its last epoch, of its store of clocks; -1 before the first record."""
    data = clock_store.get(STREAM_TIME.encode())
    return -1 if data is None else int(_INT64.unpack(data)[0])


_OF_TASK = "task/"
"""What clocks of no node begin with."""


class StateClocks:
    """Clocks by name; read from state when first asked for, written back by `save`.

    Args:
        state: of the task.
        kept_names: nodes → what their clocks are called in the state, where another program began it.
    """

    def __init__(self, state: TaskState | None, kept_names: Mapping[str, str] | None = None) -> None:
        self._store = state.store(CLOCK_STORE) if state is not None else None
        self._kept_names = kept_names or {}
        self._times: dict[str, int] = {}
        self._changed: set[str] = set()

    def get(self, name: str) -> int:
        """Time of the clock in milliseconds, -1 before the first record."""
        known = self._times.get(name)
        if known is None:
            data = self._store.get(self._key(name)) if self._store is not None else None
            known = _INT64.unpack(data)[0] if data is not None else -1
            self._times[name] = known
        return known

    def set(self, name: str, time_ms: int) -> None:
        """Move the clock."""
        if self._times.get(name) != time_ms:
            self._times[name] = time_ms
            self._changed.add(name)

    def save(self) -> None:
        """Write what moved to the state."""
        if self._store is not None:
            for name in sorted(self._changed):
                self._store.put(self._key(name), _INT64.pack(self._times[name]))
        self._changed.clear()

    def _key(self, name: str) -> bytes:
        if self._kept_names and not name.startswith(_OF_TASK):
            node, slash, rest = name.partition("/")
            name = f"{self._kept_names.get(node, node)}{slash}{rest}"
        return name.encode()
