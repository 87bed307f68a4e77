"""Ad-hoc SQL over tables: what pull queries of ksqlDB cannot do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.unit.server.asgi import ask
from tests.unit.server.loops import in_loop
from tests.unit.server.servers import DataServer, refused, rows

from hayase.server.pull.adhoc_sql import is_candidate, read_adhoc
from hayase.sql.errors import ParseFailedError, StatementError
from hayase.sql.grammar.limits import MAX_TOKENS

_STATEMENTS = """
    CREATE STREAM orders (id INT KEY, item STRING, cents DECIMAL(6, 2), tags ARRAY<STRING>)
        WITH (kafka_topic='orders', value_format='JSON', partitions=2);
    CREATE TABLE sales AS SELECT item, COUNT(*) AS n, SUM(cents) AS total FROM orders GROUP BY item;
    CREATE TABLE prices (item STRING PRIMARY KEY, price INT, day DATE)
        WITH (kafka_topic='prices', value_format='JSON', partitions=1);
    CREATE TABLE kept_prices AS SELECT * FROM prices;
    INSERT INTO orders VALUES (1, 'book', 1.50, ARRAY['a']);
    INSERT INTO orders VALUES (2, 'pen', 0.25, NULL);
    INSERT INTO orders VALUES (3, 'book', 2.00, NULL);
    INSERT INTO prices VALUES ('book', 3, '2020-01-02');
    INSERT INTO prices VALUES ('ink', 9, NULL);
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[DataServer]:
    server = DataServer(tmp_path_factory.mktemp("adhoc"))
    server.execute(_STATEMENTS)
    server.settle()
    yield server
    server.close()


@pytest.mark.long
@in_loop
async def test_tables_are_joined(server: DataServer) -> None:
    text = "SELECT s.item, s.n, p.price, p.day FROM sales s LEFT JOIN kept_prices p ON s.item = p.item ORDER BY 1;"
    assert await rows(server, text) == [["book", 2, 3, "2020-01-02"], ["pen", 1, None, None]]


@in_loop
async def test_decimals_keep_their_digits(server: DataServer) -> None:
    assert await rows(server, "SELECT SUM(total) AS t, COUNT(*) AS c FROM sales;") == [[3.75, 2]]


@in_loop
async def test_rows_are_sorted_and_cut(server: DataServer) -> None:
    assert await rows(server, "SELECT item FROM sales ORDER BY n DESC LIMIT 1;") == [["book"]]
    assert await rows(server, "SELECT item FROM sales ORDER BY item OFFSET 1;") == [["pen"]]


@in_loop
async def test_with_and_subqueries_are_allowed(server: DataServer) -> None:
    text = "WITH many AS (SELECT * FROM sales WHERE n > 1) SELECT item FROM many WHERE n = (SELECT MAX(n) FROM sales);"
    assert await rows(server, text) == [["book"]]


@in_loop
async def test_names_are_in_upper_case_unless_quoted(server: DataServer) -> None:
    body = {"sql": "SELECT MAX(n) AS most, MIN(n) AS `least` FROM sales;"}
    _, answer = await ask(server.app, "/query-stream", body, headers={"accept": "application/json"})
    assert answer[0]["columnNames"] == ["MOST", "least"]


@in_loop
async def test_a_table_that_is_not_there_is_refused(server: DataServer) -> None:
    assert "NOTHING does not exist" in (await refused(server, "SELECT COUNT(*) FROM nothing ORDER BY 1;"))["message"]


@in_loop
async def test_a_table_that_is_not_kept_is_refused_with_advice(server: DataServer) -> None:
    assert "QUERYABLE_PRICES" in (await refused(server, "SELECT item FROM prices ORDER BY 1;"))["message"]


@in_loop
async def test_a_column_whose_name_protobuf_does_not_have_is_refused_in_that_encoding(server: DataServer) -> None:
    body = {"sql": "SELECT item, COUNT(*) FROM sales GROUP BY item;"}
    accept = {"accept": "application/vnd.ksql.v1+protobuf"}
    status, answer = await ask(server.app, "/query-stream", body, headers=accept)
    assert (status, answer["error_code"]) == (400, 40001)
    assert "count_star()" in answer["message"] and "AS" in answer["message"]


@in_loop
async def test_streams_are_refused(server: DataServer) -> None:
    assert "is a stream" in (await refused(server, "SELECT item FROM orders ORDER BY 1;"))["message"]


@in_loop
async def test_an_error_of_the_query_is_one_of_the_statement(server: DataServer) -> None:
    assert (await refused(server, "SELECT nothing FROM sales ORDER BY 1;"))["error_code"] == 40001


@in_loop
async def test_states_of_before_are_not_kept_without_spark(server: DataServer) -> None:
    assert "AS OF" in (await refused(server, "SELECT * FROM sales ORDER BY item AS OF EPOCH 3;"))["message"]


@in_loop
async def test_it_can_be_switched_off(server: DataServer) -> None:
    off = {"hayase.query.pull.adhoc.enabled": False}
    answer = await refused(server, "SELECT item FROM sales ORDER BY item;", off)
    assert "Syntax Error" in answer["message"]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM glob('/*')",
        "SELECT * FROM duckdb_settings()",
        "SELECT current_setting('threads')",
        "SELECT * FROM other.sales",
        "SELECT (SELECT content FROM read_blob('/etc/passwd'))",
        "WITH x AS (SELECT * FROM parquet_scan('/x')) SELECT * FROM x",
        "SELECT * FROM query('SELECT 1')",
        "SELECT * FROM range(10)",
    ],
)
def test_nothing_but_tables_of_the_catalog_is_read(text: str) -> None:
    with pytest.raises(StatementError) as raised:
        read_adhoc(text)
    assert raised.value.condition == "NOT_ALLOWED"


@pytest.mark.parametrize(
    "text", ["COPY sales TO '/tmp/x'", "ATTACH 'x'", "SELECT 1; SELECT 2", "CREATE TABLE t (a INT)", "SET threads = 2"]
)
def test_only_one_query_is_understood(text: str) -> None:
    with pytest.raises((ParseFailedError, StatementError)):
        read_adhoc(text)


def test_a_query_has_no_more_words_than_any_other_statement() -> None:
    conditions = " OR ".join(f"n = {number}" for number in range(MAX_TOKENS // 4))
    with pytest.raises(ParseFailedError, match=f"at most {MAX_TOKENS} are allowed"):
        read_adhoc(f"SELECT * FROM sales WHERE {conditions};")


def test_a_file_is_no_table() -> None:
    assert read_adhoc("SELECT * FROM '/etc/passwd'").tables == ("/etc/passwd",)


@pytest.mark.parametrize(
    ("text", "candidate"),
    [
        ("SELECT a FROM b ORDER BY a;", True),
        ("WITH x AS (SELECT 1) SELECT * FROM x", True),
        ("SELECT a FROM b EMIT CHANGES;", False),
        ("DROP TABLE b;", False),
        ("SELECT 'a", False),
    ],
)
def test_only_queries_without_emit_are_tried(text: str, candidate: bool) -> None:
    assert is_candidate(text) is candidate
