"""`/metrics` for Prometheus; `/health`, `/healthcheck` and `/ready` for what watches. Off without `metrics.port`."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hayase.app.http_server import POLL_S, BoundedHandler, BoundedServer, is_allowed_host
from hayase.app.report import ProgressReport
from hayase.app.states import State
from hayase.core.errors import ConfigError
from hayase.core.metrics_registry import MetricName, Value

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

PREFIX = "kafka_streams_"
"""Samples are called as the JMX exporter calls Kafka Streams' own, so that dashboards for those can be used."""

Snapshot = Callable[[], dict[MetricName, Value]]


class MetricsServer:
    """Serves until `close`, in threads of its own.

    Args:
        host, port: where to listen; port 0 is any that is free.
        application_id: label of all samples.
        metrics: gives the metrics at the time of the call.
        report: gives the state at the time of the call.
        allowed_hosts: further names under which it may be asked; see `metrics.allowed.hosts`.

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
            self._server = BoundedServer((host, port), BoundedHandler)
        except OSError as error:
            raise ConfigError(
                "PORT_NOT_AVAILABLE",
                f"metrics cannot be served at {host}:{port}: {error.strerror or error}; set metrics.port to another "
                "one (0: any that is free), or metrics.host to an address of this machine",
                setting="metrics.port",
            ) from error
        self._host, self._allowed_hosts = host, allowed_hosts
        self._server.set_app(self._answer)
        threading.Thread(target=self._server.serve_forever, args=(POLL_S,), name="hayase-metrics", daemon=True).start()

    @property
    def url(self) -> str:
        """The URL of the metrics."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._server.server_port}/metrics"

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return _json(start_response, "405 Method Not Allowed", {"error": "only GET and HEAD are answered"})
        host = environ.get("HTTP_HOST")
        if host is None and environ.get("SERVER_PROTOCOL") != "HTTP/1.0":
            return _json(start_response, "400 Bad Request", {"error": "there is no Host header"})
        if host is not None and not is_allowed_host(host, self._host, self._allowed_hosts):
            return _json(
                start_response, "403 Forbidden", {"error": "this name of the host is not in metrics.allowed.hosts"}
            )
        answer = self._page({**environ, "REQUEST_METHOD": "GET"}, start_response)
        return answer if environ["REQUEST_METHOD"] == "GET" else [b"" for _ in answer]

    def _page(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "/")
        if path == "/metrics":
            answer: Iterable[bytes] = self._metrics_app(environ, start_response)
            return answer
        if path in ("/health", "/ready", "/healthcheck"):
            report = self._report()
            if path == "/healthcheck":  # ksqlDB's name, of a server that runs a file of queries
                healthy = _healthy(report)
                details = {"queryHost": {"isHealthy": healthy}}
                status = "200 OK" if healthy else "500 Internal Server Error"
                return _json(start_response, status, {"isHealthy": healthy, "details": details})
            good = _healthy(report) if path == "/health" else _ready(report)
            body = {"state": report.state.value, "paused": report.paused, "waiting": report.waiting}
            return _json(start_response, "200 OK" if good else "503 Service Unavailable", body)
        return _json(start_response, "404 Not Found", {"error": "there are /metrics, /health, /ready and /healthcheck"})


def _healthy(report: ProgressReport) -> bool:
    """Alive: a restart would not help."""
    return report.state not in (State.ERROR, State.PENDING_ERROR, State.NOT_RUNNING)


def _ready(report: ProgressReport) -> bool:
    """At work, paused or not, and its topics can be reached."""
    return report.state is State.RUNNING and not report.waiting


def _json(start_response: StartResponse, status: str, body: Mapping[str, object]) -> list[bytes]:
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
    """The name of a metric in Prometheus.

    Example:
        >>> family_name(MetricName("stream-task-metrics", "process-total"))
        'kafka_streams_stream_task_metrics_process_total'
    """
    return PREFIX + _label(f"{name.group}-{name.name}")


def _label(text: str) -> str:
    return text.replace("-", "_").replace(".", "_")
