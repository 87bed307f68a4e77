"""Pull and push queries over the REST interface, with queries that run in the server's process."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.unit.server.asgi import Answer, ask, request
from tests.unit.server.loops import in_loop
from tests.unit.server.servers import DataServer, refused, rows

from hayase.server import queries
from hayase.server.pull import start
from hayase.sql.grammar.limits import MAX_TOKENS

_KSQL_JSON = {"accept": "application/vnd.ksql.v1+json"}
_EARLIEST = {"auto.offset.reset": "earliest"}
_STATEMENTS = """
    CREATE STREAM orders (id INT KEY, item STRING, cents INT)
        WITH (kafka_topic='orders', value_format='JSON', partitions=3);
    CREATE TABLE sales AS SELECT item, COUNT(*) AS n, SUM(cents) AS total FROM orders GROUP BY item;
    CREATE TABLE windows AS SELECT item, COUNT(*) AS n FROM orders WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY item;
    CREATE TABLE sessions AS SELECT item, COUNT(*) AS n FROM orders WINDOW SESSION (10 SECONDS) GROUP BY item;
    CREATE TABLE names (id INT PRIMARY KEY, name STRING) WITH (kafka_topic='names', value_format='JSON', partitions=1);
    CREATE SOURCE TABLE kept (id INT PRIMARY KEY, name STRING) WITH (kafka_topic='names', value_format='JSON');
    CREATE TABLE copied AS SELECT id, UCASE(name) AS name FROM names;
