"""Messages between the tasks of a span and the epoch planner, and the connections that carry them.

A connection is a Unix socket on one machine, TCP on a cluster.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import socket
import struct
import threading
import uuid
from collections.abc import Callable
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, answer_challenge, deliver_challenge
from pathlib import Path

import msgspec

from hayase.runtime.wire.endpoints import RunEndpoints, TcpAddress, family_of
from hayase.state.delta.journal import EdgeRow


class JoinSpan(msgspec.Struct, frozen=True):
    """Request of a slot's task to join the span that begins with an epoch.

    A later attempt of the slot replaces the earlier one.
    """

    slot: int
    first_epoch: int


class RowFile(msgspec.Struct, frozen=True):
    """A file, or blob, with rows for the bundles of one level in one slot; see `hayase.runtime.wire.row_files`."""

    level: int
    slot: int
    path: str


class LevelRequest(msgspec.Struct, frozen=True):
    """Work for a slot: its bundles of one level, for one epoch.

    Attributes:
        record: the epoch record.
        level: of the bundles.
        rows: rows that bundles of lower levels sent to these bundles.
        files: files with more of them.
    """

    record: bytes
    level: int
    rows: list[EdgeRow]
    files: list[str] = []


class LevelResult(msgspec.Struct, frozen=True):
    """Result of a LevelRequest.

    Attributes:
        rows: rows for bundles of higher levels; empty if `too_large`.
        summaries: of the bundles.
        files: files with more rows, on one machine.
        too_large: the rows exceed what a span carries between machines.
    """

    epoch: int
    level: int
    rows: list[EdgeRow]
    summaries: list[bytes]
    files: list[RowFile] = []
    too_large: bool = False


SPAN_ENDED = b""
"""Sent instead of a LevelRequest: the span has ended, the task returns."""
NO_SPAN = b"alone"
"""Sent instead of the first LevelRequest: there is no span, the task runs only the epoch that Spark asked for."""


class EpochReport(msgspec.Struct, frozen=True):
    """Report of the planner to the driver about an epoch that a span has completed.

    Attributes:
        total_ms: time from the start of planning to the end of the last bundle.
        planning_ms: the part of it before the epoch record existed.
        summaries: summaries of all bundles.
    """

    epoch: int
    total_ms: float
    planning_ms: float
    summaries: list[bytes]


_CONNECT_S = 5
_SILENT_S = 20
"""After so many seconds of silence both ends take the other machine for lost."""


class SpanListener:
    """Listener for the tasks of spans, open until `close`.

    TCP is not encrypted here, so there are no spans where Spark encrypts.

    Args:
        endpoints: addresses of the run.
        tasks: how many may connect at once.
    """

    def __init__(self, endpoints: RunEndpoints, tasks: int) -> None:
        backlog = max(16, 2 * tasks)
        self._key = b""
        if endpoints.host:
            at = endpoints.bind or endpoints.host
            self._listener = socket.create_server((at, 0), family=family_of(at), backlog=backlog)
            token = secrets.token_urlsafe(24)
            self._key = token.encode()
            self.address = str(TcpAddress(token, endpoints.host, self._listener.getsockname()[1]))
        else:
            self.address = str(Path(endpoints.sockets_dir) / uuid.uuid4().hex[:8])
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(self.address)
            Path(self.address).chmod(0o600)
            self._listener.listen(backlog)

    def serve(self, serve: Callable[[Connection], object], name: str) -> None:
        """Have each connection served in a thread of its own, until `close`; returns at once."""

        def listen() -> None:
            while True:
                try:
                    connection = self.accept()
                except ConnectionError:  # the task has disconnected
                    continue
                except OSError:
                    return
                threading.Thread(target=serve, args=(connection,), name=name, daemon=True).start()

        threading.Thread(target=listen, name=f"{name}s", daemon=True).start()

    def accept(self) -> Connection:
        """The next connection, not authenticated yet.

        Raises:
            OSError: the listener was closed.
        """
        opened, _ = self._listener.accept()
        if self._key:
            _prepare(opened)
            _wait_at_most(opened, _CONNECT_S)
        return Connection(opened.detach())

    def authenticates(self, connection: Connection) -> bool:
        """Whether the other end knows the token; neither end sends it.

        Raises:
            OSError, EOFError: the other end has disconnected.
        """
        if self._key:
            try:
                deliver_challenge(connection, self._key)
                answer_challenge(connection, self._key)
            except AuthenticationError:
                return False
            with socket.socket(fileno=os.dup(connection.fileno())) as opened:
                _wait_at_most(opened, 0)
        return True

    def close(self) -> None:
        """Accept no more connections; a thread that waits in `accept` returns."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # what is being waited for is not closed by closing it
        self._listener.close()
        if not self._key:
            Path(self.address).unlink(missing_ok=True)


def connect(address: str) -> Connection:
    """Connect a task to the listener at an address.

    Raises:
        OSError: nothing listens there, or the other end does not know the token.
    """
    tcp = TcpAddress.parse(address)
    if tcp is None:
        return Client(address, "AF_UNIX")
    opened = tcp.connect(_CONNECT_S)
    opened.settimeout(None)
    _prepare(opened)
    connection = Connection(opened.detach())
    try:
        answer_challenge(connection, tcp.token.encode())
        deliver_challenge(connection, tcp.token.encode())
    except (AuthenticationError, AssertionError, EOFError, OSError) as error:
        connection.close()
        raise ConnectionRefusedError(f"no span listener at {tcp.host}:{tcp.port}: {error}") from error
    return connection


def disconnect(connection: Connection) -> None:
    """Shut a connection down under a thread that reads from it: the thread sees its end.

    Closing would free its descriptor.
    """
    with socket.socket(fileno=os.dup(connection.fileno())) as opened:
        opened.shutdown(socket.SHUT_RDWR)


def send_if_room(connection: Connection, message: bytes) -> None:
    """Send a small message, unless that would block: a process that is stopped reads nothing."""
    room = select.poll()
    room.register(connection.fileno(), select.POLLOUT)
    if room.poll(0):
        connection.send_bytes(message)


def _wait_at_most(opened: socket.socket, seconds: float) -> None:
    """Set how long the other end may be silent; 0: without limit.

    A timeout of Python would belong to the object, not the connection.
    """
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", int(seconds), 0))


def _prepare(opened: socket.socket) -> None:
    """Send small messages at once, and notice a lost machine whichever end sends next."""
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", _SILENT_S // 2),
        ("TCP_KEEPINTVL", _SILENT_S // 4),
        ("TCP_KEEPCNT", 2),
        ("TCP_USER_TIMEOUT", 1000 * _SILENT_S),
    ):
        if hasattr(socket, option):  # Linux has them all
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
