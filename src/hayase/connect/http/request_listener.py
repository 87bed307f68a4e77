"""The HTTP side of connectors that take requests: their address, size and signature."""

from __future__ import annotations

import hashlib
import hmac
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType
from hayase.connect.config.validators import at_least, between, matching, non_empty
from hayase.connect.contracts import Props, SourceConnector, SourceTask
from hayase.connect.exceptions import ConnectError
from hayase.connect.request_body import read_body
from hayase.connect.simple_connector import SimpleConnector
from hayase.core.asgi_thread import AsgiThread

Handler = Callable[[Request, bytes], Awaitable[Response]]
"""Answers a request whose body and signature are in order."""
_STAMP_DIGITS_MAX = 12
"""Of a time in seconds; Python refuses to convert much longer ones."""
SignedContent = Callable[[Request, str, str, bytes], bytes]
"""What the signature covers: of a request, its path behind that of the connector, the timestamp, and the body."""


def timestamp_and_body(request: Request, path: str, timestamp: str, body: bytes) -> bytes:
    """The signed content of most webhooks: the timestamp, a dot and the body."""
    return timestamp.encode() + b"." + body


def define_listener(definition: ConfigDef, signed: str = "the timestamp, a dot and the body") -> ConfigDef:
    """Add the keys of a listener to the definition of a connector; gives the definition.

    Args:
        definition: of the connector's own keys.
        signed: what the signature covers, for the documentation.
    """
    return (
        definition
        .define(
            "webhook.host", ConfigType.STRING, "127.0.0.1", non_empty, Importance.MEDIUM,
            "Address on which the connector listens. On a cluster 0.0.0.0, so that the worker reaches it.",
        )
        .define(
            "webhook.port", ConfigType.INT, 0, between(0, 65_535), Importance.MEDIUM,
            "Port on which the connector listens; 0: any that is free, as the worker forwards /webhooks/NAME to it.",
        )
        .define(
            "webhook.path", ConfigType.STRING, "/", matching("/.*", "a path begins with /"), Importance.MEDIUM,
            "Path of the requests.",
        )
        .define(
            "hmac.secret", ConfigType.PASSWORD, None, None, Importance.HIGH,
            "Secret of the signature; without it requests are not signed.",
        )
        .define(
            "hmac.header", ConfigType.STRING, "X-Signature", non_empty, Importance.LOW,
            f"Header of the signature: the HMAC-SHA256, in hexadecimal, of {signed}.",
        )
        .define(
            "hmac.timestamp.header", ConfigType.STRING, "X-Timestamp", non_empty, Importance.LOW,
            "Header of the time of the signature, in seconds since 1970.",
        )
        .define(
            "hmac.tolerance.ms", ConfigType.LONG, 300_000, at_least(1), Importance.LOW,
            "How old a signature may be.",
        )
        .define(
            "queue.max", ConfigType.INT, 1_000, at_least(1), Importance.LOW,
            "How many requests wait for their answers; a further one is answered 429.",
        )
        .define(
            "body.max.bytes", ConfigType.INT, 900_000, at_least(1), Importance.LOW,
            "The largest body, and the largest record; else 413. A record that the topic refuses ends the task: with "
            "headers, it has to fit into max.message.bytes.",
        )
    )  # fmt: skip


