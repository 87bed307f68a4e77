"""Serving: the server's application behind an HTTP listener, until it is asked to stop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

from granian.constants import Interfaces
from granian.server.embed import Server
from starlette.types import ASGIApp

from hayase.core.errors import ConfigError, HayaseError
from hayase.server.context import ServerContext
from hayase.server.http.app import make_app
from hayase.server.settings import ServerSettings

_START_S = 30.0
_POLL_S = 0.02
_THREADS = 32
"""For what waits for the log or reads state: scans, inserts, the starts and ends of queries."""


class HttpServer:
    """Serves an application in a thread of its own: HTTP/1.1, HTTP/2 with and without TLS, WebSocket, on one port.

    Args:
        app: the ASGI application.
        settings: where it listens, and the files of TLS.

    Raises:
        ConfigError: `PORT_IN_USE`.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self.url = settings.listener.url
        self._app = app
        self._settings = settings
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: Server | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="hayase-http", daemon=True)

    def start(self) -> None:
        """Listen; returns once requests are answered.

        Raises:
            ConfigError: `PORT_IN_USE`: the address cannot be listened at.
            HayaseError: the server does not start.
        """
        listener = self._settings.listener
        _check_free(listener.host, listener.port)
        self._thread.start()
        for _ in range(int(_START_S / _POLL_S)):
            if self._error is not None:
                raise HayaseError("SERVER_NOT_STARTED", f"the server cannot listen at {self.url}: {self._error}")
            with contextlib.suppress(OSError), socket.create_connection((listener.host, listener.port), timeout=1):
                return
            threading.Event().wait(_POLL_S)
        raise HayaseError("SERVER_NOT_STARTED", f"nothing answers at {self.url} after {_START_S:.0f} s")

    def stop(self) -> None:
        """Stop listening; requests at work end. Calling it again does nothing."""
        loop, server = self._loop, self._server
        if loop is not None and server is not None and loop.is_running():
            loop.call_soon_threadsafe(server.stop)
        if self._thread.is_alive():
            self._thread.join(_START_S)

    def __enter__(self) -> HttpServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._error = error

    async def _serve(self) -> None:
        settings = self._settings
        listener = settings.listener
        self._loop = asyncio.get_running_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(_THREADS, "hayase-request"))
        self._server = Server(
            self._app,
            address=listener.host,
            port=listener.port,
            interface=Interfaces.ASGINL,
            log_enabled=False,
            ssl_cert=settings.tls_certificate,
            ssl_key=settings.tls_key,
            ssl_ca=settings.tls_client_ca,
            ssl_client_verify=settings.tls_client_ca is not None,
        )
        await self._server.serve()


def serve(context: ServerContext) -> HttpServer:
    """Begin to serve a server's interface; `stop` ends that, and not the server.

    Raises:
        HayaseError: as `HttpServer.start`.
    """
    server = HttpServer(make_app(context), context.settings)
    server.start()
    return server


def _check_free(host: str, port: int) -> None:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        raise ConfigError(
            "PORT_IN_USE", f"the server cannot listen at {host}:{port}: {error}. Set listeners to another address"
        ) from error
