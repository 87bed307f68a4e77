"""The HTTP server of the REST interface: a thread with an event loop."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from hayase.connect.config.worker_config import WorkerConfig
from hayase.connect.herder.herder import Herder
from hayase.connect.rest.guard import Guard, loopback_hosts, read_users
from hayase.connect.rest.metrics import metrics_route
from hayase.connect.rest.requests import error_answer
from hayase.connect.rest.routes import routes
from hayase.connect.rest.webhooks import Webhooks
from hayase.core.asgi_thread import AsgiThread, TlsFiles
from hayase.core.errors import ConfigError

_LOG = logging.getLogger(__name__)
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
    max_bytes = config.int("rest.request.max.bytes")
    webhooks = Webhooks(herder, max_bytes)
    app = Starlette(
        routes=[*routes(herder, root, max_bytes), metrics_route(herder), *webhooks.routes()],
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
    return Guard(app, users, names, webhooks.checks_signatures)


async def _http_error(request: Request, error: Exception) -> Response:
    del request
    assert isinstance(error, HTTPException)
    return error_answer(error.status_code, f"HTTP {error.status_code} {_PHRASES.get(error.status_code, error.detail)}")


class RestServer:
    """Serves an application on the listeners of a worker.

    Args:
        config: of the worker.
    """

    def __init__(self, config: WorkerConfig) -> None:
        certificate, key = config.optional_string("ssl.certificate"), config.optional_string("ssl.key")
        tls = None if certificate is None else TlsFiles(certificate, key)
        listeners = [Listener.parse(each) for each in config.list("listeners")]
        self._threads = [
            AsgiThread(each.bound(), f"connect-rest-{number}", tls=tls if each.tls else None)
            for number, each in enumerate(listeners)
        ]

    @property
    def urls(self) -> list[str]:
        """Where it answers."""
        return [each.url for each in self._threads]

    def start(self, app: Guard) -> None:
        """Begin to answer."""
        for each in self._threads:
            each.start(app)

    def close(self) -> None:
        """Stop answering."""
        for each in self._threads:
            each.close()


def check_tls(config: WorkerConfig) -> None:
    """Whether https listeners have a certificate."""
    listeners = [Listener.parse(each) for each in config.list("listeners")]
    if any(each.tls for each in listeners) and config.optional_string("ssl.certificate") is None:
        raise ConfigError(
            "MISSING_SETTING", "listeners has https, which needs ssl.certificate and ssl.key (PEM files)",
            setting="ssl.certificate",
        )  # fmt: skip
