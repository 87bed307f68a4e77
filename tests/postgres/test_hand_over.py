"""Where the snapshot of a capture ends and the stream begins: tables that are emptied, texts of other encodings."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.postgres.backends import end_backends
from tests.postgres.capture import Capture, values
from tests.postgres.test_capture import ops

from hayase.connect.postgres.replication import ReplicationConnection, WalMessage
from hayase.testing.postgres_server import PostgresServer

if TYPE_CHECKING:
    import psycopg

pytestmark = pytest.mark.postgres
EVERY_VERSION = True


def test_a_table_that_was_emptied_before_it_was_read_is_not_emptied_again(
    postgres_server: PostgresServer, database: str
) -> None:
    capture = Capture(postgres_server, database, skipped_operations="none")
    with postgres_server.connect(database) as connection:
        for table in ("a", "t"):
            connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY)")
            connection.execute(f"INSERT INTO {table} VALUES (1)")
        capture.step()
        connection.execute("TRUNCATE t")
        connection.execute("INSERT INTO t VALUES (2)")
        capture.until_snapshot_is_done()
        connection.execute("INSERT INTO t VALUES (3)")
        records = capture.until(3)
    assert ops(records) == [("r", 1), ("r", 2), ("c", 3)]


def capture_of_chunks(server: PostgresServer, database: str) -> Capture:
    return Capture(server, database, skipped_operations="none", incremental_snapshot_chunk_size="2")


def empty_between_two_chunks(capture: Capture, connection: psycopg.Connection[Any]) -> None:
    """Have a snapshot read one chunk, then empty the table, write other rows, and read the rest."""
    connection.execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
    connection.execute("INSERT INTO t SELECT i, 0 FROM generate_series(1, 3) i")
    capture.step()
    connection.execute("TRUNCATE t")
    connection.execute("INSERT INTO t SELECT i, 1 FROM generate_series(2, 6) i")
    capture.until_snapshot_is_done()


def rows_of(capture: Capture) -> dict[int, object]:
    """What the events come to."""
    rows: dict[int, object] = {}
    for value in values(capture.records):
        if value["op"] == "t":
            rows.clear()
        else:
            rows[value["after"]["id"]] = value["after"]["v"]
    return rows


def until_rows(capture: Capture, wanted: dict[int, int]) -> None:
    deadline = time.monotonic() + 30
    while rows_of(capture) != wanted and time.monotonic() < deadline:
        capture.step()
    assert rows_of(capture) == wanted


def test_rows_of_a_table_that_was_emptied_between_two_chunks_are_read_again(
    postgres_server: PostgresServer, database: str
) -> None:
    capture = capture_of_chunks(postgres_server, database)
    with postgres_server.connect(database) as connection:
        empty_between_two_chunks(capture, connection)
        capture.until(2 + 4 + 1 + 1)  # two chunks, the event, what the first chunk did not see
        capture.crash()
        until_rows(capture, dict.fromkeys(range(2, 7), 1))


def test_rows_are_read_again_though_their_inserts_come_between_the_chunk_and_its_end(
    postgres_server: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first snapshot has these inserts, so the stream leaves them out: what is read again is all there is."""
    capture = capture_of_chunks(postgres_server, database)
    receive = ReplicationConnection.receive
    held: list[int] = []

    def receive_one_transaction(self: ReplicationConnection) -> WalMessage | None:
        if held and held[0] > 0:
            return None
        message = receive(self)
        if message is not None and message.data[:1] == b"C" and not held:
            held.append(4)
        return message

    monkeypatch.setattr(ReplicationConnection, "receive", receive_one_transaction)
    with postgres_server.connect(database) as connection:
        empty_between_two_chunks(capture, connection)
        while not held:
            capture.step()
        while held[0] > 0:  # the first chunk is read again meanwhile
            capture.step()
            held[0] -= 1
        connection.execute("INSERT INTO t VALUES (100, 1)")
        until_rows(capture, dict.fromkeys([*range(2, 7), 100], 1))


def test_keys_of_a_database_whose_encoding_has_another_order_are_each_in_their_chunk(
    postgres_server: PostgresServer,
) -> None:
    letters = "абвгдежзийклмнопрстуфхцчшщъыьэюя"
    with postgres_server.connect() as connection:
        connection.execute(
            "CREATE DATABASE koi ENCODING 'KOI8R' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
        )  # fmt: skip
    capture = Capture(postgres_server, "koi", incremental_snapshot_chunk_size="3")
    with postgres_server.connect("koi") as connection:
        connection.execute("CREATE TABLE t (id text PRIMARY KEY, v int)")
        connection.execute("INSERT INTO t SELECT letter, 0 FROM unnest(%s::text[]) letter", (list(letters),))
        for _ in range(4):
            capture.step()
        connection.execute("UPDATE t SET v = 1")
        connection.execute("INSERT INTO t VALUES ('end', 1)")
        capture.until_snapshot_is_done()
        while ("c", "end") not in ops(capture.records) and ("r", "end") not in ops(capture.records):
            capture.step()
    capture.crash()
    with postgres_server.connect() as connection:
        end_backends(connection, "datname = 'koi'")
        connection.execute("SELECT pg_drop_replication_slot('slot_koi')")
        connection.execute("DROP DATABASE koi")
    rows = {value["after"]["id"]: value["after"]["v"] for value in values(capture.records)}
    assert rows == dict.fromkeys([*letters, "end"], 1)