"""
_ROWS = [(1, "book", 100, 1_000), (2, "pen", 20, 2_000), (3, "book", 200, 12_000), (4, "ink", 7, 60_000)]


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[DataServer]:
    server = DataServer(tmp_path_factory.mktemp("server"))
    server.execute(_STATEMENTS)
    server.execute(
        "".join(
            f"INSERT INTO orders (ROWTIME, id, item, cents) VALUES ({time_ms}, {id_}, '{item}', {cents});"
            for id_, item, cents, time_ms in _ROWS
        )
        + "INSERT INTO names (id, name) VALUES (1, 'ada'); INSERT INTO names (id, name) VALUES (2, 'bob');"
    )
    server.settle()
    yield server
    server.close()


class TestPullQueries:
    @in_loop
    async def test_a_key_finds_its_row(self, server: DataServer) -> None:
        assert await rows(server, "SELECT * FROM sales WHERE item = 'book';") == [["book", 2, 300]]

    @in_loop
    async def test_metrics_have_how_long_look_ups_and_scans_take(self, server: DataServer) -> None:
        before = await _number(server, "hayase_sql_pull_query_seconds_count")
        await rows(server, "SELECT * FROM sales WHERE item = 'book';")
        await rows(server, "SELECT * FROM sales;")
        assert await _number(server, "hayase_sql_pull_query_seconds_count") == before + 2
        assert await _number(server, "hayase_sql_pull_query_seconds_sum") > 0

    @in_loop
    async def test_metrics_have_how_long_rows_of_push_queries_wait(self, server: DataServer) -> None:
        before = await _number(server, "hayase_sql_push_wait_seconds_count")
        await rows(server, "SELECT * FROM orders EMIT CHANGES LIMIT 1;", _EARLIEST)
        assert await _number(server, "hayase_sql_push_wait_seconds_count") > before

    @in_loop
    async def test_a_key_that_is_not_there_finds_none(self, server: DataServer) -> None:
        assert await rows(server, "SELECT * FROM sales WHERE item = 'x';") == []

    @in_loop
    async def test_a_long_statement_is_analyzed_beside_other_requests(
        self, server: DataServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        loop, found = threading.get_ident(), []
        for part in (queries, start):
            for name in ("parse_statement", "analyze_pull", "build_push_topology"):
                if (real := getattr(part, name, None)) is not None:
                    monkeypatch.setattr(part, name, _noting_thread(real, found))
        ids = ", ".join(map(str, range(1_000)))
        assert await rows(server, f"SELECT n FROM sales WHERE total IN ({ids}) AND item = 'pen';") == [[1]]
        assert await rows(server, f"SELECT id FROM orders WHERE id IN ({ids}) AND cents = 7;") == [[4]]
        assert len(found) == 5
        assert loop not in found

    @pytest.mark.parametrize("emit", ["", " EMIT CHANGES"])
    @in_loop
    async def test_a_statement_with_too_many_words_is_refused_with_the_limit(
        self, server: DataServer, emit: str
    ) -> None:
        conditions = " OR ".join(f"n = {number}" for number in range(MAX_TOKENS // 4))
        answer = await refused(server, f"SELECT * FROM sales WHERE {conditions}{emit};")
        assert answer["error_code"] == 40001
        assert f"at most {MAX_TOKENS} are allowed" in answer["message"]

    @in_loop
    async def test_several_keys_find_each_once(self, server: DataServer) -> None:
        found = await rows(server, "SELECT item FROM sales WHERE item IN ('book', 'pen', 'book') OR item = 'pen';")
        assert sorted(found) == [["book"], ["pen"]]

    @in_loop
    async def test_a_scan_finds_rows_of_all_partitions(self, server: DataServer) -> None:
        assert sorted(await rows(server, "SELECT item, n FROM sales;")) == [["book", 2], ["ink", 1], ["pen", 1]]

    @in_loop
    async def test_a_condition_on_a_value_is_checked_row_by_row(self, server: DataServer) -> None:
        assert await rows(server, "SELECT item FROM sales WHERE total > 100;") == [["book"]]

    @in_loop
    async def test_an_expression_makes_a_column(self, server: DataServer) -> None:
        assert await rows(server, "SELECT n + 1, UCASE(item) AS i FROM sales WHERE item = 'pen';") == [[2, "PEN"]]

    @in_loop
    async def test_a_limit_ends_the_rows(self, server: DataServer) -> None:
        assert len(await rows(server, "SELECT * FROM sales LIMIT 2;")) == 2
        assert await rows(server, "SELECT * FROM sales LIMIT 0;") == []

    @in_loop
    async def test_windows_of_a_key_have_their_bounds(self, server: DataServer) -> None:
        found = await rows(server, "SELECT * FROM windows WHERE item = 'book';")
        assert found == [["book", 0, 10_000, 1], ["book", 10_000, 20_000, 1]]

    @in_loop
    async def test_bounds_choose_among_windows(self, server: DataServer) -> None:
        text = "SELECT windowstart FROM windows WHERE item = 'book' AND windowend > 10000 AND windowstart <= 10000;"
        assert await rows(server, text) == [[10_000]]

    @pytest.mark.parametrize(
        ("condition", "starts"),
        [
            ("WINDOWSTART >= 0 OR WINDOWEND > 5", [0, 10_000]),
            ("WINDOWSTART < 10000 OR WINDOWSTART <= 10000", [0, 10_000]),
            ("WINDOWSTART = 10000 OR WINDOWSTART = 0 OR WINDOWSTART = 10000", [0, 10_000]),
            ("WINDOWSTART > 5 OR WINDOWSTART > 0", [10_000]),
            ("(WINDOWSTART > 20000 AND WINDOWSTART < 5) OR WINDOWSTART = 0", [0]),
        ],
    )
    @in_loop
    async def test_a_window_that_several_alternatives_mean_is_found_once(
        self, server: DataServer, condition: str, starts: list[int]
    ) -> None:
        found = await rows(server, f"SELECT WINDOWSTART FROM windows WHERE item = 'book' AND ({condition});")
        assert found == [[start] for start in starts]

    @in_loop
    async def test_sessions_of_a_key_end_with_their_last_record(self, server: DataServer) -> None:
        found = await rows(server, "SELECT * FROM sessions WHERE item = 'book';")
        assert found == [["book", 1_000, 1_000, 1], ["book", 12_000, 12_000, 1]]

    @in_loop
    async def test_a_source_table_answers(self, server: DataServer) -> None:
        assert await rows(server, "SELECT name, id FROM kept WHERE id = 2;") == [["bob", 2]]

    @in_loop
    async def test_a_copied_table_answers_with_its_own_columns(self, server: DataServer) -> None:
        assert await rows(server, "SELECT * FROM copied WHERE id = 1;") == [[1, "ADA"]]

    @in_loop
    async def test_a_stream_is_read_to_its_end(self, server: DataServer) -> None:
        assert sorted(await rows(server, "SELECT id, item FROM orders WHERE cents > 10;")) == [
            [1, "book"],
            [2, "pen"],
            [3, "book"],
        ]

    @in_loop
    async def test_a_table_that_no_query_keeps_is_refused_with_advice(self, server: DataServer) -> None:
        answer = await refused(server, "SELECT * FROM names;")
        assert "CREATE TABLE QUERYABLE_NAMES AS SELECT * FROM NAMES" in answer["message"]
        assert answer["error_code"] == 40001

    @in_loop
    async def test_a_scan_that_is_switched_off_is_refused(self, server: DataServer) -> None:
        off = {"ksql.query.pull.table.scan.enabled": False}
        answer = await refused(server, "SELECT * FROM sales WHERE total > 100;", off)
        assert "WHERE clause missing key column for disjunct: (TOTAL > 100)" in answer["message"]

    @in_loop
    async def test_the_header_marks_the_columns_of_the_key(self, server: DataServer) -> None:
        body = {"ksql": "SELECT n, item FROM sales WHERE item = 'x';"}
        _, (header,) = await ask(server.app, "/query", body)
        assert header["header"]["schema"] == "`N` BIGINT, `ITEM` STRING KEY"

    @in_loop
    async def test_lines_are_the_encoding_without_accept(self, server: DataServer) -> None:
        async with request(server.app, "/query-stream", {"sql": "SELECT n FROM sales WHERE item='pen';"}) as answer:
            lines = (await answer.body()).decode().splitlines()
        assert json.loads(lines[0])["columnNames"] == ["N"]
        assert lines[1:] == ["[1]"]


class TestPushQueries:
    @in_loop
    async def test_rows_come_until_the_limit(self, server: DataServer) -> None:
        body = {"ksql": "SELECT id FROM orders EMIT CHANGES LIMIT 2;", "streamsProperties": _EARLIEST}
        status, answer = await ask(server.app, "/query", body)
        assert status == 200
        assert len(answer) == 4
        assert answer[-1] == {"finalMessage": "Limit Reached"}

    @in_loop
    async def test_a_record_that_is_written_comes_at_once(self, server: DataServer) -> None:
        body = {"sql": "SELECT id, cents * 2 AS c FROM orders WHERE cents = 5 EMIT CHANGES;"}
        async with request(
            server.app, "/query-stream", {**body, "properties": {"auto.offset.reset": "latest"}}
        ) as answer:
            await answer.line()
            await asyncio.to_thread(_insert, server, 9, 5)
            assert await answer.line() == "[9,10]"

    @in_loop
    async def test_an_aggregate_shows_every_update(self, server: DataServer) -> None:
        text = "SELECT item, COUNT(*) AS n FROM orders WHERE item = 'book' GROUP BY item EMIT CHANGES LIMIT 2;"
        assert await rows(server, text, _EARLIEST) == [["book", 1], ["book", 2]]

    @in_loop
    async def test_a_client_that_goes_ends_its_query(self, server: DataServer) -> None:
        body = {"sql": "SELECT * FROM orders EMIT CHANGES;"}
        async with request(server.app, "/query-stream", body) as answer:
            await answer.line()
            assert len(server.context.push_queries) == 1
        assert len(server.context.push_queries) == 0

    @in_loop
    async def test_close_query_ends_it_in_good_order(self, server: DataServer) -> None:
        body = {"ksql": "SELECT * FROM orders EMIT CHANGES;", "streamsProperties": {"auto.offset.reset": "latest"}}
        async with request(server.app, "/query", body) as answer:
            query_id = await _query_id(answer)
            status = (await _closed(server, query_id))[0]
            assert status == 200
            assert "Query Completed" in (await answer.line() or "")
            assert await answer.line() is None

    @in_loop
    async def test_an_unknown_query_cannot_be_closed(self, server: DataServer) -> None:
        status, body = await _closed(server, "nothing")
        assert status == 400
        assert b"nothing" in body

    @in_loop
    async def test_more_queries_than_allowed_are_refused(self, server: DataServer, monkeypatch) -> None:
        monkeypatch.setattr(server.context.push_queries, "_at_most", 0)
        status, answer = await ask(server.app, "/query-stream", {"sql": "SELECT * FROM orders EMIT CHANGES;"})
        assert (status, answer["error_code"]) == (400, 40003)

    @in_loop
    async def test_a_wrong_query_is_refused_before_it_starts(self, server: DataServer) -> None:
        answer = await refused(server, "SELECT nothing FROM orders EMIT CHANGES;")
        assert "'NOTHING' cannot be resolved" in answer["message"]

    @in_loop
    async def test_a_statement_that_is_no_query_is_refused(self, server: DataServer) -> None:
        assert (await refused(server, "SHOW STREAMS;"))["error_code"] == 40002

    @in_loop
    async def test_a_body_that_is_no_request_is_refused(self, server: DataServer) -> None:
        for body in (b"x", [1], {"sql": 1}, {}, {"sql": "S;", "properties": {"a": []}}):
            status, answer = await ask(server.app, "/query-stream", body)
            assert (status, answer["error_code"]) == (400, 40000)

    @in_loop
    async def test_print_shows_records(self, server: DataServer) -> None:
        body = {"ksql": "PRINT orders FROM BEGINNING LIMIT 4;"}
        async with request(server.app, "/query", body) as answer:
            lines = (await answer.body()).decode().splitlines()
        assert len(lines) == 4
        assert any('key: 1, value: {"ITEM":"book","CENTS":100}' in line for line in lines)

    @in_loop
    async def test_print_of_an_unknown_topic_is_refused(self, server: DataServer) -> None:
        status, answer = await ask(server.app, "/query", {"ksql": "PRINT nothing;"})
        assert status == 400
        assert "Could not find topic" in answer["message"]


def _insert(server: DataServer, id_: int, cents: int) -> None:
    server.execute(f"INSERT INTO orders (id, item, cents) VALUES ({id_}, 'x', {cents});")


async def _number(server: DataServer, name: str) -> float:
    """A number of /metrics."""
    async with request(server.app, "/metrics", method="GET") as answer:
        lines = (await answer.body()).decode().splitlines()
    (number,) = [float(line.split()[1]) for line in lines if line.startswith(f"{name} ")]
    return number


async def _query_id(answer: Answer) -> str:
    line = (await answer.line() or "").lstrip("[").rstrip(",")
    query_id: str = json.loads(line)["header"]["queryId"]
    return query_id


async def _closed(server: DataServer, query_id: str) -> tuple[int, bytes]:
    async with request(server.app, "/close-query", {"queryId": query_id}) as answer:
        return answer.status, await answer.body()


def _noting_thread(real: Callable[..., Any], found: list[int]) -> Callable[..., Any]:
    def noting(*arguments: Any, **named: Any) -> Any:
        found.append(threading.get_ident())
        return real(*arguments, **named)

    return noting
