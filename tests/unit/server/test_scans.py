"""Scans of tables in columns give the rows that the row form gives."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.asgi import ask
from tests.unit.server.servers import DataServer, rows

from hayase.core.errors import HayaseError
from hayase.server.pull import table
from hayase.server.pull.adhoc import AdHocRun
from hayase.server.pull.adhoc_sql import read_adhoc
from hayase.server.pull.start import _table_pull
from hayase.server.pull.time_limit import limited
from hayase.sql.analysis.pull import PullPlan, analyze_pull
from hayase.sql.ast.statements import SelectQuery
from hayase.sql.errors import StatementError
from hayase.sql.grammar.parser import parse_statement

_SCHEMA = """
CREATE STREAM events (id INT KEY, a BIGINT, d DOUBLE, t VARCHAR, m DECIMAL(9, 2), s STRUCT<x INT, y VARCHAR>,
    l ARRAY<INT>, day DATE, f BOOLEAN) WITH (kafka_topic='events', value_format='JSON', partitions=3);
CREATE TABLE groups AS SELECT id, COUNT(*) AS n, SUM(a) AS total, AVG(d) AS mean, LATEST_BY_OFFSET(t) AS last,
    COLLECT_LIST(a) AS all_a, MAX(m) AS highest FROM events GROUP BY id;
CREATE TABLE few AS SELECT id, SUM(a) + 1 AS total FROM events GROUP BY id HAVING COUNT(*) > 1;
CREATE TABLE pairs WITH (key_format='JSON') AS SELECT id, t, COUNT(*) AS n FROM events GROUP BY id, t;
CREATE TABLE users (id INT PRIMARY KEY, name VARCHAR, age INT) WITH (kafka_topic='users', value_format='JSON',
    partitions=2);
