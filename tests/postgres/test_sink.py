"""Rows of a PostgreSQL database, exactly once; and from one database to another."""

from __future__ import annotations

import datetime as dt
import json
import threading
from typing import Any

import pytest
from tests.postgres.backends import end_backends

from hayase.connect.config.config_def import TypedConfig
from hayase.connect.exceptions import ConnectError
from hayase.connect.generations import SupersededError
from hayase.connect.sql.postgres_sink import PostgresSinkConnector, connect
from hayase.connect.sql.postgres_writer import RowWriter
from hayase.connect.sql.row_change import RowChange, RowChangeKind
from hayase.connect.sql.sink_config import InsertMode
from hayase.log.protocol import Log, OutputBatch
from hayase.testing.connect import ConnectorTestDriver
from hayase.testing.postgres_server import PASSWORD, USER, PostgresServer

pytestmark = pytest.mark.postgres
EVERY_VERSION = True
JSON = {
    "key.converter": "JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter": "JsonConverter",
    "value.converter.schemas.enable": "false",
}
KEYED = {"insert.mode": "upsert", "primary.key.mode": "record_key", "delete.enabled": "true"}


class Target:
    def __init__(self, server: PostgresServer, database: str, log: Log) -> None:
        self.server, self.database, self.log = server, database, log

    def send(self, *records: tuple[object, object]) -> None:
        if "users" not in self.log.describe(["users"]):
            self.log.create_topic("users", 1, {})
        encoded = [tuple(None if part is None else json.dumps(part).encode() for part in each) for each in records]
        keys, values = [each[0] for each in encoded], [each[1] for each in encoded]
        self.log.writer().append([OutputBatch("users", keys, values, [0] * len(records))])

    def sink(self, **props: str) -> ConnectorTestDriver:
        return ConnectorTestDriver(self.props(**props), log=self.log)

    def props(self, **props: str) -> dict[str, str]:
        url = f"jdbc:postgresql://{self.server.host}:{self.server.port}/{self.database}"
        given = {
            "connector.class": "hayase.PostgresSinkConnector", "name": "db", "topics": "users", "connection.url": url,
            "connection.username": USER, "connection.password": PASSWORD, "auto.create": "true",
        }  # fmt: skip
        return {**given, **JSON, **{key.replace("_", "."): value for key, value in props.items()}}

    def upsert(self, **props: str) -> ConnectorTestDriver:
        return self.sink(**{key.replace(".", "_"): value for key, value in KEYED.items()}, **props)

    def rows(self, statement: str = "SELECT * FROM users ORDER BY 1") -> list[tuple[Any, ...]]:
        with self.server.connect(self.database) as connection:
            return connection.execute(statement).fetchall()


@pytest.fixture
def target(postgres_server: PostgresServer, database: str, log: Log) -> Target:
    return Target(postgres_server, database, log)


def test_records_are_inserted_into_a_table_that_is_made_for_them(target: Target) -> None:
    target.send((None, {"id": 1, "name": "a\tb\\c\nd", "tags": ["x"]}), (None, {"id": 2, "name": None, "tags": None}))
    with target.sink() as sink:
        sink.run_to_end()
    assert target.rows() == [(1, "a\tb\\c\nd", ["x"]), (2, None, None)]


def test_upserts_replace_rows_and_tombstones_delete_them(target: Target) -> None:
    target.send(({"id": 1}, {"id": 1, "name": "ada"}), ({"id": 2}, {"id": 2, "name": "bob"}))
    target.send(({"id": 1}, {"id": 1, "name": "Ada"}), ({"id": 2}, None), ({"id": 3}, None))
    with target.upsert() as sink:
        sink.run_to_end()
        target.send(({"id": 1}, None), ({"id": 1}, {"id": 1, "name": "again"}))
        sink.run_to_end()
    assert target.rows() == [(1, "again")]


