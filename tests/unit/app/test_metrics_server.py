"""`/metrics`, `/health` and `/ready`, asked for over HTTP on loopback."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from hayase import State
from hayase.app import http_server
from hayase.app.metrics_server import MetricsServer
from hayase.app.report import ProgressReport
from hayase.core.errors import ConfigError
from hayase.core.metrics_registry import MetricsRegistry

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
    status, text = ask("/healthcheck")
    assert (status == 200) is json.loads(text)["isHealthy"] is (health == 200)


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


@pytest.fixture
def port(app: App) -> Iterator[int]:
    server = MetricsServer("127.0.0.1", 0, "shop", app.registry.snapshot, lambda: app.report, ("metrics.shop",))
    yield int(server.url.rpartition(":")[2].partition("/")[0])
    server.close()


def said(port: int, request: bytes) -> bytes:
    """What a server answers until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        connection.sendall(request)
        answer = b""
        try:
            while data := connection.recv(65536):
                answer += data
        except ConnectionResetError:  # it did not read all that was said
            pass
    return answer


@pytest.mark.parametrize("host", [b"127.0.0.1", b"127.0.0.1:80", b"localhost", b"LOCALHOST:9", b"metrics.shop:1"])
def test_a_request_under_a_name_of_the_server_is_answered(port: int, host: bytes) -> None:
    assert said(port, b"GET /health HTTP/1.1\r\nHost: " + host + b"\r\n\r\n").startswith(b"HTTP/1.0 200")


@pytest.mark.long
@pytest.mark.parametrize(
    "host", [b"evil.example", b"evil.example:80", b"10.1.2.3", b"localhost.evil.example", b"", b"a,b"]
)
def test_a_request_under_a_name_that_was_made_to_lead_here_is_refused(port: int, host: bytes) -> None:
    answer = said(port, b"GET /metrics HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.0 403")
    assert b"kafka_streams" not in answer


def test_two_host_headers_do_not_hide_one(port: int) -> None:
    request = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n"
    assert said(port, request).startswith(b"HTTP/1.0 403")


def test_a_request_of_http_1_1_without_a_host_is_refused(port: int) -> None:
    assert said(port, b"GET /metrics HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.0 400")


@pytest.mark.long
@pytest.mark.parametrize("method", [b"POST", b"PUT", b"DELETE", b"OPTIONS", b"TRACE", b"CONNECT", b"X"])
def test_only_get_and_head_are_answered(port: int, method: bytes) -> None:
    answer = said(port, method + b" /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.0 405")


def test_an_answer_to_head_has_no_body(port: int) -> None:
    answer = said(port, b"HEAD /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.0 200")
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"a" * 100_000,
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 10_000,
        b"GET / HTTP/1.1\r\nX: " + b"y" * 100_000,
    ],
    ids=["line", "headers", "header"],
)
def test_a_head_without_end_is_refused_when_it_gets_long(port: int, head: bytes) -> None:
    assert said(port, head)[:12] in (b"HTTP/1.0 431", b"")  # or the connection was reset, as not all was read
    assert said(port, b"GET /health HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.0 200")


def _send_for(connection: socket.socket, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        connection.sendall(b"X")
        time.sleep(0.05)


@pytest.mark.long
def test_a_client_that_sends_byte_by_byte_is_cut_off(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "REQUEST_S", 0.5)
    server = MetricsServer("127.0.0.1", 0, "shop", app.registry.snapshot, lambda: app.report)
    try:
        port = int(server.url.rpartition(":")[2].partition("/")[0])
        with socket.create_connection(("127.0.0.1", port), 30) as slow:
            slow.sendall(b"GET /metrics HTTP/1.1\r\n")
            begun = time.monotonic()
            with pytest.raises(OSError, match=r"pipe|reset"):
                _send_for(slow, 20)
            assert time.monotonic() - begun < 10
    finally:
        server.close()


@pytest.mark.long
def test_many_silent_clients_keep_no_other_one_out_and_leave_no_threads(app: App) -> None:
    server = MetricsServer("127.0.0.1", 0, "shop", app.registry.snapshot, lambda: app.report)
    before = threading.active_count()
    port = int(server.url.rpartition(":")[2].partition("/")[0])
    silent = [socket.create_connection(("127.0.0.1", port), 30) for _ in range(300)]
    try:
        for _ in range(10):
            assert said(port, b"GET /health HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.0 200")
        assert threading.active_count() - before <= http_server.CONNECTIONS_MAX + 1
    finally:
        server.close()
        deadline = time.monotonic() + 20
        while threading.active_count() >= before and time.monotonic() < deadline:
            time.sleep(0.05)
        for each in silent:
            each.close()
    assert threading.active_count() < before
