"""What workers and the planner log arrives in the driver, and goes on through the driver's own loggers.

Records travel as JSON lines: on one machine over a Unix socket in a folder that only the user may enter, from the
machines of a cluster over TCP, unencrypted, to a client that sends the run's token first. A worker that cannot reach
the driver drops what it has to say: it is about to end, or a firewall is in between.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import logging
import os
import secrets
import shutil
import socket
import socketserver
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from hayase.core.logs import FIELDS, place_of, set_levels, trace_of, without_secrets
from hayase.core.socket_folder import socket_folder
from hayase.runtime.wire.endpoints import TcpAddress, family_of

_LINE_MAX = 1 << 20
_SEND_S = 5.0
_POLL_S = 0.1  # how long closing may wait
_once_lock = threading.Lock()
_AGAIN_S = 30.0
"""A driver that could not be reached is not tried again for so long: each try may take seconds of a task."""


class LogRelay:
    """The driver's end: listens until `close`.

    Args:
        host: the name or address by which workers on other machines reach this one; empty: all are on this one.
        bind: the address to listen at instead of `host`.

    Attributes:
        address: of the relay.
        folder: for Unix sockets of the run; only the user may enter it. Removed by `close`.
    """

    def __init__(self, host: str = "", bind: str = "") -> None:
        # Not inside the state folder: the path of a Unix socket has at most about 100 characters.
        self.folder = socket_folder("hayase-run-")
        self._server: socketserver.BaseServer
        if host:
            token = secrets.token_urlsafe(24)
            server = _TcpServer((bind or host, 0), family_of(bind or host), token)
            self.address = str(TcpAddress(token, host, server.server_address[1]))
            self._server = server
        else:
            self.address = str(self.folder / "log")
            self._server = _Server(self.address, _Receiver)
            Path(self.address).chmod(0o600)
        threading.Thread(
            target=self._server.serve_forever, args=(_POLL_S,), name="hayase-log-relay", daemon=True
        ).start()

    def close(self) -> None:
        """Stop listening; lines that are on their way are still taken."""
        self._server.shutdown()
        self._server.server_close()
        shutil.rmtree(self.folder, ignore_errors=True)


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: str, handler: type[socketserver.BaseRequestHandler]) -> None:
        self.logged_once: set[str] = set()
        super().__init__(address, handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A worker that ends in the middle of a line is no news."""


class _TcpServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], family: socket.AddressFamily, token: str) -> None:
        self.address_family = family
        self.token = token.encode()
        self.logged_once: set[str] = set()
        super().__init__(address, _TokenReceiver)

    def handle_error(self, request: object, client_address: object) -> None:
        """As above."""


class _Receiver(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        """Lines until the worker ends."""
        while line := self.rfile.readline(_LINE_MAX):
            with contextlib.suppress(ValueError, TypeError, KeyError):  # cut off in the middle
                fields = json.loads(line)
                if (once := fields.pop("once", None)) is not None:  # several workers may find the same
                    assert isinstance(self.server, _Server | _TcpServer)
                    with _once_lock:
                        if once in self.server.logged_once:
                            continue
                        self.server.logged_once.add(once)
                _log(fields)


class _TokenReceiver(_Receiver):
    def handle(self) -> None:
        """Nothing from those who do not know the token."""
        assert isinstance(self.server, _TcpServer)
        self.connection.settimeout(_SEND_S)
        if hmac.compare_digest(self.rfile.readline(200).strip(), self.server.token):
            self.connection.settimeout(None)
            super().handle()


def _log(fields: Mapping[str, object]) -> None:
    record = logging.makeLogRecord(dict(fields))
    logger = logging.getLogger(record.name)
    if logger.isEnabledFor(record.levelno):
        logger.handle(record)


class RelayHandler(logging.Handler):
    """A worker's end.

    Args:
        address: of the driver's end.
        fields: what every line says, e.g. the application's id.
        secrets: what never leaves the process.
    """

    def __init__(self, address: str, fields: Mapping[str, object], secrets: Iterable[str]) -> None:
        super().__init__()
        self._address = address
        self._fields = dict(fields)
        self._secrets = tuple(secrets)
        self._socket: socket.socket | None = None
        self._pid = os.getpid()
        self._silent_until = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        """Send one record; what cannot be sent is dropped."""
        fields = {
            "name": record.name,
            "levelno": record.levelno,
            "levelname": record.levelname,
            "msg": without_secrets(record.getMessage(), self._secrets),
            "created": record.created,
            "process": record.process,
            "threadName": record.threadName,
            "exc_text": without_secrets(trace_of(record), self._secrets) or None,
            "once": getattr(record, "once", None),
            **self._fields,
            **place_of(record),
        }
        line = json.dumps(fields, default=str).encode()
        if len(line) < _LINE_MAX:
            self._send(line + b"\n")

    def close(self) -> None:
        """Let go of the connection."""
        if self._socket is not None and self._pid == os.getpid():
            self._socket.close()
        self._socket = None
        super().close()

    def _send(self, line: bytes) -> None:
        if time.monotonic() < self._silent_until:
            return
        for _ in range(2):  # the connection may be one of a driver that was
            try:
                if self._socket is None or self._pid != os.getpid():
                    self._socket = _connected(self._address)
                    self._pid = os.getpid()
                self._socket.sendall(line)
            except OSError:
                self._socket = None
            else:
                return
        if TcpAddress.parse(self._address) is not None:
            self._silent_until = time.monotonic() + _AGAIN_S


def _connected(address: str) -> socket.socket:
    tcp = TcpAddress.parse(address)
    if tcp is not None:
        opened = tcp.connect(_SEND_S)
        opened.sendall(tcp.token.encode() + b"\n")
        return opened
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(_SEND_S)
    connection.connect(address)
    return connection


def log_to_driver(address: str, level: str, fields: Mapping[str, object], secrets: Iterable[str]) -> None:
    """Have everything that this worker logs sent to the driver; replaces an earlier call.

    Args:
        address: of the driver's relay; empty: logging is left as it is.
        level: the least level.
        fields: see RelayHandler; of `core.logs.FIELDS`.
        secrets: see RelayHandler.
    """
    if not address:
        return
    assert fields.keys() <= set(FIELDS)
    root = logging.getLogger()
    for old in [handler for handler in root.handlers if isinstance(handler, RelayHandler)]:
        root.removeHandler(old)
        old.close()
    root.addHandler(RelayHandler(address, fields, secrets))
    set_levels(level)
