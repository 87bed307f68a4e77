"""Servers with data, for tests of queries."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp
from tests.unit.server.asgi import ask

from hayase.server.context import ServerContext
from hayase.server.http.app import make_app
from hayase.server.server import open_server
from hayase.server.settings import ServerSettings

_KSQL_JSON = {"accept": "application/vnd.ksql.v1+json"}
_TIMEOUT_S = 20.0


class DataServer:
    """A server whose queries run in this process."""

    def __init__(self, folder: Path) -> None:
        settings = {
            "hayase.server.in.process": "true",
            "log.dir": str(folder / "log"),
            "state.dir": str(folder / "state"),
            "ksql.streams.auto.offset.reset": "earliest",
            "checkpoint.fsync": "false",
            "statestore.cache.max.bytes": "0",
        }
        self.context: ServerContext = open_server(ServerSettings.of(settings))
        self.app: ASGIApp = make_app(self.context)

    def execute(self, text: str) -> None:
        """Execute statements."""
        status, answer = asyncio.run(ask(self.app, "/ksql", {"ksql": text}))
        assert status == 200, answer

    def settle(self) -> None:
        """Wait until the persistent queries have processed everything."""
        topics = [topic for topic in self.context.log.topics() if not topic.startswith("_")]
        partitions = self.context.tails.partitions(topics)
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            ends = self.context.log.end_offsets(partitions)
            done = self.context.host.has_processed(ends)  # type: ignore[attr-defined]  # the host in this process
            if done and self.context.log.end_offsets(partitions) == ends:
                return
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def close(self) -> None:
        """End the server."""
        self.context.close()


async def rows(server: DataServer, text: str, properties: dict[str, Any] | None = None) -> list[Any]:
    """The rows of a query."""
    body = {"sql": text, "properties": properties or {}}
    status, answer = await ask(server.app, "/query-stream", body, headers=_KSQL_JSON)
    assert status == 200, answer
    return [item["row"]["columns"] for item in answer if "row" in item]


async def refused(server: DataServer, text: str, properties: dict[str, Any] | None = None) -> dict[str, Any]:
    """The error of a query."""
    status, answer = await ask(server.app, "/query-stream", {"sql": text, "properties": properties or {}})
    assert status == 400, answer
    error: dict[str, Any] = answer
    return error
