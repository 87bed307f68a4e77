"""Requests of the client, and what it makes of answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import httpx2
import pytest

from hayase.client import AsyncSqlClient, SqlClient, SqlServerError
from hayase.client.protocol import Row, inserts_body, split_schema

_ROWS = (
    '[{"header":{"queryId":"q1","schema":"`ID` STRING KEY, `V` DECIMAL(4, 2)"}},\n'
    '{"row":{"columns":["a",1.50]}},\n\n{"row":{"columns":["b",null],"tombstone":true}},\n'
    '{"finalMessage":"Limit Reached"}]\n'
)


class _Server:
    """Answers requests, and remembers them."""

    def __init__(self, answer: Callable[[httpx2.Request], httpx2.Response]) -> None:
        self.requests: list[httpx2.Request] = []
        self._answer = answer

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        return self._answer(request)

    def body(self, place: int = -1) -> Any:
        return json.loads(self.requests[place].content)


def _client(server: _Server, **options: Any) -> SqlClient:
    return SqlClient("http://server", transport=httpx2.MockTransport(server), **options)


def _refused(code: int, message: str) -> httpx2.Response:
    entity = {"@type": "statement_error", "error_code": code, "message": message, "statementText": "S;", "entities": []}
    return httpx2.Response(code // 100, json=entity)


def test_statements_carry_properties_and_variables() -> None:
    server = _Server(lambda request: httpx2.Response(200, json=[]))
    with _client(server, properties={"auto.offset.reset": "earliest"}, variables={"x": "1"}) as client:
        client.execute("SHOW STREAMS;", {"a": 1})
    assert server.body() == {
        "ksql": "SHOW STREAMS;",
        "streamsProperties": {"auto.offset.reset": "earliest", "a": 1},
        "sessionVariables": {"x": "1"},
    }


def test_a_statement_waits_for_the_command_before_it() -> None:
    server = _Server(lambda request: httpx2.Response(200, json=[{"commandSequenceNumber": 7}]))
    with _client(server) as client:
        client.execute("CREATE …;")
        client.execute("SHOW STREAMS;")
    assert server.body()["commandSequenceNumber"] == 7


def test_a_refused_statement_is_an_error_with_its_code() -> None:
    server = _Server(lambda request: _refused(40001, "no such stream"))
    with _client(server) as client, pytest.raises(SqlServerError, match="no such stream") as raised:
        client.execute("DROP STREAM x;")
    assert (raised.value.code, raised.value.statement) == (40001, "S;")


def test_a_server_that_is_away_is_an_error_that_says_what_to_do() -> None:
    with SqlClient("http://127.0.0.1:1") as client, pytest.raises(SqlServerError, match="hayase server"):
        client.info()


def test_rows_have_values_by_name_and_place() -> None:
    server = _Server(lambda request: httpx2.Response(200, text=_ROWS))
    with _client(server) as client, client.query("SELECT * FROM t EMIT CHANGES;") as rows:
        found = list(rows)
    assert (rows.query_id, rows.header.types, rows.final_message) == (
        "q1",
        ("STRING", "DECIMAL(4, 2)"),
        "Limit Reached",
    )
    assert found == [Row(("ID", "V"), ("a", Decimal("1.50"))), Row(("ID", "V"), ("b", None), tombstone=True)]
    assert found[0]["ID"] == found[0][0] == "a"


def test_an_unknown_column_is_an_error_with_those_that_there_are() -> None:
    with pytest.raises(KeyError, match="there are ID"):
        Row(("ID",), (1,))["X"]


def test_an_answer_that_fails_late_raises() -> None:
    header = '[{"header":{"queryId":"q","schema":"`A` INTEGER"}},\n'
    late = header + '{"errorMessage":{"message":"broken","error_code":50000}}]\n'
    server = _Server(lambda request: httpx2.Response(200, text=late))
    with _client(server) as client, pytest.raises(SqlServerError, match="broken"):
        list(client.query("SELECT 1 FROM t;"))


def test_inserts_are_lines_and_stop_at_the_first_that_is_refused() -> None:
    acks = '{"seq":0,"status":"ok"}\n{"seq":1,"status":"error","error_code":40000,"message":"bad row"}\n'
    server = _Server(lambda request: httpx2.Response(200, text=acks))
    with _client(server) as client, pytest.raises(SqlServerError, match="bad row"):
        client.insert("s", [{"ID": 1}, {"ID": "x"}])
    assert [json.loads(line) for line in server.requests[0].content.splitlines()] == [
        {"target": "s", "properties": {}},
        {"ID": 1},
        {"ID": "x"},
    ]


def test_decimals_keep_their_digits_in_inserts() -> None:
    assert b'"1.10"' in inserts_body("s", [{"V": Decimal("1.10")}], {})


@pytest.mark.parametrize(
    ("schema", "columns"),
    [
        ("", []),
        ("`A` INTEGER", [("A", "INTEGER")]),
        ("`a``,b` STRING KEY, `M` MAP<STRING, INTEGER>", [("a`,b", "STRING"), ("M", "MAP<STRING, INTEGER>")]),
    ],
)
def test_a_schema_is_split_at_its_columns(schema: str, columns: list[tuple[str, str]]) -> None:
    assert split_schema(schema) == columns


def test_the_async_client_reads_rows_as_they_come() -> None:
    async def ask() -> list[Row]:
        server = _Server(lambda request: httpx2.Response(200, text=_ROWS))
        transport = httpx2.MockTransport(server)
        async with AsyncSqlClient("http://server", transport=transport) as client:
            rows = await client.query("SELECT * FROM t EMIT CHANGES;")
            return [row async for row in rows]

    assert [row["ID"] for row in asyncio.run(ask())] == ["a", "b"]


def test_an_address_without_a_scheme_is_answered_with_one_that_has_it() -> None:
    with (
        SqlClient("127.0.0.1:8088") as client,
        pytest.raises(SqlServerError, match="it begins with http:// or https://"),
    ):
        client.execute("SHOW STREAMS;")
