"""A server that the shell has for itself."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from hayase.server.context import ServerContext
from hayase.server.http.app import make_app
from hayase.server.server import open_server
from hayase.server.serving import HttpServer
from hayase.server.settings import ServerSettings

_LOOPBACK = "127.0.0.1"


class EmbeddedServer:
    """A server in this process, on loopback, whose queries run without Spark; they go on at the next start.

    Args:
        settings: as for `hayase server`.

    Raises:
        HayaseError: the server cannot start: another one of the same service id runs, the log cannot be opened.
    """

    def __init__(self, settings: Mapping[str, object]) -> None:
        self.url = f"http://{_LOOPBACK}:{_free_port()}"
        given = {**settings, "listeners": self.url, "hayase.server.in.process": "true"}
        checked = ServerSettings.of(given)
        self._context: ServerContext = open_server(checked)
        self._http = HttpServer(make_app(self._context), checked)
        try:
            self._http.start()
        except BaseException:
            self._context.close()
            raise

    def close(self) -> None:
        """End the server."""
        self._context.push_queries.close_all()
        self._http.stop()
        self._context.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port
