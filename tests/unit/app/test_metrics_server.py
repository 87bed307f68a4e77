"""`/metrics`, `/health` and `/ready`, asked for over HTTP on loopback."""

from __future__ import annotations

import contextlib
import json
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from hayase import State
from hayase.app.metrics_server import CONNECTIONS_MAX, MetricsServer
from hayase.app.report import ProgressReport
from hayase.core.errors import ConfigError
from hayase.core.registry import MetricsRegistry

REPORT = ProgressReport(State.RUNNING, 3, 2, 100, 40, 1, 2, 1, 7)


class App:
    """Stands for an application: metrics and a state."""

    def __init__(self) -> None:
        self.report = REPORT
        self.registry = MetricsRegistry(lambda: 0)
        self.registry.count("stream-task-metrics", "process", (("task-id", "0_0"),), 5, "records processed")
        self.registry.gauge("stream-metrics", "state", (), lambda: 'RUN"NING\n', "the state")


@pytest.fixture
def app() -> App:
    return App()


@pytest.fixture
def ask(app: App) -> Iterator[Callable[..., tuple[int, str]]]:
    server = MetricsServer("127.0.0.1", 0, "shop", app.registry.snapshot, lambda: app.report)

    def get(path: str, method: str = "GET") -> tuple[int, str]:
        request = urllib.request.Request(server.url.replace("/metrics", path), method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    yield get
    server.close()


def test_metrics_are_in_prometheus_text_under_the_names_the_jmx_exporter_gives(
    ask: Callable[..., tuple[int, str]],
) -> None:
    status, text = ask("/metrics")
    assert status == 200
    assert 'kafka_streams_stream_task_metrics_process_total{application_id="shop",task_id="0_0"} 5.0' in text
    assert "# TYPE kafka_streams_stream_task_metrics_process_total counter" in text
    assert "# TYPE kafka_streams_stream_task_metrics_process_rate gauge" in text
    assert 'kafka_streams_stream_metrics_state{application_id="shop",state="RUN\\"NING\\n"} 1.0' in text


def test_prometheus_own_parser_understands_it(ask: Callable[..., tuple[int, str]]) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    samples = [sample for family in text_string_to_metric_families(ask("/metrics")[1]) for sample in family.samples]
    assert {sample.labels["application_id"] for sample in samples} == {"shop"}


@pytest.mark.parametrize(
    ("state", "waiting", "health", "ready"),
    [
        (State.REBALANCING, "", 200, 503),
        (State.RUNNING, "", 200, 200),
        (State.RUNNING, "no answer from the brokers", 200, 503),
        (State.ERROR, "", 503, 503),
        (State.NOT_RUNNING, "", 503, 503),
    ],
)
def test_health_and_readiness_follow_the_state(
    app: App, ask: Callable[..., tuple[int, str]], state: State, waiting: str, health: int, ready: int
) -> None:
    app.report = replace(REPORT, state=state, waiting=waiting)
    assert ask("/health")[0] == health
    status, text = ask("/ready")
    assert status == ready
    assert json.loads(text) == {"state": state.value, "paused": False, "waiting": waiting}


def test_other_paths_and_methods_are_refused(ask: Callable[..., tuple[int, str]]) -> None:
    assert ask("/")[0] == 404
    assert ask("/metrics", "POST")[0] == 405


def test_a_port_that_is_taken_is_named_in_the_error(app: App) -> None:
    server = MetricsServer("127.0.0.1", 0, "shop", app.registry.snapshot, lambda: app.report)
    port = int(server.url.split(":")[2].split("/")[0])
    with pytest.raises(ConfigError, match=str(port)) as refused:
        MetricsServer("127.0.0.1", port, "shop", app.registry.snapshot, lambda: app.report)
    server.close()
    assert refused.value.condition == "PORT_NOT_AVAILABLE"


def raw(url: str, request: bytes) -> bytes:
    """What the server answers to bytes."""
    place = urllib.parse.urlsplit(url)
    with socket.create_connection((place.hostname, place.port), timeout=30) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(4096), b""))


@pytest.fixture
def server(app: App) -> Iterator[MetricsServer]:
    made = MetricsServer("127.0.0.1", 0, "shop", app.registry.snapshot, lambda: app.report, ["metrics.example"])
    yield made
    made.close()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", b"200"),
        ("[::1]:9464", b"200"),
        ("localhost:1", b"200"),
        ("Metrics.Example", b"200"),
        ("evil.example", b"421"),
        ("x@[", b"421"),
    ],
)
def test_a_request_for_another_host_is_refused(server: MetricsServer, host: str, status: bytes) -> None:
    answer = raw(server.url, b"GET /health HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % host.encode())
    assert answer.split()[1] == status


def test_clients_that_never_finish_their_request_are_cut_off(
    server: MetricsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hayase.app.metrics_server.REQUEST_S", 0.3)
    place = urllib.parse.urlsplit(server.url)
    began = time.monotonic()
    with socket.create_connection((place.hostname, place.port), timeout=30) as slow:
        with contextlib.suppress(OSError):
            while time.monotonic() - began < 20:
                slow.sendall(b"G")
                time.sleep(0.05)
        assert time.monotonic() - began < 10


def test_more_connections_than_there_may_be_are_refused_and_later_ones_are_answered(server: MetricsServer) -> None:
    place = urllib.parse.urlsplit(server.url)
    idle = [socket.create_connection((place.hostname, place.port)) for _ in range(CONNECTIONS_MAX)]
    deadline = time.monotonic() + 20
    while b"503" not in raw(server.url, b"GET /health HTTP/1.0\r\n\r\n"):
        assert time.monotonic() < deadline
    for connection in idle:
        connection.close()
    while b"200" not in raw(server.url, b"GET /health HTTP/1.0\r\n\r\n"):
        assert time.monotonic() < deadline