@pytest.mark.parametrize("other", [{"id": 2, "name": "b"}, {"id": 2, "more": 1}])
def test_a_table_is_made_by_the_first_row_though_a_deletion_comes_before_it(
    target: Target, other: dict[str, object]
) -> None:
    target.send(({"id": 9}, None), ({"id": 1}, {"id": 1, "name": "a"}), ({"id": 2}, other))
    with target.upsert(schema_evolution="basic") as sink:
        sink.run_to_end()
    assert target.rows("SELECT id FROM users ORDER BY id") == [(1,), (2,)]


def test_updates_change_rows_that_exist_only(target: Target) -> None:
    target.send(({"id": 1}, {"id": 1, "name": "ada"}))
    with target.upsert() as sink:
        sink.run_to_end()
        sink.stop()
    target.send(({"id": 1}, {"id": 1, "name": "Ada"}), ({"id": 9}, {"id": 9, "name": "new"}))
    with target.sink(insert_mode="update", primary_key_mode="record_key") as sink:
        sink.run_to_end()
    assert target.rows() == [(1, "Ada")]


def test_rows_with_other_fields_are_written_in_order(target: Target) -> None:
    target.send(({"id": 1}, {"id": 1, "a": 1}), ({"id": 1}, {"id": 1, "b": 2}), ({"id": 1}, {"id": 1, "a": 3}))
    with target.upsert(schema_evolution="basic") as sink:
        sink.run_to_end()
    assert target.rows() == [(1, 3, 2)]


def test_a_sink_that_was_killed_writes_nothing_twice(target: Target) -> None:
    target.send(*[(None, {"n": number}) for number in range(10)])
    with target.sink() as sink:
        sink.step()
        sink.kill()
        target.send(*[(None, {"n": number}) for number in range(10, 15)])
        sink.run_to_end()
    assert [row[0] for row in target.rows()] == list(range(15))


def test_a_sink_of_an_earlier_generation_writes_nothing(target: Target) -> None:
    first = target.sink()
    target.send((None, {"n": 1}))
    first.start()
    target.sink().start()
    with pytest.raises(SupersededError):
        first.step()
    assert target.rows("SELECT 1 FROM pg_class WHERE relname = 'users'") == []


def test_a_row_that_a_constraint_refuses_becomes_a_dead_letter(target: Target) -> None:
    with target.server.connect(target.database) as connection:
        connection.execute("CREATE TABLE users (id int PRIMARY KEY, name text NOT NULL)")
    target.send(*[(None, {"id": number, "name": None if number == 3 else "x"}) for number in range(6)])
    letters = {"errors_tolerance": "all", "errors_deadletterqueue_topic_name": "letters"}
    with target.sink(**letters) as sink:
        sink.run_to_end()
        assert [letter.value for letter in sink.records("letters")] == [b'{"id": 3, "name": null}']
    assert [row[0] for row in target.rows()] == [0, 1, 2, 4, 5]


def test_a_table_that_must_not_be_made_is_named(target: Target) -> None:
    target.send((None, {"id": 1}))
    with target.sink(auto_create="false") as sink, pytest.raises(ConnectError, match=r"auto\.create=true"):
        sink.step()


def test_a_database_that_was_away_gets_each_row_once(target: Target) -> None:
    target.send(*[(None, {"n": number}) for number in range(5)])
    with target.sink() as sink:
        sink.run_to_end()
        with target.server.connect() as connection:
            end_backends(connection, "application_name = 'hayase-sink'")
        target.send(*[(None, {"n": number}) for number in range(5, 9)])
        sink.run_to_end()
    assert [row[0] for row in target.rows()] == list(range(9))


