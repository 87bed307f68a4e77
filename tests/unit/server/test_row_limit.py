"""How many rows a pull query may answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.unit.server.command_servers import client_of, ksql, rows, server_in, wait_until

MAX_ROWS = 3
STATEMENTS = """
CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON', partitions=1);
CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
CREATE TABLE w AS SELECT k, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY k;
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with server_in(tmp_path_factory.mktemp("rows"), hayase_server_pull_max_rows=MAX_ROWS) as context:
        client = client_of(context)
        ksql(client, STATEMENTS)
        for number in range(5):
            ksql(client, f"INSERT INTO s (ROWTIME, k, v) VALUES ({number * 1000}, '{'abcde'[number]}', 1);")
            ksql(client, f"INSERT INTO s (ROWTIME, k, v) VALUES ({number * 1000}, 'a', 1);")
        wait_until(lambda: rows(client, "SELECT n FROM t WHERE k = 'a';") == [[6]])
        wait_until(lambda: len(rows(client, "SELECT n FROM w WHERE k = 'a' AND WINDOWSTART >= 3000;")) == 2)
        yield client


def asked(client: TestClient, select: str) -> tuple[int, list[Any]]:
    """The status, and the lines of the answer."""
    response = client.post("/query-stream", json={"sql": select})
    return response.status_code, [json.loads(line) for line in response.text.splitlines()]


@pytest.mark.parametrize(
    "select", ["SELECT k, n FROM t;", "SELECT k, n + 0 AS n FROM t ORDER BY k;", "SELECT * FROM s;"]
)
def test_an_answer_with_more_rows_ends_with_an_error_behind_those_that_are_allowed(
    client: TestClient, select: str
) -> None:
    status, (_, *found, error) = asked(client, select)
    assert status == 200
    assert len(found) == MAX_ROWS and all(isinstance(each, list) for each in found)
    assert error["error_code"] == 41301
    assert "more than 3 rows" in error["message"] and "hayase.server.pull.max.rows" in error["message"]


@pytest.mark.parametrize(
    "select", ["SELECT n FROM w WHERE k = 'a';", "SELECT n FROM t WHERE k IN ('a', 'b', 'c', 'd');"]
)
def test_a_look_up_with_more_rows_is_refused_as_a_whole(client: TestClient, select: str) -> None:
    for _ in range(2):  # analyzed, and by the analysis that was kept
        response = client.post("/query-stream", json={"sql": select})
        assert (response.status_code, response.json()["error_code"]) == (413, 41301)


@pytest.mark.parametrize(
    "select",
    ["SELECT k FROM t LIMIT 3;", "SELECT k FROM t ORDER BY k LIMIT 3;", "SELECT n FROM t WHERE k IN ('a', 'b', 'c');"],
)
def test_as_many_rows_as_allowed_are_an_answer(client: TestClient, select: str) -> None:
    assert len(rows(client, select)) == MAX_ROWS
