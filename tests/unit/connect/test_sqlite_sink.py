"""Rows of an SQLite database, exactly once."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from hayase.connect.exceptions import ConnectError
from hayase.connect.generations import SupersededError
from hayase.log.protocol import Log, OutputBatch
from hayase.testing.connect import ConnectorTestDriver

JSON = {
    "key.converter": "JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter": "JsonConverter",
    "value.converter.schemas.enable": "false",
}
KEYED = {"insert.mode": "upsert", "primary.key.mode": "record_key", "delete.enabled": "true"}


class Table:
    def __init__(self, log: Log, path: Path) -> None:
        self.log, self.path = log, path / "shop.db"
        log.create_topic("users", 1, {})

    def send(self, *records: tuple[object, object]) -> None:
        encoded = [tuple(None if part is None else json.dumps(part).encode() for part in each) for each in records]
        keys, values = [each[0] for each in encoded], [each[1] for each in encoded]
        self.log.writer().append([OutputBatch("users", keys, values, [0] * len(records))])

    def sink(self, **props: str) -> ConnectorTestDriver:
        given = {"connector.class": "SqliteSink", "name": "db", "topics": "users", "connection.path": str(self.path)}
        more = {key.replace("_", "."): value for key, value in props.items()}
        return ConnectorTestDriver({**given, **JSON, "auto.create": "true", **more}, log=self.log)

    def rows(self, statement: str = "SELECT * FROM users ORDER BY 1") -> list[tuple[object, ...]]:
        with sqlite3.connect(self.path) as database:
            return database.execute(statement).fetchall()


@pytest.fixture
def table(log: Log, tmp_path: Path) -> Table:
    return Table(log, tmp_path)


def upsert(table: Table, **props: str) -> ConnectorTestDriver:
    return table.sink(**{**{key.replace(".", "_"): value for key, value in KEYED.items()}, **props})


def test_records_are_inserted_into_a_table_that_is_made_for_them(table: Table) -> None:
    table.send((None, {"id": 1, "name": "ada"}), (None, {"id": 2, "name": "bob"}))
    with table.sink() as sink:
        sink.run_to_end()
    assert table.rows() == [(1, "ada"), (2, "bob")]


def test_upserts_replace_rows_and_tombstones_delete_them(table: Table) -> None:
    table.send(({"id": 1}, {"id": 1, "name": "ada"}), ({"id": 2}, {"id": 2, "name": "bob"}))
    table.send(({"id": 1}, {"id": 1, "name": "Ada"}), ({"id": 2}, None))
    with upsert(table) as sink:
        sink.run_to_end()
    assert table.rows() == [(1, "Ada")]


def test_a_table_is_made_by_the_first_row_though_a_deletion_comes_before_it(table: Table) -> None:
    table.send(({"id": 9}, None), ({"id": 1}, {"id": 1, "name": "a"}))
    with upsert(table) as sink:
        sink.run_to_end()
    assert table.rows() == [(1, "a")]


def test_an_update_changes_rows_that_exist_only(table: Table) -> None:
    table.send(({"id": 1}, {"id": 1, "name": "ada"}))
    with upsert(table) as sink:
        sink.run_to_end()
        sink.stop()
    table.send(({"id": 1}, {"id": 1, "name": "Ada"}), ({"id": 9}, {"id": 9, "name": "new"}))
    with upsert(table, insert_mode="update") as sink:
        sink.run_to_end()
    assert table.rows() == [(1, "Ada")]


def test_an_envelope_of_debezium_is_the_row_that_it_holds(table: Table) -> None:
    source = {"before": None, "op": "c", "source": {}, "after": {"id": 1, "name": "ada"}}
    table.send(({"id": 1}, source))
    with upsert(table) as sink:
        sink.run_to_end()
    assert table.rows() == [(1, "ada")]


def test_a_sink_that_was_killed_writes_nothing_twice(table: Table) -> None:
    table.send(*[(None, {"n": number}) for number in range(10)])
    with table.sink() as sink:
        sink.step()
        sink.kill()
        table.send(*[(None, {"n": number}) for number in range(10, 15)])
        sink.run_to_end()
    assert [row[0] for row in table.rows()] == list(range(15))


def test_a_sink_of_an_earlier_generation_writes_nothing(table: Table) -> None:
    first = table.sink()
    first.start()
    table.sink().start()
    table.send((None, {"n": 1}))
    with pytest.raises(SupersededError):
        first.step()
    assert table.rows("SELECT name FROM sqlite_master WHERE name = 'users'") == []


def test_a_new_field_gets_a_column_if_the_table_may_evolve(table: Table) -> None:
    table.send((None, {"id": 1}), (None, {"id": 2, "city": "Oslo"}))
    with table.sink(schema_evolution="basic") as sink:
        sink.run_to_end()
    assert table.rows() == [(1, None), (2, "Oslo")]


def test_a_new_field_is_refused_otherwise_with_the_setting_that_helps(table: Table) -> None:
    table.send((None, {"id": 1}), (None, {"id": 2, "city": "Oslo"}))
    with table.sink() as sink, pytest.raises(ConnectError, match=r"schema\.evolution"):
        sink.step()


def test_a_row_that_a_constraint_refuses_becomes_a_dead_letter(table: Table) -> None:
    with sqlite3.connect(table.path) as database:
        database.execute("CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT NOT NULL)")
    table.send(*[(None, {"id": number, "name": None if number == 3 else "x"}) for number in range(6)])
    letters = {"errors_tolerance": "all", "errors_deadletterqueue_topic_name": "letters"}
    with table.sink(**letters) as sink:
        sink.run_to_end()
        assert [letter.value for letter in sink.records("letters")] == [b'{"id": 3, "name": null}']
    assert [row[0] for row in table.rows()] == [0, 1, 2, 4, 5]


def test_offsets_are_kept_by_topic_id_and_generation(table: Table) -> None:
    table.send((None, {"id": 1}))
    with table.sink() as sink:
        sink.run_to_end()
    topic_id = table.log.describe(["users"])["users"].topic_id
    assert table.rows("SELECT * FROM hayase_offsets") == [("connect-db", "db", topic_id, 0, "users", 1, 1)]


def test_a_database_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "nowhere" / "shop.db")
    props = {"connector.class": "SqliteSink", "topics": "users", "connection.path": path}
    with ConnectorTestDriver(props) as driver:
        driver.produce("users", b"1", b"{}")
        with pytest.raises(ConnectError, match=r"nowhere/shop\.db") as raised:
            driver.run_to_end()
    assert raised.value.condition == "DATABASE_NOT_OPENED"


def test_a_key_that_lacks_a_field_is_named(table: Table) -> None:
    table.send(({"id": 1}, {"id": 1}))
    with upsert(table, primary_key_fields="number") as sink, pytest.raises(ConnectError, match="no field 'number'"):
        sink.step()


def test_a_number_that_the_database_cannot_hold_becomes_a_dead_letter(table: Table) -> None:
    table.send((None, {"id": 1}), (None, {"id": 1 << 63}), (None, {"id": 3}))
    with table.sink(errors_tolerance="all", errors_deadletterqueue_topic_name="dead") as sink:
        sink.run_to_end()
        assert [json.loads(record.value or b"") for record in sink.records("dead")] == [{"id": 1 << 63}]
    assert table.rows() == [(1,), (3,)]