def test_tables_are_copied_from_one_database_to_another(
    postgres_server: PostgresServer, database: str, target: Target, log: Log
) -> None:
    with postgres_server.connect(database) as connection:
        connection.execute("CREATE SCHEMA source")
        connection.execute(
            "CREATE TABLE source.users (id int PRIMARY KEY, name text, price numeric(10,2), at timestamptz, day date, "
            "tags text[], doc jsonb, raw bytea, u uuid, t time, ts timestamp)"
        )
        connection.execute(
            "INSERT INTO source.users SELECT i, 'n' || i, i * 1.5, '2024-02-03 04:05:06.7+00', '2024-02-03', '{a,b}', "
            "'{\"a\": 1}', '\\xff00', '2017d4c9-ba37-4f82-9fb5-9ab5df6b91e4', '01:02:03', '2024-01-01 00:00:01' "
            "FROM generate_series(1, 30) i"
        )
        source = {
            **postgres_server.connector_config(database),
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector", "name": "capture",
            "topic.prefix": "shop", "slot.name": f"s_{database}", "schema.include.list": "source",
            "incremental.snapshot.chunk.size": "7", "poll.interval.ms": "20",
        }  # fmt: skip
        with_schemas = {"key.converter.schemas.enable": "true", "value.converter.schemas.enable": "true"}
        props = {**target.props(), **KEYED, **with_schemas, "topics": "shop.source.users"}
        props["collection.name.format"] = "users"
        capture = ConnectorTestDriver({**source, **JSON, **with_schemas}, log=log)
        with capture, ConnectorTestDriver(props, log=log) as sink:
            capture.start()
            for _ in range(8):
                capture.step()
            sink.run_to_end()
            connection.execute("UPDATE source.users SET name = 'new' WHERE id <= 5")
            connection.execute("DELETE FROM source.users WHERE id > 20")
            connection.execute("UPDATE source.users SET id = 99 WHERE id = 6")
            for _ in range(20):
                capture.step()
            sink.run_to_end()
        columns = "id, name, price, at, day, tags, doc, raw, u, t, ts"
        assert target.rows(f"SELECT {columns} FROM users ORDER BY id") == target.rows(
            f"SELECT {columns} FROM source.users ORDER BY id"
        )
        assert len(target.rows()) == 20
        ((at,),) = target.rows("SELECT at FROM users WHERE id = 99")
        assert at == dt.datetime(2024, 2, 3, 4, 5, 6, 700000, tzinfo=dt.UTC)


def test_a_schema_of_any_name_holds_the_tables_and_sets_nothing_else(target: Target) -> None:
    schema = 'my "sales" -c work_mem=64kB \\'
    quoted = '"' + schema.replace('"', '""') + '"'
    with target.server.connect(target.database) as connection:
        connection.execute(f"CREATE SCHEMA {quoted}")
    target.send((None, {"id": 1}))
    with target.sink(connection_schema=schema) as sink:
        sink.run_to_end()
    assert target.rows(f"SELECT id FROM {quoted}.users") == [(1,)]


DEAD = {"errors_tolerance": "all", "errors_deadletterqueue_topic_name": "dead"}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", ["text", "bigint"])
def test_a_value_that_the_driver_refuses_becomes_a_dead_letter(target: Target, kind: str) -> None:
    with target.server.connect(target.database) as connection:
        connection.execute(f"CREATE TABLE users (id int, v {kind}, w jsonb)")
    bad = {"id": 2, "v": "a\0b", "w": None}
    target.send((None, {"id": 1, "v": 1, "w": {"a": 1}}), (None, bad), (None, {"id": 3, "v": 3, "w": None}))
    with target.sink(**DEAD) as sink:
        sink.run_to_end()
        assert [json.loads(record.value or b"") for record in sink.records("dead")] == [bad]
    assert target.rows("SELECT id FROM users ORDER BY 1") == [(1,), (3,)]


def test_a_server_that_takes_no_writes_for_now_is_waited_for(target: Target) -> None:
    target.send((None, {"id": 1}))
    with target.sink(**DEAD) as sink:
        sink.run_to_end()
        target.send((None, {"id": 2}), (None, {"id": 3}))
        with target.server.connect() as connection:
            connection.execute(f"ALTER DATABASE {target.database} SET default_transaction_read_only = on")
            end_backends(connection, "datname = %s AND application_name = 'hayase-sink'", target.database)
            done = threading.Thread(target=sink.run_to_end)
            done.start()
            done.join(1)
            connection.execute(f"ALTER DATABASE {target.database} RESET default_transaction_read_only")
            end_backends(connection, "datname = %s AND application_name = 'hayase-sink'", target.database)
        done.join(60)
        assert sink.records("dead") == []
    assert target.rows() == [(1,), (2,), (3,)]


