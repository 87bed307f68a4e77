"""Look-ups whose analysis is used again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing

import pytest
from tests.unit.server.loops import in_loop
from tests.unit.server.servers import DataServer, rows

from hayase.serde import partition_for_key
from hayase.server.pull.prepared import StatementShape
from hayase.sql.plan.kept_table import kept_table

_STATEMENTS = """
    CREATE STREAM orders (id INT KEY, item STRING, cents INT)
        WITH (kafka_topic='orders', value_format='JSON', partitions=2);
    CREATE TABLE sales AS SELECT item, COUNT(*) AS n FROM orders GROUP BY item;
    CREATE TABLE pairs WITH (key_format='JSON')
        AS SELECT item, cents, COUNT(*) AS n FROM orders GROUP BY item, cents;
    CREATE TABLE ids AS SELECT id, COUNT(*) AS n FROM orders GROUP BY id;
    INSERT INTO orders VALUES (1, 'it''s', 10);
    INSERT INTO orders VALUES (-2, 'pen', 20);
    INSERT INTO orders VALUES (3, 'ink', 30);
    INSERT INTO orders VALUES (4, 'cup', 40);
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[DataServer]:
    server = DataServer(tmp_path_factory.mktemp("prepared"))
    server.execute(_STATEMENTS)
    server.settle()
    yield server
    server.close()


@in_loop
async def test_the_second_key_is_found_without_analysis(server: DataServer, monkeypatch) -> None:
    assert await rows(server, "SELECT * FROM sales WHERE item = 'pen';") == [["pen", 1]]
    monkeypatch.setattr("hayase.server.queries.start_pull", None)
    assert await rows(server, "SELECT * FROM sales WHERE item = 'it''s';") == [["it's", 1]]
    assert await rows(server, "SELECT * FROM sales WHERE item = '';") == []


@in_loop
async def test_keys_of_several_columns_are_in_any_order(server: DataServer) -> None:
    assert await rows(server, "SELECT n FROM pairs WHERE cents = 10 AND item = 'it''s';") == [[1]]
    assert await rows(server, "SELECT n FROM pairs WHERE cents = 20 AND item = 'pen';") == [[1]]
    assert await rows(server, "SELECT n FROM pairs WHERE cents = 20 AND item = 'it''s';") == []


@in_loop
async def test_negative_keys_are_found(server: DataServer) -> None:
    assert await rows(server, "SELECT n FROM ids WHERE id = 1;") == [[1]]
    assert await rows(server, "SELECT n FROM ids WHERE id = -2;") == [[1]]


@pytest.mark.parametrize("table", ["IDS", "SALES"])
def test_a_row_is_in_the_partition_that_its_key_says(server: DataServer, table: str) -> None:
    query = next(each for each in server.context.engine.queries.values() if each.sink == table)
    source = server.context.engine.catalog.find(table)
    assert source is not None
    kept = kept_table(query.topology, query.plan, source)
    assert kept is not None
    read = kept.store.key_serde.from_bytes
    with (
        closing(server.context.stores.open_store(query.id, kept.store.name)) as store,
        store.reading() as partitions,
    ):
        places = {read(key): number for number, each in enumerate(partitions) for key, _ in each.range()}
    assert set(places.values()) == {0, 1}
    assert places == {key: partition_for_key(kept.partitioned_by.to_bytes(key), 2) for key in places}


@in_loop
async def test_another_limit_is_another_statement(server: DataServer) -> None:
    assert await rows(server, "SELECT n FROM ids WHERE id = 1 LIMIT 1;") == [[1]]
    assert await rows(server, "SELECT n FROM ids WHERE id = 1 LIMIT 0;") == []


@in_loop
async def test_a_literal_in_select_is_part_of_the_shape(server: DataServer) -> None:
    assert await rows(server, "SELECT n + 1 FROM ids WHERE id = 1;") == [[2]]
    assert await rows(server, "SELECT n + 2 FROM ids WHERE id = 1;") == [[3]]


def test_a_table_that_is_made_anew_is_analyzed_anew(tmp_path) -> None:
    server = DataServer(tmp_path)
    try:
        server.execute(_STATEMENTS)
        server.settle()
        assert asyncio.run(rows(server, "SELECT * FROM sales WHERE item = 'pen';")) == [["pen", 1]]
        server.execute(
            "DROP TABLE sales; CREATE TABLE sales AS SELECT item, 7 AS x, SUM(cents) AS c FROM orders GROUP BY item;"
        )
        server.settle()
        assert asyncio.run(rows(server, "SELECT * FROM sales WHERE item = 'pen';")) == [["pen", 7, 20]]
    finally:
        server.close()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t;",
        "SELECT 'a' FROM t WHERE k = 1;",
        "SELECT * FROM t WHERE k = 1; -- note",
        "SELECT * FROM t WHERE k = '${x}';",
        "SELECT `a where` FROM t WHERE k = 1;",
        "SELECT * FROM t WHERE k = v;",
    ],
)
def test_some_statements_have_no_shape(text: str) -> None:
    assert StatementShape.of(text, {}) is None


def test_settings_of_the_request_are_part_of_the_shape() -> None:
    text = "SELECT * FROM t WHERE k = 1;"
    assert StatementShape.of(text, {"a": 1}) != StatementShape.of(text, {"a": 2})
