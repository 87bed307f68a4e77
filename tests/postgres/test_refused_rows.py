"""Rows that no event can hold: `errors.tolerance` decides, for snapshots, the stream, and rows that are read again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.postgres.capture import Capture
from tests.postgres.test_capture import ops

from hayase.connect.exceptions import ConnectError, DataError
from hayase.testing.postgres_server import PostgresServer

if TYPE_CHECKING:
    import psycopg

pytestmark = pytest.mark.postgres
TABLE = "CREATE TABLE t (id int PRIMARY KEY, price numeric(10, 2), amount numeric, tags int[])"
REFUSED = ["'NaN', 1, '{1}'", "1, 'NaN', '{1}'", "1, 'Infinity', '{1}'", "1, '-Infinity', '{1}'", "1, 1, '{{1},{2}}'"]


@pytest.fixture(params=[False, True], ids=["values", "written"])
def capture(request: pytest.FixtureRequest, postgres_server: PostgresServer, database: str) -> Capture:
    return Capture(
        postgres_server, database, serialized=request.param, errors_tolerance="all",
        incremental_snapshot_chunk_size="2", signal_data_collection="public.signals",
    )  # fmt: skip


def rows(first: int) -> str:
    """Rows of which every second one is refused, and the last."""
    good = [f"({first + 2 * number}, 1, 1, '{{1}}')" for number in range(len(REFUSED))]
    bad = [f"({first + 2 * number + 1}, {values})" for number, values in enumerate(REFUSED)]
    return "INSERT INTO t VALUES " + ", ".join(row for pair in zip(good, bad, strict=True) for row in pair)


def refused(capture: Capture) -> list[tuple[Any, ...]]:
    """Table, column and key of each row that was left out."""
    assert capture.context is not None
    contexts = [error.context for error in capture.context.refused if isinstance(error, DataError)]
    assert all("/" in str(context["lsn"]) for context in contexts)
    return [(context["table"], context["column"], context["key"]) for context in contexts]


def wanted(first: int) -> list[tuple[Any, ...]]:
    columns = ["price", "amount", "amount", "amount", "tags"]
    return [("public.t", column, {"id": str(first + 2 * number + 1)}) for number, column in enumerate(columns)]


def test_rows_that_cannot_be_captured_are_left_out_and_reported(
    postgres_server: PostgresServer, database: str, capture: Capture
) -> None:
    with postgres_server.connect(database) as connection:
        connection.execute(TABLE)
        connection.execute("CREATE TABLE signals (id text PRIMARY KEY, type text, data text)")
        connection.execute(rows(1))
        capture.until_snapshot_is_done()
        assert ops(capture.records) == [("r", number) for number in (1, 3, 5, 7, 9)]
        assert refused(capture) == wanted(1)
        connection.execute(rows(11))
        capture.until(10)
        assert refused(capture) == wanted(1) + wanted(11)
        capture.records.clear()
        connection.execute(
            "INSERT INTO signals VALUES ('1', 'execute-snapshot', '{\"data-collections\": [\"public.t\"]}')"
        )
        records = [record for record in capture.until(11) if record.topic == "shop.public.t"]
        while len(refused(capture)) < 20:
            capture.step()
    assert ops(records) == [("r", number) for number in range(1, 20, 2)]
    assert refused(capture) == 2 * (wanted(1) + wanted(11))


def test_a_snapshot_goes_on_behind_rows_that_were_left_out(
    postgres_server: PostgresServer, database: str, capture: Capture
) -> None:
    with postgres_server.connect(database) as connection:
        connection.execute(TABLE)
        connection.execute("INSERT INTO t SELECT i, 'NaN', 1, '{1}' FROM generate_series(1, 6) i")
        capture.step()
        capture.step()
        capture.crash()
        capture.until_snapshot_is_done()
    assert capture.records == []
    assert refused(capture) == [("public.t", "price", {"id": str(number)}) for number in (5, 6)]


def test_a_row_that_cannot_be_captured_fails_the_task_where_none_is_left_out(
    postgres_server: PostgresServer, database: str
) -> None:
    capture = Capture(postgres_server, database)
    with postgres_server.connect(database) as connection:
        connection.execute(TABLE)
        connection.execute("INSERT INTO t VALUES (1, 'NaN', 1, '{1}')")
        with pytest.raises(DataError, match="NaN"):
            capture.until_snapshot_is_done()


@pytest.mark.parametrize(
    "change", ["DROP TABLE b", "ALTER TABLE b RENAME TO other", "ALTER PUBLICATION dbz_publication DROP TABLE b"]
)
@pytest.mark.parametrize("key", ["PRIMARY KEY", ""], ids=["chunks", "whole"])
def test_a_snapshot_goes_on_without_a_table_that_is_dropped(
    postgres_server: PostgresServer, database: str, change: str, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    capture = Capture(
        postgres_server, database, incremental_snapshot_chunk_size="2", table_include_list="public[.][abc]",
        publication_autocreate_mode="filtered",
    )  # fmt: skip
    with postgres_server.connect(database) as connection:
        for table in "abc":
            connection.execute(f"CREATE TABLE {table} (id int {key if table == 'b' else 'PRIMARY KEY'})")
            connection.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL")
            connection.execute(f"INSERT INTO {table} SELECT generate_series(1, 5)")
        while not any(record.topic.endswith(".b" if key else ".a") for record in capture.records):
            capture.step()
        connection.execute(change)
        capture.until_snapshot_is_done()
        connection.execute("INSERT INTO c VALUES (6)")
        while ops(capture.records)[-1] != ("c", 6):
            capture.step()
    topics = [record.topic for record in capture.records]
    read_of_b = 5 if "PUBLICATION" in change else 2 if key else 0
    assert [topics.count(f"shop.public.{table}") for table in "abc"] == [5, read_of_b, 6]
    assert ("public.b was dropped" in caplog.text) is ("PUBLICATION" not in change)


def alter_in_the_snapshot(capture: Capture, connection: psycopg.Connection[Any], change: str) -> None:
    """Change a table of five rows when the first two are read."""
    connection.execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
    connection.execute("INSERT INTO t SELECT i, i FROM generate_series(1, 5) i")
    capture.step()
    connection.execute(f"ALTER TABLE t {change}")


def test_a_snapshot_fails_where_the_key_of_a_table_has_another_name_by_now(
    postgres_server: PostgresServer, database: str
) -> None:
    capture = Capture(postgres_server, database, incremental_snapshot_chunk_size="2")
    with postgres_server.connect(database) as connection:
        alter_in_the_snapshot(capture, connection, "RENAME COLUMN id TO number")
        with pytest.raises(ConnectError, match="id"):
            capture.until_snapshot_is_done()


@pytest.mark.parametrize("change", ["DROP COLUMN v", "RENAME COLUMN v TO w"])
def test_a_snapshot_goes_on_with_the_columns_that_a_table_has_by_now(
    postgres_server: PostgresServer, database: str, change: str
) -> None:
    capture = Capture(postgres_server, database, incremental_snapshot_chunk_size="2")
    with postgres_server.connect(database) as connection:
        alter_in_the_snapshot(capture, connection, change)
        capture.until_snapshot_is_done()
    assert ops(capture.records) == [("r", number) for number in range(1, 6)]
    first, *_, last = (set(record.value["after"]) for record in capture.records)
    assert (first, last) == ({"id", "v"}, {"id", "w"} if "RENAME" in change else {"id"})