@pytest.mark.parametrize("order", [["write", "delete", "WRITE"], ["WRITE", "write"], ["write", "WRITE", "delete"]])
@pytest.mark.parametrize("kind", ["text COLLATE any_case", "char(8)"])
@pytest.mark.parametrize("shapes", [1, 2])
def test_keys_that_only_the_database_takes_for_equal_are_one_row(
    target: Target, order: list[str], kind: str, shapes: int
) -> None:
    with target.server.connect(target.database) as connection:
        connection.execute(
            "CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
        )
        connection.execute(f"CREATE TABLE users (id {kind} PRIMARY KEY, v int, w int)")
    spelled = {True: "BOB" if "any_case" in kind else "bob   ", False: "bob"}
    for number, step in enumerate(order):
        key = {"id": spelled[step.isupper()]}
        more = {"w": 1} if number % shapes else {}
        target.send((key, None if step == "delete" else {**key, "v": number, **more}))
    with target.upsert() as sink:
        sink.run_to_end()
    wanted = [] if order[-1] == "delete" else [(len(order) - 1,)]
    assert target.rows("SELECT v FROM users") == wanted


def test_keys_of_two_writings_that_are_one_value_are_one_row(target: Target) -> None:
    with target.server.connect(target.database) as connection:
        connection.execute("CREATE TABLE users (id uuid PRIMARY KEY, v int)")
    key = "2017d4c9-ba37-4f82-9fb5-9ab5df6b91e4"
    target.send(({"id": key}, {"id": key, "v": 1}), ({"id": key.upper()}, {"id": key.upper(), "v": 2}))
    with target.upsert() as sink:
        sink.run_to_end()
    assert target.rows("SELECT v FROM users") == [(2,)]


@pytest.mark.parametrize("exists", [False, True], ids=["made", "widened"])
def test_of_two_tasks_that_need_the_same_table_at_the_same_time_one_makes_it(target: Target, exists: bool) -> None:
    config = TypedConfig(PostgresSinkConnector.config(), target.props(schema_evolution="basic"))
    change = RowChange("users", RowChangeKind.WRITE, {}, {"id": 1, "name": "ada"}, {})
    failed: list[Exception] = []

    def write(database: Any) -> None:
        try:
            with database.transaction():
                RowWriter(config, InsertMode.INSERT).write_rows(database, [change])
        except Exception as error:
            failed.append(error)

    with connect(config) as first, connect(config) as second:
        if exists:
            first.execute("CREATE TABLE users (id int)")
        with first.transaction():
            RowWriter(config, InsertMode.INSERT).write_rows(first, [change])
            other = threading.Thread(target=write, args=[second])
            other.start()
            other.join(0.5)
        other.join(30)
    assert failed == []
    assert target.rows() == [(1, "ada")] * 2


@pytest.mark.parametrize("lacking", ["privilege", "key"])
def test_what_no_record_is_to_blame_for_costs_no_dead_letters(target: Target, lacking: str) -> None:
    with target.server.connect(target.database) as connection:
        connection.execute("CREATE ROLE writer LOGIN PASSWORD 'not-a-secret'")
        connection.execute("GRANT CREATE ON SCHEMA public TO writer")
        connection.execute(f"CREATE TABLE users (id int {'' if lacking == 'key' else 'PRIMARY KEY'})")
        connection.execute(f"GRANT SELECT {'' if lacking == 'privilege' else ', INSERT'} ON users TO writer")
    target.send(({"id": 1}, {"id": 1}), ({"id": 2}, {"id": 2}))
    try:
        with target.upsert(connection_username="writer", connection_password="not-a-secret", **DEAD) as sink:
            with pytest.raises(ConnectError) as raised:
                sink.run_to_end()
            assert raised.value.condition == "TARGET_REFUSES"
            assert sink.records("dead") == []
    finally:
        with target.server.connect(target.database) as connection:
            connection.execute("DROP OWNED BY writer")
            connection.execute("DROP ROLE writer")
