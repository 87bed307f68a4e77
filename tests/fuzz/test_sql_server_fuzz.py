"""Requests of all kinds, right, wrong and damaged: the server answers each one, and never by a failure of its own.

How many are tried: HAYASE_FUZZ_INPUTS, 200 where that is not set.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random

import pytest
from tests.unit.server.command_servers import client_of, ksql, server_in

INPUTS = int(os.environ.get("HAYASE_FUZZ_INPUTS", "200"))
SEED = 20261125
NOT_READY = 503
SETUP = """
CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON', partitions=2);
CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
"""
WORDS = (
    "SELECT", "*", "FROM", "s", "t", "LIMIT", "0", "1", "WHERE", "k", "=", "'a'", "CREATE STREAM", "x", "(", "v INT",
    ")", "WITH", "kafka_topic='q'", ",", "value_format='JSON'", "partitions=1", ";", "DROP", "INSERT INTO", "VALUES",
    "null", "TERMINATE", "ALL", "PAUSE", "CTAS_T_0", "EXPLAIN", "DESCRIBE", "SHOW", "QUERIES", "SET 'a'='b';", "${x}",
    "DEFINE x='1';", "'", '"', "`", "GROUP BY", "COUNT(*)", "9999999999999999999999", "CAST(v AS", "ASSERT TOPIC",
    "TIMEOUT 1 MILLISECONDS", "CREATE TYPE", "AS", "STRUCT<a INT>", "CREATE OR REPLACE TABLE", "LIST", "\x00", "é",
    "AS OF EPOCH", "JOIN", "ON", "UNSET", "INSERT INTO s VALUES ('a', 1);", "SELECT * FROM t;", "DESCRIBE t;",
)  # fmt: skip
VALUES = (None, 1, -1, 1.5, True, "", [], {}, "x", 2**70, {"a": 1}, {"auto.offset.reset": "nope"}, ["["])
MEMBERS = (
    "streamsProperties", "properties", "sessionVariables", "requestProperties", "commandSequenceNumber", "queryId",
    "target", "deleteTopicList",
)  # fmt: skip
PATHS = ("/ksql", "/ksql", "/query", "/query-stream", "/close-query", "/inserts-stream", "/status/a/b/c", "/info")


def body(random: Random) -> bytes:
    """The body of a request, or something like it."""
    text = " ".join(random.choice(WORDS) for _ in range(random.randrange(1, 9))) + random.choice((";", ""))
    request: dict[str, object] = {random.choice(("ksql", "ksql", "sql", "nope")): text}
    for name in MEMBERS:
        if random.random() < 0.12:
            request[name] = random.choice(VALUES)
    data = json.dumps(request).encode()
    if random.random() < 0.1:
        at = random.randrange(len(data))
        data = data[:at] + bytes([random.randrange(256)]) + data[at + 1 :]
    return data


@pytest.mark.long
def test_no_request_makes_the_server_fail(tmp_path: Path) -> None:
    random = Random(SEED)
    with server_in(tmp_path, ksql_server_command_response_timeout_ms=10) as context:
        client = client_of(context)
        ksql(client, SETUP)
        for _ in range(INPUTS):
            path, data = random.choice(PATHS), body(random)
            response = client.post(path, content=data)
            assert response.status_code < 500 or response.status_code == NOT_READY, (path, data, response.text)
        assert client.get("/info").json()["KsqlServerInfo"]["serverStatus"] == "RUNNING"
