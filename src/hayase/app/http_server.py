"""An HTTP server for answers that every program of a network may ask for, and that no client can hold up.

A request is a head of bounded length, and has a bounded time from the first byte to the end of its answer. The
number of open connections is bounded: at the bound, the one that has been asking for longest is closed for the next.
"""

from __future__ import annotations

import contextlib
import io
import ipaddress
import logging
import socket
import threading
import time
from collections.abc import Collection
from http import HTTPStatus
from socketserver import TCPServer, ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

_LOG = logging.getLogger(__name__)

HEAD_MAX = 16 << 10
"""Bytes of a request's first line and headers."""
REQUEST_S = 10.0
"""How long a connection may last."""
CONNECTIONS_MAX = 32
POLL_S = 0.1
"""How often it is looked whether a connection has lasted too long; also how long closing may take."""

_WILDCARDS = ("", "0.0.0.0", "::")


class BoundedServer(ThreadingMixIn, WSGIServer):
    """A WSGI server with a thread for each connection, and limits. `serve_forever` enforces them."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = CONNECTIONS_MAX

    def __init__(self, address: tuple[str, int], handler: type[WSGIRequestHandler]) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        self._lock = threading.RLock()
        self._connections: dict[
            socket.socket, tuple[float, bool]
        ] = {}  # when it is over, and whether it is asking still
        super().__init__(address, handler)

    def server_bind(self) -> None:
        """Without the look-up of the host's name that `http.server` makes: it may take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def process_request(self, request: Any, client_address: object) -> None:
        """Take a connection, or close it at once if there are too many and none can be closed for it."""
        with self._lock:
            if len(self._connections) >= CONNECTIONS_MAX:
                asking = next((each for each, (_, asks) in self._connections.items() if asks), None)
                if asking is None:
                    self.shutdown_request(request)
                    return
                self._end(asking)
                del self._connections[asking]
            self._connections[request] = (time.monotonic() + REQUEST_S, True)
        request.settimeout(REQUEST_S)
        super().process_request(request, client_address)

    def has_asked(self, request: object) -> None:
        """The head of the request has been read: it is not closed for another one any more."""
        with self._lock:
            if request in self._connections:
                self._connections[request] = (self._connections[request][0], False)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection that was answered."""
        with self._lock:
            self._connections.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """End connections that have lasted too long."""
        with self._lock:
            now = time.monotonic()
            for request in [each for each, (deadline, _) in self._connections.items() if deadline < now]:
                self._end(request)
                del self._connections[request]

    def server_close(self) -> None:
        """Stop listening, and end the connections that are open."""
        super().server_close()
        with self._lock:
            for request in self._connections:
                self._end(request)
            self._connections.clear()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away in the middle is no news."""
        _LOG.debug("a request was not answered", exc_info=True)

    def _end(self, request: socket.socket) -> None:
        """Wake its thread, which closes it."""
        with contextlib.suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)


class BoundedHandler(WSGIRequestHandler):
    """Reads the head of a request as a whole, and no body. Requests are not logged, and addresses not looked up."""

    server: BoundedServer

    def handle(self) -> None:
        """One request."""
        head = self._head()
        if head is None:
            self.requestline, self.command, self.request_version = "", "", "HTTP/1.0"
            self.send_error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        elif head:
            self.server.has_asked(self.connection)
            self.rfile = io.BytesIO(head)
            super().handle()

    def _head(self) -> bytes | None:
        """First line and headers; empty if the client went away before their end, `None` if they are too long."""
        lines = bytearray()
        while len(lines) < HEAD_MAX:
            line = self.rfile.readline(HEAD_MAX - len(lines))
            if not line:
                return b""
            lines += line
            if line in (b"\r\n", b"\n"):
                return bytes(lines)
        return None

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing."""

    def address_string(self) -> str:
        """The address, not looked up."""
        return str(self.client_address[0])


def is_allowed_host(given: str, bound: str, allowed: Collection[str]) -> bool:
    """Whether a request's `Host` names this server: else it may be a web page whose name was made to lead here.

    Args:
        given: the header.
        bound: the name or address that the server listens at.
        allowed: further names; `*` is any.

    Example:
        >>> is_allowed_host("127.0.0.1:8080", "127.0.0.1", ()), is_allowed_host("evil.example", "127.0.0.1", ())
        (True, False)
        >>> (
        ...     is_allowed_host("10.0.0.7:8080", "0.0.0.0", ()),
        ...     is_allowed_host("metrics.shop", "0.0.0.0", ("metrics.shop",)),
        ... )
        (True, True)
    """
    host = given.strip().lower()
    host = host[1:].partition("]")[0] if host.startswith("[") else host.rpartition(":")[0] or host
    if "*" in allowed or host in allowed or host == bound.lower():
        return True
    everywhere = bound in _WILDCARDS
    here = _address(bound)
    if host == "localhost" and (everywhere or bound == "localhost" or (here is not None and here.is_loopback)):
        return True
    address = _address(host)
    if address is not None:  # no web page has an address of this machine for its name
        return everywhere or address == here or (bound == "localhost" and address.is_loopback)
    return host == socket.gethostname().lower() and not (here is not None and here.is_loopback)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
