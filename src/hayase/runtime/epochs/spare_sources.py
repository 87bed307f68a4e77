"""Sources of spare processes: on each machine one that forks a process when a slot pool needs another one."""

from __future__ import annotations

import contextlib
from multiprocessing.connection import Connection

import msgspec

from hayase.runtime.wire.slot_messages import StartSpare
from hayase.runtime.wire.span_protocol import send_if_room


class SpareSources:
    """The sources that have connected to one pool. Not thread-safe: the pool's lock guards it."""

    def __init__(self) -> None:
        self._connections: list[tuple[str, Connection]] = []

    def __bool__(self) -> bool:
        return bool(self._connections)

    def add(self, machine: str, connection: Connection) -> None:
        """Note a source that has connected."""
        self._connections.append((machine, connection))

    def remove(self, connection: Connection) -> None:
        """Forget a source whose process is gone."""
        self._connections = [each for each in self._connections if each[1] is not connection]

    def start(self, slot: int, application_id: str, machine: str) -> None:
        """Have a process forked, on that machine if possible; nothing is certain until it joins."""
        order = msgspec.msgpack.encode(StartSpare(slot, application_id))
        for _, connection in sorted(self._connections, key=lambda each: each[0] != machine):
            with contextlib.suppress(OSError):
                send_if_room(connection, order)
                return

    def connections(self) -> list[Connection]:
        """The connections of all sources."""
        return [connection for _, connection in self._connections]
