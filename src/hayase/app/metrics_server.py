"""`/metrics` for Prometheus, `/health` and `/ready` for whoever watches the process. Off unless `metrics.port` is set."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import logging
import socket
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hayase.app.report import ProgressReport
from hayase.app.states import State
from hayase.core.errors import ConfigError
from hayase.core.registry import MetricName, Value

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

PREFIX = "kafka_streams_"
"""Samples are called as the JMX exporter calls Kafka Streams' own, so that dashboards for those can be used."""

REQUEST_S = 10.0
"""How long a request may take, from the connection to its last byte."""
CONNECTIONS_MAX = 16
"""So many are answered at once; more are refused."""
_TOO_MANY = b"HTTP/1.0 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
_POLL_S = 0.1  # how long closing may wait
_LOG = logging.getLogger("hayase.app")

Snapshot = Callable[[], dict[MetricName, Value]]


class MetricsServer:
    """Serves until `close`, in threads of its own.

    Args:
        host, port: where to listen; port 0 is any that is free.
        application_id: label of all samples.
        metrics: gives the metrics at the time of the call.
        report: gives the state at the time of the call.
        allowed_hosts: names by which the server may be asked, besides addresses, `localhost` and the machine's name.

    Raises:
        ConfigError: PORT_NOT_AVAILABLE.
    """

    def __init__(
        self,
        host: str,
        port: int,
        application_id: str,
        metrics: Snapshot,
        report: Callable[[], ProgressReport],
        allowed_hosts: Collection[str] = (),
    ) -> None:
        registry = CollectorRegistry()
        registry.register(_StreamsCollector(application_id, metrics))
        self._metrics_app = make_wsgi_app(registry)
        self._report = report
        try:
            self._server = make_server(host, port, self._answer, _Server, _QuietHandler)
        except OSError as error:
            raise ConfigError(
                "PORT_NOT_AVAILABLE",
                f"metrics can not be served at {host}:{port}: {error.strerror or error}; set metrics.port to another one (0: any "
                "that is free), or metrics.host to an address of this machine",
                setting="metrics.port",
            ) from error
        self._host = host
        self._allowed_hosts = allowed_hosts
        threading.Thread(target=self._server.serve_forever, args=(_POLL_S,), name="hayase-metrics", daemon=True).start()

    @property
    def url(self) -> str:
        """Where the metrics are."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._server.server_port}/metrics"

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "/")
        if not is_allowed_host(environ.get("HTTP_HOST"), self._allowed_hosts):
            return _json(
                start_response, "421 Misdirected Request", {"error": "no host of that name; see metrics.allowed.hosts"}
            )
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return _json(start_response, "405 Method Not Allowed", {"error": "only GET is answered"})
        if path == "/metrics":
            answer: Iterable[bytes] = self._metrics_app(environ, start_response)
            return answer
        if path in ("/health", "/ready"):
            report = self._report()
            good = _healthy(report) if path == "/health" else _ready(report)
            body = {"state": report.state.value, "paused": report.paused, "waiting": report.waiting}
            return _json(start_response, "200 OK" if good else "503 Service Unavailable", body)
        return _json(start_response, "404 Not Found", {"error": "there are /metrics, /health and /ready"})


def _healthy(report: ProgressReport) -> bool:
    """Alive: a restart would not help."""
    return report.state not in (State.ERROR, State.PENDING_ERROR, State.NOT_RUNNING)


def _ready(report: ProgressReport) -> bool:
    """At work, paused or not, and its topics can be reached."""
    return report.state is State.RUNNING and not report.waiting


def _json(start_response: StartResponse, status: str, body: dict[str, Any]) -> list[bytes]:
    data = json.dumps(body).encode() + b"\n"
    start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(data)))])
    return [data]


class _StreamsCollector(Collector):
    """The application's metrics as Prometheus families; strings become labels of a sample whose value is 1."""

    def __init__(self, application_id: str, metrics: Snapshot) -> None:
        self._application_id = application_id
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """One family per group and name."""
        families: dict[str, Metric] = {}
        for name, value in self._metrics().items():
            key = family_name(name)
            labels = {"application_id": self._application_id, **{_label(tag): text for tag, text in name.tags}}
            if isinstance(value, str):
                labels, value = {**labels, _label(name.name): value}, 1
            if key not in families:
                kind = CounterMetricFamily if name.name.endswith("-total") else GaugeMetricFamily
                families[key] = kind(key.removesuffix("_total"), name.description or name.name)
            sample = key if name.name.endswith("-total") else families[key].name
            families[key].add_sample(sample, labels, value)
        yield from families.values()


def family_name(name: MetricName) -> str:
    """What Prometheus calls a metric.

    Example:
        >>> family_name(MetricName("stream-task-metrics", "process-total"))
        'kafka_streams_stream_task_metrics_process_total'
    """
    return PREFIX + _label(f"{name.group}-{name.name}")


def _label(text: str) -> str:
    return text.replace("-", "_").replace(".", "_")


class _Server(ThreadingMixIn, WSGIServer):
    """One thread a connection, few of them, each for a few seconds."""

    daemon_threads = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._free = threading.BoundedSemaphore(CONNECTIONS_MAX)
        super().__init__(*args, **kwargs)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Take the connection, or refuse it at once if there are too many."""
        if not self._free.acquire(blocking=False):
            with contextlib.suppress(OSError):
                request.settimeout(_POLL_S)
                request.sendall(_TOO_MANY)
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, within the time there is: a client that sends a byte now and then does not keep the thread."""
        ended = threading.Timer(REQUEST_S, _cut_off, (request,))
        ended.daemon = True
        ended.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            ended.cancel()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away, or is cut off, is no error of ours."""
        _LOG.debug("a request for metrics from %s was not answered", client_address, exc_info=True)


def _cut_off(request: socket.socket) -> None:
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class _QuietHandler(WSGIRequestHandler):
    """Requests are no news; and nobody waits for the name of who asks."""

    timeout = REQUEST_S

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Nothing."""

    def address_string(self) -> str:
        """The address, not looked up."""
        return str(self.client_address[0])


def is_allowed_host(header: str | None, allowed: Collection[str]) -> bool:
    """Whether a request is meant for this server: by address, or by a name that it has.

    A page in a browser can have its own name lead to this address (DNS rebinding); its requests carry that name.

    Example:
        >>> [
        ...     is_allowed_host(host, {"metrics.example"})
        ...     for host in ("127.0.0.1:9464", "metrics.example", "evil.example")
        ... ]
        [True, True, False]
    """
    if not header:
        return True  # HTTP/1.0, which no browser speaks
    try:
        name = urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name in {"localhost", socket.gethostname().lower(), *(each.lower() for each in allowed)}
    return True
