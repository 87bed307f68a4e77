"""Capture of tables that are changed while their changes wait: each event is of the table as it was then."""

from __future__ import annotations

from typing import Any

import pytest
from tests.postgres.capture import Capture, values
from tests.postgres.test_capture import ops

from hayase.testing.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres
EVERY_VERSION = True
WIDE = 100


@pytest.fixture(params=[False, True], ids=["values", "written"])
def capture(request: pytest.FixtureRequest, postgres_server: PostgresServer, database: str) -> Capture:
    return Capture(postgres_server, database, serialized=request.param)


def behind(capture: Capture) -> None:
    """Let the task end: what comes now waits for the next one."""
    capture.until_snapshot_is_done()
    capture.crash()
    capture.records.clear()


def test_a_key_that_is_stored_out_of_line_stays_when_other_columns_change(
    postgres_server: PostgresServer, database: str, capture: Capture
) -> None:
    with postgres_server.connect(database) as connection:
        others = ", ".join(f"c{number} text" for number in range(WIDE))
        connection.execute(f"CREATE TABLE t (id text PRIMARY KEY, v int, {others})")
        # The row is wider than a page has room for: even its short texts, the key among them, are stored out of line.
        wide = ", ".join(["gen_random_uuid()::text"] * WIDE)
        connection.execute(f"INSERT INTO t SELECT gen_random_uuid()::text, 1, {wide}")
        ((key,),) = connection.execute("SELECT id FROM t").fetchall()
        behind(capture)
        connection.execute("UPDATE t SET v = 2")
        connection.execute("ALTER TABLE t REPLICA IDENTITY FULL")
        connection.execute("UPDATE t SET v = 3")
        records = capture.until(2)
    assert ops(records) == [("u", key), ("u", key)]
    assert [value["after"]["id"] for value in values(records)] == [key, key]


def test_changes_before_another_primary_key_have_the_key_of_then(
    postgres_server: PostgresServer, database: str, capture: Capture
) -> None:
    with postgres_server.connect(database) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, other int NOT NULL)")
        connection.execute("INSERT INTO t VALUES (1, 10), (2, 20)")
        behind(capture)
        connection.execute("DELETE FROM t WHERE id = 1")
        connection.execute("ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (other)")
        connection.execute("DELETE FROM t WHERE id = 2")
        records = capture.until(4)
    assert [record.key for record in records] == [{"id": 1}, {"id": 1}, {"other": 20}, {"other": 20}]


@pytest.mark.parametrize("way", ["ALTER TABLE t RENAME TO old", "DROP TABLE t"], ids=["renamed", "dropped"])
def test_changes_of_a_table_whose_name_another_one_has_by_now_are_its_own(
    postgres_server: PostgresServer, database: str, capture: Capture, way: str
) -> None:
    with postgres_server.connect(database) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL)")
        connection.execute("INSERT INTO t VALUES (1, 1)")
        behind(capture)
        connection.execute("DELETE FROM t")
        connection.execute("INSERT INTO t VALUES (2, 2)")
        connection.execute(way)
        connection.execute("CREATE TABLE t (code text PRIMARY KEY, id int)")
        connection.execute("INSERT INTO t VALUES ('x', 1)")
        records: list[Any] = capture.until(4)
    wanted = [("d", {"id": 1}), (None, {"id": 1}), ("c", {"id": 2}), ("c", {"code": "x"})]
    assert [(record.value and record.value["op"], record.key) for record in records] == wanted


def test_a_null_in_a_column_that_cannot_be_null_by_now_stays_a_null(
    postgres_server: PostgresServer, database: str, capture: Capture
) -> None:
    with postgres_server.connect(database) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, v int, w int)")
        behind(capture)
        connection.execute("INSERT INTO t VALUES (1, NULL, 1)")
        connection.execute("INSERT INTO t VALUES (2, 2, NULL)")
        connection.execute("INSERT INTO t VALUES (3, NULL, NULL)")
        connection.execute("UPDATE t SET v = coalesce(v, -1), w = coalesce(w, -1)")
        connection.execute("ALTER TABLE t ALTER v SET NOT NULL, ALTER w SET NOT NULL")
        records = capture.until(6)
    rows: list[Any] = [value["after"] for value in values(records)]
    assert [(row["v"], row["w"]) for row in rows] == [(None, 1), (2, None), (None, None), (-1, 1), (2, -1), (-1, -1)]


@pytest.mark.postgres_since(18)
def test_a_null_before_a_constraint_that_is_not_validated_is_read_as_one(
    postgres_server: PostgresServer, database: str, capture: Capture
) -> None:
    with postgres_server.connect(database) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
        connection.execute("INSERT INTO t VALUES (1, NULL)")
        connection.execute("ALTER TABLE t ADD CONSTRAINT present NOT NULL v NOT VALID")
        capture.until_snapshot_is_done()
    assert values(capture.records)[0]["after"] == {"id": 1, "v": None}
