"""Serving: the server's application behind an HTTP listener, until it is asked to stop."""

from __future__ import annotations

import socket
from types import TracebackType

from starlette.types import ASGIApp

from hayase.core.asgi_thread import AsgiThread, TlsFiles
from hayase.core.errors import ConfigError, HayaseError
from hayase.server.context import ServerContext
from hayase.server.http.app import make_app
from hayase.server.settings import ServerSettings

_GRACE_S = 30.0
"""For requests at work when the server stops."""
_THREADS = 32
"""For what waits for the log or reads state: scans, inserts, the starts and ends of queries."""


class HttpServer:
    """Serves an application in a thread of its own: HTTP/1.1, HTTP/2 with and without TLS, WebSocket, on one port.

    Args:
        app: the ASGI application.
        settings: where it listens, and the files of TLS.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self.url = settings.listener.url
        self._app = app
        self._settings = settings
        self._thread: AsgiThread | None = None

    def start(self) -> None:
        """Listen; returns once connections are taken.

        Raises:
            ConfigError: `PORT_IN_USE`: the address cannot be listened at.
            HayaseError: the server does not start.
        """
        settings = self._settings
        tls = None
        if settings.tls_certificate is not None:
            tls = TlsFiles(settings.tls_certificate, settings.tls_key, settings.tls_client_ca)
        bound = _bound(settings.listener.host, settings.listener.port)
        thread = AsgiThread(bound, "hayase-http", tls=tls, threads=_THREADS, grace_s=_GRACE_S)
        try:
            thread.start(self._app)
        except Exception as error:
            thread.close()
            raise HayaseError("SERVER_NOT_STARTED", f"the server cannot listen at {self.url}: {error}") from error
        self._thread = thread

    def stop(self) -> None:
        """Stop listening; requests at work end. Calling it again does nothing."""
        if self._thread is not None:
            self._thread.close()

    def __enter__(self) -> HttpServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def serve(context: ServerContext) -> HttpServer:
    """Begin to serve a server's interface; `stop` ends that, and not the server.

    Raises:
        HayaseError: as `HttpServer.start`.
    """
    server = HttpServer(make_app(context), context.settings)
    server.start()
    return server


def _bound(host: str, port: int) -> socket.socket:
    """A socket at an address that no other server has."""
    bound = None
    try:
        bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        return bound
    except OSError as error:
        if bound is not None:
            bound.close()
        raise ConfigError(
            "PORT_IN_USE", f"the server cannot listen at {host}:{port}: {error}. Set listeners to another address"
        ) from error
