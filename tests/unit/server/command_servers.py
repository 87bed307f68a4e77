"""Servers for tests: in this process, over a log and a registry in a folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from hayase.server.commands.executor import CommandResult
from hayase.server.context import ServerContext
from hayase.server.http.app import make_app
from hayase.server.server import open_server
from hayase.server.serving import HttpServer
from hayase.server.settings import ServerSettings
from hayase.sql.functions.registry import FunctionRegistry
from hayase.sql.grammar.parser import parse_script
from hayase.testing.servers import free_ports

URL = "http://127.0.0.1:8088"


def settings_in(folder: Path, **more: object) -> ServerSettings:
    """Settings of a server whose queries run in this process; names in `more` have `_` for `.`."""
    given: dict[str, object] = {
        "hayase.server.in.process": "true",
        "log.dir": str(folder / "log"),
        "state.dir": str(folder / "state"),
        "auto.offset.reset": "earliest",
        "statestore.cache.max.bytes": 0,
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    return ServerSettings.of(given)


@contextmanager
def server_in(folder: Path, *, functions: FunctionRegistry | None = None, **more: object) -> Iterator[ServerContext]:
    """A server over what is in a folder."""
    context = open_server(settings_in(folder, **more), functions)
    try:
        yield context
    finally:
        context.close()


@contextmanager
def listening_server_in(folder: Path) -> Iterator[ServerContext]:
    """As `server_in`, and it listens on a free port."""
    ports = free_ports(1)
    assert ports is not None
    with (
        server_in(folder, listeners=f"http://127.0.0.1:{ports[0]}") as context,
        HttpServer(make_app(context), context.settings),
    ):
        yield context


def client_of(context: ServerContext) -> TestClient:
    """A client that talks to a server without a network."""
    return TestClient(make_app(context), base_url=URL, raise_server_exceptions=False)


def execute(context: ServerContext, text: str) -> list[CommandResult]:
    """Carry out commands."""
    return [context.commands.execute(parsed, {}) for parsed in parse_script(text)]


def ksql(client: TestClient, text: str, properties: Mapping[str, object] | None = None) -> list[dict[str, Any]]:
    """The entities of statements, which must succeed."""
    response = client.post("/ksql", json={"ksql": text, "streamsProperties": dict(properties or {})})
    assert response.status_code == 200, response.text
    entities: list[dict[str, Any]] = response.json()
    return entities


def refused(client: TestClient, text: str, status: int = 400) -> dict[str, Any]:
    """The error of statements, which must fail."""
    response = client.post("/ksql", json={"ksql": text})
    assert response.status_code == status, response.text
    error: dict[str, Any] = response.json()
    return error


def wait_until(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    """Wait for something that another thread does."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.01)


def rows(client: TestClient, select: str) -> list[list[Any]]:
    """The rows of a query that ends by itself."""
    response = client.post("/query", json={"ksql": select})
    assert response.status_code == 200, response.text
    return [each["row"]["columns"] for each in response.json() if "row" in each]
