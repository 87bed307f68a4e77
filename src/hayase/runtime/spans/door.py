"""How the tasks of a span reach the planner: a Unix socket on one machine, TCP on a cluster."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import struct
import uuid
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, answer_challenge, deliver_challenge
from pathlib import Path

from hayase.runtime.addresses import RunPlace, TcpAddress, family_of

_CONNECT_S = 5
_SILENT_S = 20
"""After so long without a sign of life a machine is taken for lost, at both ends."""


class Door:
    """Where the tasks come in; listens until `close`. What is said over TCP is not encrypted, so where Spark encrypts there is no span.

    Args:
        place: of the run.
        tasks: how many may come at once.
    """

    def __init__(self, place: RunPlace, tasks: int) -> None:
        backlog = max(16, 2 * tasks)
        self._key = b""
        if place.host:
            at = place.bind or place.host
            self._listener = socket.create_server((at, 0), family=family_of(at), backlog=backlog)
            token = secrets.token_urlsafe(24)
            self._key = token.encode()
            self.address = str(TcpAddress(token, place.host, self._listener.getsockname()[1]))
        else:
            self.address = str(Path(place.sockets_dir) / uuid.uuid4().hex[:8])
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(self.address)
            Path(self.address).chmod(0o600)
            self._listener.listen(backlog)

    def accept(self) -> Connection:
        """The next one that comes.

        Raises:
            OSError: the door was closed.
        """
        opened, _ = self._listener.accept()
        if self._key:
            _prepare(opened)
            _wait_at_most(opened, _CONNECT_S)
        return Connection(opened.detach())

    def admits(self, connection: Connection) -> bool:
        """Whether whoever came knows the token; neither end says it.

        Raises:
            OSError, EOFError: whoever came has gone.
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
        """Nobody comes in any more; a thread that waits in `accept` is woken."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # what is being waited for is not closed by closing it
        self._listener.close()
        if not self._key:
            Path(self.address).unlink(missing_ok=True)


def knock(address: str) -> Connection:
    """A task comes to a door.

    Raises:
        OSError: nobody is there, or not who should be.
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
        raise ConnectionRefusedError(f"no door of ours at {tcp.host}:{tcp.port}: {error}") from error
    return connection


def hang_up(connection: Connection) -> None:
    """Have whoever waits for the other end find its end; closing would pull the file away from under another thread."""
    with socket.socket(fileno=os.dup(connection.fileno())) as opened:
        opened.shutdown(socket.SHUT_RDWR)


def _wait_at_most(opened: socket.socket, seconds: float) -> None:
    """How long the other end may be silent; 0: for ever. A timeout of Python's would be one of the object, not of the connection."""
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", int(seconds), 0))


def _prepare(opened: socket.socket) -> None:
    """Small messages go out at once, and a machine that is lost is noticed, whoever was to speak next."""
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
