"""An HTTP server in a thread of its own, with an event loop."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable
from typing import Any

from starlette.types import ASGIApp

_LOG = logging.getLogger(__name__)
_STOP_S = 10.0


class HttpThread:
    """Serves an application on a socket; hypercorn has a type of its own for applications.

    Args:
        bound: bound to its address; the server takes it.
        name: of the thread.
        tls: files of a certificate and its key; `None`: plain HTTP.
    """

    def __init__(self, bound: socket.socket, name: str, *, tls: tuple[str, str | None] | None = None) -> None:
        host, port = bound.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        self.url = f"{'http' if tls is None else 'https'}://{shown}:{port}"
        """Where it answers."""
        self._socket = bound
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._name = name
        self._thread: threading.Thread | None = None

    def start(self, app: ASGIApp) -> None:
        """Begin to answer for an application; a connection that comes a moment earlier waits."""
        self._socket.listen()
        self._thread = threading.Thread(target=self._run, args=(app,), name=self._name, daemon=True)
        self._thread.start()

    def call(self, work: Callable[[], object]) -> None:
        """Do something in the event loop; nothing where it has ended."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(work)

    def close(self) -> None:
        """Stop answering."""
        if self._thread is None:
            self._socket.close()
        elif self._thread.is_alive():
            self.call(self._ended.set)
            self._thread.join(_STOP_S)

    def _run(self, app: Any) -> None:
        from hypercorn.asyncio import serve
        from hypercorn.config import Config

        settings = Config()
        settings.accesslog = None
        settings.errorlog = _LOG
        settings.loglevel = "WARNING"
        settings.graceful_timeout = 1.0
        settings.read_timeout = 30
        settings.include_server_header = False
        settings.bind = [f"fd://{self._socket.detach()}"]
        if self._tls is not None:
            settings.certfile, settings.keyfile = self._tls
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(serve(app, settings, shutdown_trigger=self._ended.wait))
        finally:
            self._loop.close()