CREATE TABLE adults AS SELECT id, name, age, UCASE(name) AS big FROM users WHERE age >= 18;
CREATE SOURCE TABLE kept (id INT PRIMARY KEY, name VARCHAR, age INT) WITH (kafka_topic='users', value_format='JSON');
"""
_QUERIES = [
    "SELECT * FROM groups;",
    "SELECT id, n * 2 AS twice, last || '!' AS t, total / (id - 3) AS q FROM groups WHERE n > 1;",
    "SELECT ROWTIME, id, mean FROM groups WHERE mean > 0.5 OR last LIKE 'a%';",
    "SELECT all_a[1] AS first, ARRAY_LENGTH(all_a) AS n, highest + 1 AS m FROM groups;",
    "SELECT * FROM few;",
    "SELECT * FROM few WHERE total > 3;",
    "SELECT * FROM pairs;",
    "SELECT id, n FROM pairs WHERE t = 'a' OR t IS NULL;",
    "SELECT * FROM adults;",
    "SELECT name, big, age % 7 AS r FROM adults WHERE 10 / (age - 20) > 0;",
    "SELECT * FROM kept WHERE name IS NOT NULL;",
    "SELECT * FROM groups LIMIT 2;",
    "SELECT * FROM groups WHERE n > 1000;",
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DataServer]:
    folder: Path = tmp_path_factory.mktemp("scans")
    server = DataServer(folder)
    server.execute(_SCHEMA)
    for number in range(40):
        text = "NULL" if number % 7 == 0 else f"'{'abc'[number % 3]}{number}'" if number % 2 else "'a'"
        server.execute(
            f"INSERT INTO events VALUES ({number % 9}, {number}, {number / 3}E0, {text}, {number}.25,"
            f"STRUCT(x := {number}, y := 'y'), ARRAY[{number}], '2024-01-{number % 28 + 1:02}', {number % 2 == 0});"
            f"INSERT INTO users VALUES ({number}, {text}, {number});"
        )
    server.settle()
    yield server
    server.close()


@pytest.mark.long
@pytest.mark.parametrize("query", _QUERIES)
def test_a_scan_in_columns_gives_the_rows_of_the_row_form(
    server: DataServer, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    column_scan = table.column_scan

    def noted(*arguments: Any) -> Any:
        made.append(column_scan(*arguments))
        return made[-1]

    monkeypatch.setattr(table, "column_scan", noted)
    in_columns = asyncio.run(rows(server, query))
    assert [scan is not None for scan in made] == [True]
    monkeypatch.setattr(table, "column_scan", lambda *arguments: None)
    assert in_columns == asyncio.run(rows(server, query))
    assert in_columns or "1000" in query


def test_a_scan_reads_all_batches(server: DataServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "_SCAN_ROWS", 3)
    assert len(asyncio.run(rows(server, "SELECT id FROM groups;"))) == 9
    assert len(asyncio.run(rows(server, "SELECT id FROM groups WHERE n > 0 LIMIT 7;"))) == 7


def test_tables_with_windows_are_read_row_by_row(server: DataServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.execute(
        "CREATE TABLE windows AS SELECT id, COUNT(*) AS n FROM events WINDOW TUMBLING (SIZE 1 DAY) GROUP BY id;"
    )
    server.settle()
    found = asyncio.run(rows(server, "SELECT id, n, WINDOWSTART FROM windows;"))
    assert len(found) == 9 and all(row[2] % 86_400_000 == 0 for row in found)


@pytest.mark.long
def test_a_scan_that_computes_for_too_long_is_ended(server: DataServer, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = dataclasses.replace(server.context.settings, pull_timeout_ms=200)
    monkeypatch.setattr(server.context, "settings", settings)
    slow = "SELECT id, REGEXP_EXTRACT('(a|aa|a.)+$', RPAD('a', 60, 'a') || CHR(10) || 'b') AS x FROM groups;"
    begin_s = time.monotonic()
    headers = {"accept": "application/vnd.ksql.v1+json"}
    status, answer = asyncio.run(ask(server.app, "/query-stream", {"sql": slow}, headers=headers))
    assert status == 200
    assert "The query has computed for more than 0.2 s (hayase.server.pull.timeout.ms)" in str(answer)
    assert time.monotonic() - begin_s < 5.0, "one match alone may take 5 s, and there are 9 rows"


class _Pinned:
    """A store that knows whether it is being read."""

    spec: Any = None
    epoch = None
    is_live = False

    def __init__(self, entries: list[tuple[bytes, bytes]]) -> None:
        self.is_read = False
        self._entries = entries

    @contextmanager
    def reading(self) -> Iterator[list[Any]]:
        self.is_read = True
        try:
            yield [self]
        finally:
            self.is_read = False

    def range(self) -> Iterator[tuple[bytes, bytes]]:
        return iter(self._entries)

    def close(self) -> None:
        assert not self.is_read


def test_an_entry_that_cannot_be_read_ends_a_scan_and_lets_go_of_the_store(server: DataServer) -> None:
    services = server.context
    statement = parse_statement("SELECT * FROM adults;").statement
    assert isinstance(statement, SelectQuery)
    plan = analyze_pull(statement.query, services.engine.catalog, services.engine.functions, {})
    pull = _table_pull(plan, services, services.engine.settings)
    pinned = _Pinned([(b"\x00\x00\x00\x01", b"\x00" * 9)])
    pinned.spec = pull.kept.store
    with pytest.raises(HayaseError) as caught:
        next(limited(pull.batches(pinned), 1000))
    assert not pinned.is_read, caught.value


def test_the_tables_of_ad_hoc_sql_are_read_within_its_time(server: DataServer) -> None:
    query = read_adhoc("SELECT g.id FROM groups g JOIN few f ON g.id = f.id ORDER BY g.id;")
    services = server.context

    def make_pull(plan: PullPlan) -> table.TablePull:
        return _table_pull(plan, services, services.engine.settings)

    with pytest.raises(StatementError, match="took longer than 1e-06 s"):
        AdHocRun(query, services, make_pull, timeout_s=0.000001)