class RequestListener:
    """Listens for requests in a thread of its own.

    Args:
        config: with the keys of `define_listener`.
        name: of the connector.
        routes: behind `webhook.path`, as Starlette has them; the empty one is the path itself.
        handler: called in the event loop.
        count_refused: called for a request that is refused.
        signed: what the signature covers.
    """

    def __init__(
        self,
        config: TypedConfig,
        name: str,
        routes: Sequence[str],
        handler: Handler,
        count_refused: Callable[[], None],
        signed: SignedContent = timestamp_and_body,
    ) -> None:
        self._config = config
        self._handler = handler
        self._count_refused = count_refused
        self._signed = signed
        path = config.string("webhook.path")
        paths = [path if not route else f"{path.rstrip('/')}{route}" for route in routes]
        app = Starlette(routes=[Route(each, self._receive, methods=["POST", "PUT"]) for each in paths])
        self._server = AsgiThread(_bound(config), f"webhook-{name}")
        self._server.start(app)
        self.url = f"{self._server.url}{path}"
        """Where it listens."""

    def call(self, work: Callable[[], object]) -> None:
        """Do something in the event loop; nothing where it has ended."""
        self._server.call(work)

    def close(self) -> None:
        """Stop listening; requests at work get no answer."""
        self._server.close()

    def refused(self, status: int, message: str) -> JSONResponse:
        """The answer to a request that is refused."""
        self._count_refused()
        return refusal(status, message)

    async def _receive(self, request: Request) -> Response:
        body = await read_body(request, self._config.int("body.max.bytes"))
        if body is None:
            return self.refused(413, "the body is too large")
        if not self._is_signed(request, body):
            return self.refused(401, "the signature is missing, wrong or too old")
        return await self._handler(request, body)

    def _is_signed(self, request: Request, body: bytes) -> bool:
        secret = self._config.password("hmac.secret")
        if secret is None:
            return True
        stamp = request.headers.get(self._config.string("hmac.timestamp.header"), "")
        given = request.headers.get(self._config.string("hmac.header"), "").removeprefix("sha256=")
        path = request.scope["path"].removeprefix(self._config.string("webhook.path").rstrip("/")) or "/"
        expected = hmac.new(secret.encode(), self._signed(request, path, stamp, body), hashlib.sha256).hexdigest()
        tolerance_s = self._config.int("hmac.tolerance.ms") / 1000
        is_time = stamp.isdecimal() and len(stamp) <= _STAMP_DIGITS_MAX
        fresh = is_time and abs(time.time() - int(stamp)) <= tolerance_s
        return fresh and hmac.compare_digest(given.encode(), expected.encode())


class RequestConnector(SimpleConnector, SourceConnector):
    """A source connector whose one task takes requests."""

    one_task: ClassVar[bool] = True

    def checks_signatures(self, props: Props) -> bool:
        """See `SourceConnector.checks_signatures`: with `hmac.secret` it does."""
        return bool(props.get("hmac.secret"))


class RequestTask(SourceTask):
    """A source task that takes requests: it advertises its address, and counts what it refuses."""

    _listener: RequestListener | None = None

    @property
    def listener(self) -> RequestListener:
        """Of a task that has started."""
        assert self._listener is not None  # start() calls listen()
        return self._listener

    @property
    def url(self) -> str:
        """Where it listens."""
        return self.listener.url

    def listen(
        self,
        config: TypedConfig,
        routes: Sequence[str],
        handler: Handler,
        signed: SignedContent = timestamp_and_body,
    ) -> None:
        """Begin to take requests; see `RequestListener`."""
        self._listener = RequestListener(
            config, self.context.connector, routes, handler, lambda: self.count_as("requests-refused"), signed
        )
        self.context.advertise(self.url)

    def count_as(self, metric: str) -> None:
        """Count one more in a gauge of the task."""
        self.context.metrics[metric] = self.context.metrics.get(metric, 0) + 1

    def stop(self) -> None:
        """See `Task.stop`: requests that are not answered yet get no answer, and may be repeated."""
        if self._listener is not None:
            self._listener.close()


def refusal(status: int, message: str) -> JSONResponse:
    """An answer that says why there is no other."""
    return JSONResponse({"status": "refused", "message": message}, status)


def _bound(config: TypedConfig) -> socket.socket:
    host, port = config.string("webhook.host"), config.int("webhook.port")
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise ConnectError("ADDRESS_IN_USE", f"cannot listen on {host}:{port}: {error.strerror}") from error
    return bound
