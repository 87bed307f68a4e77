"""Signals, rows that are read again while changes go on, and logical decoding messages."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.postgres.capture import Capture, values

from hayase.connect.herder.signals import send_signal
from hayase.connect.postgres.connector import PostgresConnector
from hayase.testing.connect import ConnectorTestDriver
from hayase.testing.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres
EVERY_VERSION = True


def signal(connection: Any, kind: str, **data: object) -> None:
    connection.execute(
        "INSERT INTO signals SELECT coalesce(max(id::int), 0) + 1, %s, %s FROM signals",
        (kind, json.dumps({name.replace("_", "-"): value for name, value in data.items()})),
    )


def capture_with_signals(server: PostgresServer, database: str, **config: str) -> Capture:
    with server.connect(database) as connection:
        connection.execute("CREATE TABLE signals (id text PRIMARY KEY, type text, data text)")
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
        connection.execute("INSERT INTO t SELECT i, 0 FROM generate_series(1, 10) i")
    return Capture(
        server, database, signal_data_collection="public.signals", table_include_list="public[.]t",
        incremental_snapshot_chunk_size="3", **config,
    )  # fmt: skip


def until(capture: Capture, arrived: Callable[[], bool], crash: str = "") -> None:
    deadline = time.monotonic() + 60
    while not arrived():
        assert time.monotonic() < deadline, [(value["op"], value["after"]) for value in values(capture.records)]
        capture.step(crash=crash)


def read_again(capture: Capture) -> list[int]:
    return [v["after"]["id"] for v in values(capture.records) if v["source"]["snapshot"] == "incremental"]


@pytest.mark.parametrize("serialized", [False, True])
def test_a_signal_has_the_rows_of_a_table_read_again(
    serialized: bool, postgres_server: PostgresServer, database: str
) -> None:
    capture = capture_with_signals(postgres_server, database, snapshot_mode="no_data")
    capture.serialized = serialized
    with postgres_server.connect(database) as connection:
        capture.step()
        signal(connection, "execute-snapshot", data_collections=["public.t"])
        until(capture, lambda: len(capture.records) == 10)
        connection.execute("UPDATE t SET v = 1 WHERE id = 1")
        until(capture, lambda: len(capture.records) == 11)
    assert read_again(capture) == list(range(1, 11))
    assert {value["op"] for value in values(capture.records[:10])} == {"r"}
    assert {record.topic for record in capture.records} == {"shop.public.t"}


def test_only_some_rows_can_be_read_again(postgres_server: PostgresServer, database: str) -> None:
    capture = capture_with_signals(postgres_server, database, snapshot_mode="no_data")
    with postgres_server.connect(database) as connection:
        capture.step()
        conditions = [{"data-collection": "public.t", "filter": "id > 6"}]
        signal(connection, "execute-snapshot", data_collections=["public.t"], additional_conditions=conditions)
        until(capture, lambda: len(capture.records) == 4)
    assert read_again(capture) == [7, 8, 9, 10]


def test_a_restart_reads_one_chunk_again(postgres_server: PostgresServer, database: str) -> None:
    capture = capture_with_signals(postgres_server, database, snapshot_mode="no_data")
    with postgres_server.connect(database) as connection:
        capture.step()
        signal(connection, "execute-snapshot", data_collections=["public.t"])
        for arrived in (3, 6, 9, 10):
            until(capture, lambda arrived=arrived: len(capture.records) >= arrived)  # type: ignore[misc]
            capture.crash()
    assert read_again(capture) == list(range(1, 11))


def test_rows_that_change_meanwhile_are_not_read(postgres_server: PostgresServer, database: str) -> None:
    capture = capture_with_signals(postgres_server, database, snapshot_mode="no_data")
    with postgres_server.connect(database) as connection:
        capture.step()
        signal(connection, "execute-snapshot", data_collections=["public.t"])
        task, _ = capture._running()
        until(capture, lambda: task._session is not None and _holds_back(task))
        connection.execute("WITH gone AS (DELETE FROM t WHERE id = 3) UPDATE t SET v = 5 WHERE id = 2")
        until(capture, lambda: 10 in read_again(capture))
    assert read_again(capture) == [1, 4, 5, 6, 7, 8, 9, 10]


def _holds_back(task: Any) -> bool:
    return task._session.incremental._window is not None


def test_a_snapshot_can_be_stopped(postgres_server: PostgresServer, database: str) -> None:
    capture = capture_with_signals(postgres_server, database, snapshot_mode="no_data")
    with postgres_server.connect(database) as connection:
        capture.step()
        signal(connection, "execute-snapshot", data_collections=["public.t"])
        until(capture, lambda: len(capture.records) >= 3)
        signal(connection, "stop-snapshot", data_collections=["public.t"])
        connection.execute("INSERT INTO t VALUES (99, 0)")
        until(capture, lambda: values(capture.records)[-1]["after"]["id"] == 99)
        for _ in range(10):
            capture.step()
    assert len(read_again(capture)) < 10
    assert capture.offsets[(("incremental", True), ("server", "shop"))] is None


def test_a_signal_can_write_to_the_log(
    postgres_server: PostgresServer, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    capture = capture_with_signals(postgres_server, database, snapshot_mode="no_data")
    with postgres_server.connect(database) as connection, caplog.at_level(logging.WARNING):
        capture.step()
        signal(connection, "log", message="we are at {}")
        signal(connection, "dance")
        until(capture, lambda: "dance" in caplog.text)
    assert "we are at 0/" in caplog.text


def test_a_signal_that_cannot_be_read_is_counted(postgres_server: PostgresServer, database: str) -> None:
    capture = capture_with_signals(postgres_server, database, snapshot_mode="no_data")
    with postgres_server.connect(database) as connection:
        capture.step()
        connection.execute("INSERT INTO signals VALUES ('1', 'execute-snapshot', '{no json')")
        signal(connection, "dance")
        signal(connection, "execute-snapshot", data_collections=["public.t"])
        until(capture, lambda: len(capture.records) == 10)
    assert capture.context is not None
    assert capture.context.metrics["SignalsLeftOut"] == 2


def test_a_condition_that_the_server_refuses_is_left_out_and_the_capture_goes_on(
    postgres_server: PostgresServer, database: str
) -> None:
    capture = capture_with_signals(postgres_server, database, snapshot_mode="no_data")
    condition = [{"data-collection": "public.t", "filter": "nonsense >"}]
    with postgres_server.connect(database) as connection:
        capture.step()
        signal(connection, "execute-snapshot", data_collections=["public.t"], additional_conditions=condition)
        connection.execute("INSERT INTO t VALUES (11, 0)")
        until(capture, lambda: len(capture.records) == 1)
        until(capture, lambda: capture.context is not None and capture.context.metrics["SignalsLeftOut"] == 1)
        signal(connection, "execute-snapshot", data_collections=["public.t"])
        until(capture, lambda: read_again(capture) == list(range(1, 12)))


def test_each_row_has_its_place_among_the_changes_of_its_key(postgres_server: PostgresServer, database: str) -> None:
    capture = capture_with_signals(postgres_server, database)
    stop = threading.Event()

    def write() -> None:
        number = 0
        with postgres_server.connect(database) as connection:
            while not stop.is_set():
                number += 1
                connection.execute("UPDATE t SET v = %s WHERE id = %s", (number, number % 10 + 1))

    capture.until_snapshot_is_done()
    writer = threading.Thread(target=write)
    writer.start()
    with postgres_server.connect(database) as connection:
        for number in range(6):
            signal(connection, "execute-snapshot", data_collections=["public.t"])
            for _ in range(15):
                capture.step(crash="before" if number == 3 else "")
        stop.set()
        writer.join()
        signal(connection, "execute-snapshot", data_collections=["public.t"])
        connection.execute("INSERT INTO t VALUES (1000, 0)")
        until(capture, lambda: 1000 in read_again(capture))
        table = dict(connection.execute("SELECT id, v FROM t").fetchall())
    last: dict[int, int] = {}
    for value in values(capture.records):
        row = value["after"]
        assert row["v"] >= last.get(row["id"], 0), "an older row follows a newer one"
        last[row["id"]] = row["v"]
    assert last == table


def test_a_record_of_the_topic_of_signals_has_a_table_read_again_once(
    postgres_server: PostgresServer, database: str
) -> None:
    with postgres_server.connect(database) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
        connection.execute("INSERT INTO t SELECT i, 0 FROM generate_series(1, 10) i")
    props = {
        **postgres_server.connector_config(database), "connector.class": PostgresConnector, "topic.prefix": "shop",
        "slot.name": f"slot_{database}", "snapshot.mode": "no_data", "incremental.snapshot.chunk.size": "3",
        "signal.enabled.channels": "source,kafka", "name": "shop",
    }  # fmt: skip
    plain = {"key.converter.schemas.enable": "false", "value.converter.schemas.enable": "false"}
    with ConnectorTestDriver(props, worker=plain) as driver:
        wanted = {"data-collections": ["public.t"], "type": "INCREMENTAL"}
        driver.produce("shop-signal", b"other", json.dumps({"type": "execute-snapshot", "data": wanted}).encode())
        driver.produce("shop-signal", b"shop", b"no signal")
        send_signal(driver.environment, "shop", driver.props, "execute-snapshot", wanted)

        def ids() -> list[int]:
            return [json.loads(record.value or b"")["after"]["id"] for record in driver.records("shop.public.t")]

        for step in range(400):
            if len(ids()) >= 10:
                break
            driver.step()
            if step % 40 == 20:
                driver.kill()
        driver.kill()
        for _ in range(15):
            driver.step()
        assert ids() == list(range(1, 11))
        (stored,) = [each["offset"] for each in driver.offsets() if "incremental" in each["partition"]]  # type: ignore[operator]
        assert stored == {"requests": "[]", "upper": None, "signal_offset": 3}


@pytest.mark.postgres_since(14)
def test_messages_of_the_log_are_captured(postgres_server: PostgresServer, database: str) -> None:
    capture = Capture(postgres_server, database, message_prefix_exclude_list="secret")
    with postgres_server.connect(database) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
        capture.until_snapshot_is_done()
        with connection.transaction():
            connection.execute("INSERT INTO t VALUES (1)")
            connection.execute("SELECT pg_logical_emit_message(true, 'orders', 'inside')")
            connection.execute("SELECT pg_logical_emit_message(true, 'secret', 'left out')")
            connection.execute("INSERT INTO t VALUES (2)")
        connection.execute("SELECT pg_logical_emit_message(false, 'orders', 'alone')")
        connection.execute("CHECKPOINT")  # flushes it; versions before 17 do so only for what commits
        capture.until(4)
    assert [value["op"] for value in values(capture.records)] == ["c", "m", "c", "m"]
    inside, alone = (capture.records[at] for at in (1, 3))
    assert (inside.topic, inside.key) == ("shop.message", {"prefix": "orders"})
    assert values([inside])[0]["message"] == {"prefix": "orders", "content": b"inside"}
    assert values([inside])[0]["source"]["txId"] == values(capture.records)[0]["source"]["txId"]
    assert values([alone])[0]["message"]["content"] == b"alone"
    assert values([alone])[0]["source"]["txId"] is None


@pytest.mark.postgres_since(14)
def test_messages_come_once_where_the_task_crashes(postgres_server: PostgresServer, database: str) -> None:
    capture = Capture(postgres_server, database, max_batch_size="1")
    with postgres_server.connect(database) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
        capture.until_snapshot_is_done()
        with connection.transaction():
            for number in range(4):
                connection.execute("SELECT pg_logical_emit_message(true, 'p', %s::text)", (f"m{number}",))
                connection.execute("INSERT INTO t VALUES (%s)", (number,))
        connection.execute("SELECT pg_logical_emit_message(false, 'p', 'alone')")
        connection.execute("CHECKPOINT")
        until(capture, lambda: len(capture.records) >= 9, crash="after")
        connection.execute("INSERT INTO t VALUES (9)")
        capture.until(10)
    found = [v["message"]["content"].decode() if v["op"] == "m" else v["after"]["id"] for v in values(capture.records)]
    assert found == ["m0", 0, "m1", 1, "m2", 2, "m3", 3, "alone", 9]


@pytest.mark.postgres_since(14)
def test_a_message_comes_though_a_later_change_committed_before_it(
    postgres_server: PostgresServer, database: str
) -> None:
    capture = Capture(postgres_server, database)
    with postgres_server.connect(database) as connection, postgres_server.connect(database) as other:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
        capture.until_snapshot_is_done()
        with connection.transaction():
            connection.execute("SELECT pg_logical_emit_message(true, 'p', 'first')")
            other.execute("INSERT INTO t VALUES (1)")
            connection.execute("INSERT INTO t VALUES (2)")
        capture.until(3)
    assert [value["op"] for value in values(capture.records)] == ["c", "m", "c"]
