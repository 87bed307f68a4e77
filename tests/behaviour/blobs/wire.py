"""A network between client and server on which things go wrong."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from urllib.parse import urlsplit

BUSY = b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Wire:
    """Passes connections on to a server.

    Attributes:
        cut_answers: so many answers (not those to Expect) are cut off before their first byte.
        cut_bodies: so many answers are cut off after their first bytes.
        busy: so many requests are answered with 503 and do not arrive.
        hold_after: of a connection's bytes to the server, no more than so many are passed on.
        held: is set when that happened.
        requests: how many requests were passed on, by method.
    """

    def __init__(self, endpoint: str) -> None:
        parts = urlsplit(endpoint)
        self._target = (parts.hostname or "", parts.port or 0)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.cut_answers = 0
        self.cut_bodies = 0
        self.busy = 0
        self.hold_after: int | None = None
        self.held = threading.Event()
        self.requests: dict[str, int] = {}

    def __enter__(self) -> Wire:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()

    def url(self, folder: str) -> str:
        """A folder of the bucket `data`, over this wire."""
        return f"s3://data/{folder}?endpoint={self.endpoint}"

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.create_connection(self._target)
        threading.Thread(target=self._answers, args=(server, client), daemon=True).start()
        passed = 0
        while data := _receive(client):
            method = data.split(b" ", 1)[0]
            if method in (b"PUT", b"GET", b"HEAD", b"DELETE", b"POST"):
                if self.busy > 0:
                    self.busy -= 1
                    client.sendall(BUSY)
                    break
                self.requests[method.decode()] = self.requests.get(method.decode(), 0) + 1
            if self.hold_after is not None and passed + len(data) > self.hold_after:
                self.held.set()
                continue
            passed += len(data)
            try:
                server.sendall(data)
            except OSError:
                break
        _close(server)

    def _answers(self, server: socket.socket, client: socket.socket) -> None:
        while data := _receive(server):
            if not data.startswith(b"HTTP/1.1 100"):
                if self.cut_answers > 0:
                    self.cut_answers -= 1
                    break
                if self.cut_bodies > 0:
                    self.cut_bodies -= 1
                    client.sendall(data[: len(data) // 2])
                    break
            try:
                client.sendall(data)
            except OSError:
                break
        _close(client)
        _close(server)


def _receive(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1 << 16)
    except OSError:
        return b""


def _close(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
