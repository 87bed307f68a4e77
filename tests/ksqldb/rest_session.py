"""ksqlDB's server for one case: a whole server in this process, asked through its REST interface."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Collection, Mapping
from decimal import Decimal
from typing import Any

from tests.ksqldb.driver import SETTINGS
from tests.ksqldb.functions import registry_with_test_functions
from tests.unit.server.asgi import Answer, request

from hayase.core.errors import HayaseError
from hayase.log.protocol import OutputBatch
from hayase.server.http.app import make_app
from hayase.server.server import open_server
from hayase.server.settings import ServerSettings
from hayase.sql.registry.embedded import EmbeddedSchemaRegistry
from hayase.testing.topics import RawRecord

_TIMEOUT_S = 20.0
_KSQL_JSON = {"accept": "application/vnd.ksql.v1+json"}
_NOT_OF_SERVER = {"ksql.service.id", "auto.offset.reset", "cache.max.bytes.buffering"}


class RefusedError(HayaseError):
    """An error that the server answered.

    Attributes:
        status: of HTTP.
        entity: the JSON object.
    """

    def __init__(self, status: int, entity: Mapping[str, Any]) -> None:
        super().__init__("REFUSED", str(entity.get("message")))
        self.status = status
        self.entity = entity


class RestSession:
    """The server of one case."""

    def __init__(self, folder: str, properties: Mapping[str, Any]) -> None:
        self.registry = EmbeddedSchemaRegistry()
        of_server = {name: value for name, value in SETTINGS.items() if name not in _NOT_OF_SERVER}
        settings = {
            **of_server,
            "hayase.server.in.process": "true",
            "log.dir": f"{folder}/log",
            "state.dir": f"{folder}/state",
            "checkpoint.fsync": "false",
            "statestore.cache.max.bytes": "0",
            "ksql.query.push.v2.enabled": "true",
            "hayase.query.pull.adhoc.enabled": "false",  # its queries are errors of ksqlDB
        }
        self._context = open_server(ServerSettings.of(settings), registry_with_test_functions(), registry=self.registry)
        self._properties = {"auto.offset.reset": "earliest", **properties}
        self._app = make_app(self._context)
        self._writer = self._context.log.writer()
        self.topics = self._context.topics

    @property
    def engine(self) -> Any:
        """The engine, with the catalog as it is now."""
        return self._context.engine

    async def execute(self, text: str) -> None:
        """Execute statements, with the session's properties."""
        body = {"ksql": text, "streamsProperties": self._properties}
        async with request(self._app, "/ksql", _plain(body)) as answer:
            content = await answer.json()
            if answer.status != 200:
                raise RefusedError(answer.status, content)

    def query(self, text: str) -> Any:
        """A query that has started, whose rows come."""
        body = {"sql": text, "properties": self._properties}
        return request(self._app, "/query-stream", _plain(body), headers=_KSQL_JSON)

    def produce(self, records: Collection[RawRecord]) -> None:
        """Write records, each at once."""
        for record in records:
            headers = [record.headers] if record.headers else None
            batch = OutputBatch(record.topic, [record.key], [record.value], [record.timestamp_ms], headers=headers)
            self._writer.append([batch])

    async def settle(self) -> None:
        """Wait until all persistent queries have processed all that there is."""
        context = self._context
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            topics = {topic for query in context.engine.queries.values() for topic in query.source_topics}
            ends = context.log.end_offsets(context.tails.partitions(sorted(topics)))
            done = context.host.has_processed(ends)  # type: ignore[attr-defined]  # the host in this process
            if done and context.log.end_offsets(list(ends)) == ends:
                return
            if time.monotonic() > deadline:
                raise TimeoutError("the persistent queries do not come to an end")
            await asyncio.sleep(0.002)

    def close(self) -> None:
        """End the server."""
        self._writer.close()
        self._context.close()


async def read_rows(answer: Answer, quiet_s: float) -> list[dict[str, Any]]:
    """The elements of an array of StreamedRow, as far as they come."""
    rows: list[dict[str, Any]] = []
    while True:
        try:
            line = await asyncio.wait_for(answer.line(), quiet_s)
        except TimeoutError:
            return rows
        if line is None:
            return rows
        text = line.removeprefix("[").removesuffix(",").removesuffix("]")
        if text:
            rows.append(json.loads(text, parse_float=Decimal))


def _plain(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, default=str).encode()
