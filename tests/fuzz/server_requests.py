"""Requests of all kinds for a SQL server, as bytes of HTTP/1.1, frames of HTTP/2, and messages of a WebSocket."""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random
from typing import Any
from urllib.parse import quote

from h2.config import H2Configuration
from h2.connection import H2Connection

HOST = "127.0.0.1"
SETUP = """
CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON', partitions=2);
CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
INSERT INTO s VALUES ('a', 1);
"""
_PATHS = (
    "/ksql", "/ksql", "/ksql", "/query", "/query-stream", "/query-stream", "/inserts-stream", "/close-query",
    "/status", "/status/stream/S/create", "/info", "/healthcheck", "/clusterStatus", "/v1/metadata", "/v1/metadata/id",
    "/is_valid_property/auto.offset.reset", "/is_valid_property/%00", "/chc/ready", "/chc/live", "/heartbeat", "/lag",
    "/metrics", "/ws/query", "/", "/%2e%2e/etc/passwd", "/ksql?x=1", "/nope",
)  # fmt: skip
_METHODS = ("POST", "POST", "POST", "POST", "POST", "POST", "GET", "GET", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH")
_STATEMENTS = (
    "SHOW STREAMS;", "DESCRIBE s;", "DESCRIBE t EXTENDED;", "EXPLAIN SELECT * FROM s EMIT CHANGES;", "SHOW QUERIES;",
    "SELECT * FROM t WHERE k = 'a';", "SELECT * FROM t;", "SELECT * FROM s EMIT CHANGES LIMIT 0;", "SHOW TOPICS;",
    "SELECT k, COUNT(*) FROM t GROUP BY k;", "SELECT * FROM t JOIN t ON 1 = 1;", "LIST PROPERTIES;", "DROP STREAM no;",
    "SET 'a'='b';", "SELECT REGEXP_EXTRACT('(a', k) FROM t;", "PRINT s LIMIT 0;", "TERMINATE nothing;",
    "CREATE STREAM IF NOT EXISTS s (k STRING KEY) WITH (kafka_topic='s', value_format='JSON');", "DEFINE a = 'b';",
    "CREATE OR REPLACE STREAM r AS SELECT * FROM nothing;", "ASSERT TOPIC s TIMEOUT 1 MILLISECONDS;", "LIST TYPES;",
    "DROP TYPE IF EXISTS x;", "SHOW FUNCTIONS;", "DESCRIBE FUNCTION count;", "SHOW CONNECTOR PLUGINS;", "PAUSE ALL;",
    "RESUME ALL;", "UNDEFINE a;", "ALTER SYSTEM 'x'='y';", "INSERT INTO s VALUES (1, 'x', 2);", "SHOW VARIABLES;",
)  # fmt: skip
_WORDS = (
    "SELECT", "*", "FROM", "s", "t", "LIMIT", "0", "1", "WHERE", "k", "=", "'a'", "(", ")", "WITH", ",", ";", "DROP",
    "VALUES", "null", "EXPLAIN", "DESCRIBE", "SHOW", "${x}", "'", '"', "`", "GROUP BY", "COUNT(*)", "CAST(v AS", "--",
    "9999999999999999999999", "STRUCT<a INT>", "AS OF EPOCH", "JOIN", "ON", "UNSET", "\x00", "é", "/*", "WINDOW", "[",
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
    None,
    1,
    -1,
    1.5,
    True,
    "",
    [],
    {},
    "x",
    2**70,
    {"a": 1},
    {"auto.offset.reset": "nope"},
    ["["],
)
_MEMBERS = (
    "streamsProperties", "properties", "sessionVariables", "requestProperties", "commandSequenceNumber", "queryId",
    "target",
)  # fmt: skip
_ACCEPTED = ("*/*", "application/json", "application/vnd.ksql.v1+json", "application/vnd.ksql.v1+protobuf", ";q=,,")


@dataclass(frozen=True)
class HttpRequest:
    """A request.

    Attributes:
        method: of HTTP.
        path: with its query string.
        headers: without host and length.
        body: of the request.
    """

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def may_go_on(self) -> bool:
        """Whether it may be a push query, whose answer has no end."""
        return b"emit" in self.body.lower() or b"print" in self.body.lower()

    def http1(self, port: int) -> bytes:
        """As HTTP/1.1 has it."""
        lines = [f"{self.method} {self.path} HTTP/1.1", f"host: {HOST}:{port}", f"content-length: {len(self.body)}"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + self.body

    def http2(self, port: int, connection: H2Connection, stream: int) -> bytes:
        """As HTTP/2 has it, on a connection that was opened."""
        fields = [(":method", self.method), (":scheme", "http"), (":authority", f"{HOST}:{port}"), (":path", self.path)]
        connection.send_headers(stream, [*fields, *self.headers], end_stream=not self.body)
        for first in range(0, len(self.body), connection.max_outbound_frame_size):
            part = self.body[first : first + connection.max_outbound_frame_size]
            connection.send_data(stream, part, end_stream=first + len(part) == len(self.body))
        return connection.data_to_send()


def http_request(random: Random) -> HttpRequest:
    """A request: right, wrong or damaged in what its body says."""
    headers = [("accept", random.choice(_ACCEPTED))]
    if random.random() < 0.05:
        headers.append(("origin", random.choice(("http://elsewhere.test", f"http://{HOST}", "null", ""))))
    if random.random() < 0.05:
        headers.append(("authorization", random.choice(("Basic x", "Basic OnB3", "Bearer y", ""))))
    if random.random() < 0.02:
        headers.append(("x-long", "y" * random.choice((10, 5_000))))
    return HttpRequest(random.choice(_METHODS), random.choice(_PATHS), tuple(headers), _body(random))


def damaged(random: Random, data: bytes) -> bytes:
    """Bytes of which some are left out, repeated or replaced."""
    place = random.randrange(len(data) + 1)
    end = min(len(data), place + random.randrange(1, 9))
    kind = random.randrange(3)
    if kind == 0:
        return data[:place] + data[end:]
    if kind == 1:
        return data[:end] + data[place:]
    return data[:place] + random.randbytes(end - place) + data[end:]


def opened_http2() -> tuple[H2Connection, bytes]:
    """A new connection of HTTP/2, and what a client says first on it."""
    connection = H2Connection(H2Configuration(client_side=True, validate_outbound_headers=False))
    connection.initiate_connection()
    return connection, connection.data_to_send()


def http2_frame(random: Random) -> bytes:
    """A frame of HTTP/2 of any kind, on any stream, whose length may be wrong."""
    payload = random.randbytes(random.choice((0, 0, 4, 5, 8, random.randrange(40))))
    length = len(payload) if random.random() < 0.9 else random.choice((0, 1, 2**14, 2**24 - 1))
    kind, flags = random.randrange(12), random.choice((0, 1, 4, 5, 0x0C, 0x2D, random.randrange(256)))
    stream = random.choice((0, 1, 1, 2, 3, 2**31 - 1, random.randrange(2**32)))
    return length.to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def web_socket_opening(random: Random, port: int) -> bytes:
    """The request that begins a WebSocket, with a query in it."""
    query = _body(random).decode("latin-1") if random.random() < 0.7 else random.choice(("{}", "", "["))
    name = random.choice(("request", "request", "request", "nope"))
    lines = [
        f"GET /ws/query?{name}={quote(query)} HTTP/1.1",
        f"host: {HOST}:{port}",
        "connection: Upgrade",
        "upgrade: websocket",
        f"sec-websocket-version: {random.choice(('13', '13', '13', '13', '12', 'x'))}",
        f"sec-websocket-key: {random.choice(('dGhlIHNhbXBsZSBub25jZQ==', 'dGhlIHNhbXBsZSBub25jZQ==', 'x'))}",
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def web_socket_frame(random: Random) -> bytes:
    """A frame of a WebSocket of any kind, masked as a client has to do it, or not."""
    payload = random.randbytes(random.choice((0, 2, 20, 125)))
    first = random.choice((0x81, 0x82, 0x88, 0x89, 0x8A, 0x80, 0x01, 0xF1, random.randrange(256)))
    if random.random() < 0.1:
        return bytes((first, len(payload))) + payload
    mask = random.randbytes(4)
    return bytes((first, 0x80 | len(payload))) + mask + bytes(b ^ mask[n % 4] for n, b in enumerate(payload))


def _body(random: Random) -> bytes:
    kind = random.randrange(12)
    if kind == 0:
        return random.randbytes(random.randrange(60))
    if kind == 1:
        return b"[" * random.randrange(1, 3000)
    if kind == 2:
        return b'{"target":"S"}\n' + b"".join(random.choice(_LINES) for _ in range(random.randrange(4)))
    if random.random() < 0.5:
        text = random.choice(_STATEMENTS)
        if random.random() < 0.5:
            text = damaged(random, text.encode()).decode("latin-1")
    else:
        text = " ".join(random.choice(_WORDS) for _ in range(random.randrange(1, 9)))
    request: dict[str, Any] = {random.choice(("ksql", "ksql", "sql", "sql", "nope")): text}
    for name in _MEMBERS:
        if random.random() < 0.08:
            request[name] = random.choice(_VALUES)
    data = json.dumps(request).encode()
    return damaged(random, data) if random.random() < 0.1 else data


_LINES = (b'{"K":"a","V":1}\n', b'{"k":"a"}\n', b'{"V":"x"}\n', b"[1]\n", b"\n", b"{", b'{"ROWTIME":1}\n', b"\x00\n")
