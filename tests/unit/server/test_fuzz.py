"""Requests that no client should send, to all endpoints: each is refused with a reason, and none is a fault."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.unit.server.servers import DataServer

_REQUESTS = "HAYASE_FUZZ_REQUESTS"
"""Environment variable: how many requests the slow test sends, instead of 100,000."""
_PATHS = (
    "/ksql", "/query", "/query-stream", "/inserts-stream", "/close-query", "/status", "/status/stream/A/create",
    "/info", "/healthcheck", "/clusterStatus", "/v1/metadata", "/v1/metadata/id",
    "/is_valid_property/auto.offset.reset", "/chc/ready", "/chc/live",
    "/heartbeat", "/lag", "/metrics", "/ksql/terminat", "/ws/query", "/",
)  # fmt: skip
_METHODS = ("POST", "POST", "POST", "POST", "GET", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH")
_TEXTS = (
    "SHOW STREAMS;", "DESCRIBE A;", "EXPLAIN SELECT * FROM A EMIT CHANGES;", "SELECT * FROM sales WHERE item = 'pen';",
    "SELECT * FROM orders EMIT CHANGES LIMIT 0;", "LIST PROPERTIES;", "DROP STREAM nothing;", "SET 'a'='b';",
    "INSERT INTO orders VALUES (1, 'x', 2);", "SELECT REGEXP_EXTRACT('(a', item) FROM sales;", "PRINT orders LIMIT 0;",
    "CREATE STREAM s AS SELECT * FROM nothing;", "TERMINATE nothing;", "PAUSE ALL;", "RESUME ALL;", "DEFINE a = 'b';",
)  # fmt: skip
_MEMBERS = ("ksql", "sql", "streamsProperties", "properties", "sessionVariables", "commandSequenceNumber", "queryId")
_MEANT = (503,)
"""What a server that is not well says; `/healthcheck` also answers 500 then."""


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[DataServer]:
    server = DataServer(tmp_path_factory.mktemp("fuzz"))
    server.execute(
        """
        CREATE STREAM orders (id INT KEY, item STRING, cents INT)
            WITH (kafka_topic='orders', value_format='JSON', partitions=1);
        CREATE TABLE sales AS SELECT item, COUNT(*) AS n FROM orders GROUP BY item;
        """
    )
    server.settle()
    yield server
    server.close()


def _value(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.randrange(9 if depth < 3 else 7)
    if kind == 0:
        return chance.choice(_TEXTS)
    if kind == 1:
        return _broken(chance, chance.choice(_TEXTS))
    if kind == 2:
        return chance.choice((None, True, False, "", "\x00", "\ud83d\ude00", "${a}", "'"))
    if kind == 3:
        return chance.choice((0, -1, 2**31, 2**63, -(2**70), 1e308, 0.1))
    if kind == 4:
        return "".join(chr(chance.choice((chance.randrange(32, 127), chance.randrange(0xD7FF)))) for _ in range(8))
    if kind in (5, 6):
        return chance.choice(("auto.offset.reset", "earliest", "latest", "ORDERS", "sales"))
    if kind == 7:
        return [_value(chance, depth + 1) for _ in range(chance.randrange(3))]
    return {chance.choice((*_MEMBERS, "a", "")): _value(chance, depth + 1) for _ in range(chance.randrange(4))}


def _broken(chance: random.Random, text: str) -> str:
    """A text of which something is left out, repeated or replaced."""
    place = chance.randrange(len(text))
    end = min(len(text), place + chance.randrange(1, 6))
    return chance.choice(
        (
            text[:place] + text[end:],
            text[:end] + text[place:],
            text[:place] + chance.choice("'`\"(;*\\\x00é") + text[end:],
        )
    )


def _body(chance: random.Random) -> bytes:
    kind = chance.randrange(10)
    if kind == 0:
        return chance.randbytes(chance.randrange(60))
    if kind == 1:
        return b"[" * chance.randrange(1, 3000)
    given = {name: _value(chance, 1) for name in chance.sample(_MEMBERS, chance.randrange(5))}
    if kind > 4:
        given[chance.choice(("ksql", "sql"))] = _broken(chance, chance.choice(_TEXTS))
        given = {name: value for name, value in given.items() if name in ("ksql", "sql")}
    text = json.dumps(given).encode()
    return text if kind != 2 else _broken(chance, text.decode()).encode("utf-8", "surrogatepass")


def _send_all(server: DataServer, seed: int, count: int) -> None:
    chance = random.Random(seed)
    client = TestClient(server.app, base_url="http://127.0.0.1:8088", raise_server_exceptions=False)
    for number in range(count):
        path, method, body = chance.choice(_PATHS), chance.choice(_METHODS), _body(chance)
        headers = {"accept": chance.choice(("*/*", "application/json", "application/vnd.ksql.v1+protobuf", ";q=,,"))}
        if b"EMIT" in body and b"LIMIT 0" not in body:
            continue  # it may be a push query, which is right and has no end
        response = client.request(method, path, content=body, headers=headers)
        assert response.status_code < 500 or response.status_code in _MEANT, (seed, number, method, path, body)
    assert len(server.context.push_queries) == 0


@pytest.mark.long
def test_broken_requests_are_refused(server: DataServer) -> None:
    _send_all(server, seed=1, count=250)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_broken_requests_are_refused(server: DataServer, seed: int) -> None:
    _send_all(server, seed, count=int(os.environ.get(_REQUESTS, "100000")) // 10)
