"""/ws/query: rows over WebSocket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect
from tests.unit.server.loops import in_loop
from tests.unit.server.servers import DataServer

_STATEMENTS = """
    CREATE STREAM orders (id INT KEY, item STRING) WITH (kafka_topic='orders', value_format='JSON', partitions=1);
    CREATE TABLE sales AS SELECT item, COUNT(*) AS n FROM orders GROUP BY item;
    INSERT INTO orders VALUES (1, 'pen');
    INSERT INTO orders VALUES (2, 'pen');
"""
_HOST = {"host": "127.0.0.1:8088"}


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[DataServer]:
    server = DataServer(tmp_path_factory.mktemp("ws"))
    server.execute(_STATEMENTS)
    server.settle()
    yield server
    server.close()


def _asked(server: DataServer, request: Any, headers: dict[str, str] | None = None) -> tuple[list[Any], int, str]:
    """The messages of an answer, and the code and the reason of its end."""
    text = request if isinstance(request, str) else json.dumps(request)
    messages: list[Any] = []
    client = TestClient(server.app, base_url="http://127.0.0.1:8088")
    try:
        with client.websocket_connect(
            "/ws/query", params={"request": text}, headers={**_HOST, **(headers or {})}
        ) as ws:
            while True:
                messages.append(ws.receive_json())
    except WebSocketDisconnect as end:
        return messages, end.code, end.reason


def test_a_pull_query_sends_its_columns_and_rows_and_ends(server: DataServer) -> None:
    messages, code, reason = _asked(server, {"ksql": "SELECT * FROM sales WHERE item = 'pen';"})
    columns, row = messages
    assert [each["name"] for each in columns] == ["ITEM", "N"]
    assert columns[1]["schema"]["type"] == "BIGINT"
    assert row == {"row": {"columns": ["pen", 2]}}
    assert (code, reason) == (1000, "done")


def test_a_push_query_ends_at_its_limit(server: DataServer) -> None:
    asked = {
        "ksql": "SELECT id FROM orders EMIT CHANGES LIMIT 2;",
        "streamsProperties": {"ksql.streams.auto.offset.reset": "earliest"},
    }
    messages, code, _ = _asked(server, asked)
    assert [each["row"]["columns"] for each in messages if isinstance(each, dict) and "row" in each] == [[1], [2]]
    assert messages[-1] == {"finalMessage": "Limit Reached"}
    assert code == 1000


@in_loop
async def test_a_client_that_goes_ends_its_push_query(server: DataServer) -> None:
    asked = urlencode({"request": json.dumps({"ksql": "SELECT * FROM orders EMIT CHANGES;"})})
    scope = {
        "type": "websocket", "path": "/ws/query", "raw_path": b"/ws/query", "root_path": "", "scheme": "ws",
        "query_string": asked.encode(), "headers": [(b"host", b"127.0.0.1:8088")], "subprotocols": [],
    }  # fmt: skip
    received: asyncio.Queue[Any] = asyncio.Queue()
    sent: asyncio.Queue[Any] = asyncio.Queue()
    received.put_nowait({"type": "websocket.connect"})
    serving = asyncio.create_task(server.app(scope, received.get, sent.put))  # type: ignore[arg-type]
    assert (await asyncio.wait_for(sent.get(), 20))["type"] == "websocket.accept"
    assert (await asyncio.wait_for(sent.get(), 20))["type"] == "websocket.send"
    assert len(server.context.push_queries) == 1
    received.put_nowait({"type": "websocket.disconnect", "code": 1001})
    await asyncio.wait_for(serving, 20)
    assert len(server.context.push_queries) == 0


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ("no json", "the body is no JSON"),
        ({"ksql": 1}, "No ksql in arguments"),
        ({"ksql": "SELECT * FROM nothing;"}, "NOTHING does not exist"),
        ({"ksql": "SHOW STREAMS;"}, "is no query"),
        ({"ksql": "SELECT"}, ""),
    ],
)
def test_what_cannot_be_answered_is_refused_with_a_reason(server: DataServer, request_: Any, reason: str) -> None:
    messages, code, given = _asked(server, request_)
    assert (messages, code) == ([], 1003)
    assert reason in given


def test_a_page_of_another_origin_is_refused(server: DataServer) -> None:
    _, code, reason = _asked(server, {"ksql": "SELECT * FROM sales;"}, {"origin": "http://evil.example"})
    assert (code, reason) == (1008, "FOREIGN_ORIGIN")
