"""The HTTP server of the REST interface: a thread with an event loop."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from hayase.connect.config.worker_config import WorkerConfig
from hayase.connect.herder.herder import Herder
from hayase.connect.rest.guard import Guard, loopback_hosts, read_users
from hayase.connect.rest.requests import error_answer
from hayase.connect.rest.routes import routes
from hayase.core.errors import ConfigError

_LOG = logging.getLogger(__name__)
_START_S = 30.0
_STOP_S = 10.0
_PHRASES = {404: "Not Found", 405: "Method Not Allowed"}


@dataclass(frozen=True, slots=True)
class Listener:
    """Where the server listens.

    Example:
        >>> Listener.parse("http://127.0.0.1:8083")
        Listener(host='127.0.0.1', port=8083, tls=False)
    """

    host: str
    port: int
    tls: bool

    @classmethod
    def parse(cls, text: str) -> Listener:
        """The listener that a text of `listeners` names."""
        url = urlsplit(text)
        if url.scheme.lower() not in ("http", "https") or url.port is None:
            raise ConfigError(
                "INVALID_SETTING", f"listeners has {text!r}; each is http://HOST:PORT or https://HOST:PORT",
                setting="listeners",
            )  # fmt: skip
        return cls(url.hostname or "0.0.0.0", url.port, url.scheme.lower() == "https")

    def bound(self) -> socket.socket:
        """A socket that listens there."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        bound = socket.socket(family, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((self.host, self.port))
        except OSError as error:
            bound.close()
            raise ConfigError(
                "ADDRESS_IN_USE", f"cannot listen on {self.host}:{self.port}: {error.strerror}", setting="listeners"
            ) from error
        return bound


def rest_app(herder: Herder, config: WorkerConfig, root: Callable[[], dict[str, object]]) -> Guard:
    """The application behind the server."""
    app = Starlette(
        routes=routes(herder, root, config.int("rest.request.max.bytes")),
        exception_handlers={HTTPException: _http_error},
    )
    app.router.redirect_slashes = False
    hosts = [Listener.parse(each).host for each in config.list("listeners")]
    users = read_users(config.optional_string("rest.basic.auth.file"))
    names = loopback_hosts(hosts)
    if not names and not users:
        _LOG.warning(
            "the REST interface listens on %s without a password: any client that reaches it can read and write what "
            "connectors can; set rest.basic.auth.file",
            ", ".join(hosts),
        )
    return Guard(app, users, names)


async def _http_error(request: Request, error: Exception) -> Response:
    del request
    assert isinstance(error, HTTPException)
    return error_answer(error.status_code, f"HTTP {error.status_code} {_PHRASES.get(error.status_code, error.detail)}")


class RestServer:
    """Serves an application on the listeners of a worker.

    Args:
        app: the application.
        config: of the worker.
        sockets: bound, one for each listener.
    """

    def __init__(self, app: Guard, config: WorkerConfig, sockets: Sequence[socket.socket]) -> None:
        self._app = app
        self._config = config
        self._sockets = list(sockets)
        self._listeners = [Listener.parse(each) for each in config.list("listeners")]
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="connect-rest", daemon=True)

    def start(self) -> None:
        """Begin to answer; a connection that comes earlier waits."""
        self._thread.start()

    def close(self) -> None:
        """Stop answering."""
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(_STOP_S)

    def _run(self) -> None:
        from hypercorn.asyncio import serve
        from hypercorn.config import Config

        settings = Config()
        settings.accesslog = None
        settings.errorlog = _LOG
        settings.graceful_timeout = 1.0
        settings.read_timeout = 30
        settings.include_server_header = False
        plain = [each for each, listener in zip(self._sockets, self._listeners, strict=True) if not listener.tls]
        secure = [each for each, listener in zip(self._sockets, self._listeners, strict=True) if listener.tls]
        if secure:
            settings.certfile = self._config.optional_string("ssl.certificate")
            settings.keyfile = self._config.optional_string("ssl.key")
            settings.bind = [f"fd://{each.detach()}" for each in secure]
            settings.insecure_bind = [f"fd://{each.detach()}" for each in plain]
        else:
            settings.bind = [f"fd://{each.detach()}" for each in plain]
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(
                serve(self._app, settings, shutdown_trigger=self._ended.wait)  # type: ignore[arg-type] # its own type of ASGI applications
            )
        finally:
            self._loop.close()


def check_tls(config: WorkerConfig) -> None:
    """Whether https listeners have a certificate."""
    listeners = [Listener.parse(each) for each in config.list("listeners")]
    if any(each.tls for each in listeners) and config.optional_string("ssl.certificate") is None:
        raise ConfigError(
            "MISSING_SETTING", "listeners has https, which needs ssl.certificate and ssl.key (PEM files)",
            setting="ssl.certificate",
        )  # fmt: skip
