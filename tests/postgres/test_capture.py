"""Capture of a real server: events, large values, what goes wrong, and what a restart does."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest
from tests.postgres.backends import end_backends
from tests.postgres.capture import Capture, values

from hayase import Consumed, Produced, Serdes, StreamsBuilder
from hayase.connect.converters.json_converter import JsonConverter
from hayase.connect.exceptions import ConnectError, RetriableError
from hayase.connect.postgres.connector import PostgresConnector
from hayase.connect.postgres.replication import ReplicationConnection
from hayase.connect.schema import validate_value
from hayase.testing import TopologyTestDriver
from hayase.testing.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres
EVERY_VERSION = True
STREAMS = "pid IN (SELECT active_pid FROM pg_replication_slots)"
BIG = "(SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 200))"


def ops(records: list[Any]) -> list[tuple[Any, Any]]:
    """Kind and key of each record; no kind: a tombstone."""
    return [(record.value and record.value["op"], record.key and record.key.get("id")) for record in records]


def test_rows_that_are_there_come_first_then_every_change(postgres_server: PostgresServer, database: str) -> None:
    capture = Capture(postgres_server, database, incremental_snapshot_chunk_size="2")
    with postgres_server.connect(database) as connection:
        connection.execute("CREATE TABLE users (id int PRIMARY KEY, name text NOT NULL)")
        connection.execute("INSERT INTO users SELECT i, 'n' || i FROM generate_series(1, 5) i")
        capture.until_snapshot_is_done()
        assert ops(capture.records) == [("r", number) for number in range(1, 6)]
        flags = [value["source"]["snapshot"] for value in values(capture.records)]
        assert flags == ["first", "true", "true", "true", "last"]
        capture.records.clear()
        connection.execute("UPDATE users SET name = 'new' WHERE id = 1")
        connection.execute("UPDATE users SET id = 9 WHERE id = 2")
        connection.execute("DELETE FROM users WHERE id = 3")
        records = capture.until(6)
    assert ops(records) == [("u", 1), ("d", 2), (None, 2), ("c", 9), ("d", 3), (None, 3)]
    assert records[0].value["after"] == {"id": 1, "name": "new"}
    assert records[1].headers[0].key == "__debezium.newkey"
    assert records[1].value["before"] == {"id": 2, "name": ""}
    assert records[0].topic == "shop.public.users"
    for record in records:
        if record.value_schema is not None:
            validate_value(record.value_schema, record.value)


def test_events_are_json_that_the_converter_can_write(postgres_server: PostgresServer, database: str) -> None:
    capture = Capture(postgres_server, database)
    with postgres_server.connect(database) as connection:
        connection.execute(
            "CREATE TABLE t (id bigint PRIMARY KEY, a numeric(10,2), b timestamptz, c jsonb, d text[], e bytea, "
            "f uuid, g date, h time, i timestamp(3), j interval, k inet, l bit(3), m money, n real, o numeric, "
            "p bool, q xml)"
        )
        connection.execute(
            "INSERT INTO t VALUES (1, 1.5, '2024-02-03 04:05:06.7+00', '{\"a\": 1}', '{x,NULL}', '\\xff', "
            "'2017d4c9-ba37-4f82-9fb5-9ab5df6b91e4', '2024-02-03', '04:05:06', '2024-02-03', '1 day', '10.0.0.1', "
            "B'101', 12.5, 1.1, 3.14, true, '<a/>')"
        )
        capture.until_snapshot_is_done()
    (record,) = capture.records
    converter = JsonConverter()
    converter.configure({}, is_key=False)
    data = converter.from_connect_data(record.topic, (), record.value_schema, record.value)
    assert data is not None
    after = json.loads(data)["payload"]["after"]
    assert after == {
        "id": 1, "a": "AJY=", "b": "2024-02-03T04:05:06.700000Z", "c": '{"a": 1}', "d": ["x", None], "e": "/w==",
        "f": "2017d4c9-ba37-4f82-9fb5-9ab5df6b91e4", "g": 19756, "h": 14_706_000_000, "i": 1706918400000,
        "j": 86_400_000_000, "k": "10.0.0.1", "l": "BQ==", "m": "BOI=", "n": 1.1, "o": {"scale": 2, "value": "ATo="},
        "p": True, "q": "<a/>",
    }  # fmt: skip
    schema, value = converter.to_connect_data(record.topic, (), data)
    assert schema == record.value_schema
    assert isinstance(value, dict)


def test_events_that_the_task_writes_itself_are_those_of_the_converter(
    postgres_server: PostgresServer, database: str
) -> None:
    with postgres_server.connect(database) as connection:
        connection.execute(
            "CREATE TABLE t (id bigint PRIMARY KEY, a numeric(10,2), b timestamptz, c jsonb NOT NULL, d text[], "
            "e bytea, f uuid, g date, h time, i timestamp(3), j interval, l bit(3), m money, n real, o numeric, "
            "p bool, q float8)"
        )
        connection.execute("CREATE PUBLICATION dbz_publication FOR ALL TABLES")
        slow, fast = (
            Capture(postgres_server, database, serialized=serialized, slot_name=f"{database}_{serialized}".lower())
            for serialized in (False, True)
        )
        row = (
            "1.5, '2024-02-03 04:05:06.7+00', "
            "'{\"ä\": 1}', '{x,NULL}', '\\xff', "
            "'2017d4c9-ba37-4f82-9fb5-9ab5df6b91e4', '2024-02-03', '04:05:06', '2024-02-03', "
            "'1 day', B'101', 12.5, 1.1, 3.14, true, 'NaN'"
        )
        connection.execute(f"INSERT INTO t VALUES (1, {row})")
        for capture in (slow, fast):
            capture.until_snapshot_is_done()
        connection.execute(f"INSERT INTO t VALUES (2, {row})")
        connection.execute("UPDATE t SET n = 1e20, q = -1e-300, b = NULL")
        connection.execute("DELETE FROM t WHERE id = 1")
        connection.execute("UPDATE t SET id = 3")
        for capture in (slow, fast):
            capture.until(9)
            capture.crash()
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false"}, is_key=False)

    def as_json(record: Any) -> bytes | None:
        schema = record.value_schema
        return None if schema is None else converter.from_connect_data("t", (), schema, record.value)

    for given, expected in zip(fast.records, slow.records, strict=True):
        assert (given.topic, given.key) == (expected.topic, expected.key)
        wanted, found = (
            record.value if written is None else json.loads(written)
            for record in (expected, given)
            for written in [as_json(record)]
        )
        assert without_times(found) == without_times(wanted)


def without_times(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    # The two slots begin at different positions.
    left_out = ("lsn", "sequence", "ts_ms", "ts_us", "ts_ns")
    return {name: without_times(each) for name, each in value.items() if name not in left_out}


def test_a_large_value_that_an_update_left_as_it_was_has_a_placeholder(
    postgres_server: PostgresServer, database: str
) -> None:
    capture = Capture(postgres_server, database)
    with postgres_server.connect(database) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, n int, big text)")
        capture.until_snapshot_is_done()
        connection.execute(f"INSERT INTO t VALUES (1, 0, {BIG})")
        connection.execute("UPDATE t SET n = 1")
        connection.execute("ALTER TABLE t REPLICA IDENTITY FULL")
        connection.execute("UPDATE t SET n = 2")
        capture.until(3)
    first, second, third = values(capture.records)
    assert second["after"]["big"] == "__debezium_unavailable_value"
    assert third["after"]["big"] == first["after"]["big"] == third["before"]["big"]


@pytest.mark.parametrize("form", ["rows", "columns"])
def test_a_table_of_a_captured_topic_keeps_a_large_value(
    form: str, postgres_server: PostgresServer, database: str
) -> None:
    capture = Capture(postgres_server, database, serialized=True)
    with postgres_server.connect(database) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, n int, big text, tags text[])")
        connection.execute(f"INSERT INTO t SELECT 1, 0, b, ARRAY[b] FROM {BIG} AS large(b)")
        capture.until_snapshot_is_done()
        connection.execute("UPDATE t SET n = 1")
        capture.until(2)
    fields = {"id": pl.Int64, "n": pl.Int64, "big": pl.String, "tags": pl.List(pl.String)}
    rows = Serdes.json(schema=fields)
    builder = StreamsBuilder()
    table = builder.table("shop.public.t", Consumed.with_(Serdes.string(), Serdes.debezium(rows)))
    table.to_stream().to("rows", Produced.with_(Serdes.string(), rows))
    with TopologyTestDriver(builder.build(), {"processing.form": form}) as driver:
        source = driver.create_input_topic("shop.public.t", Serdes.string(), Serdes.bytes())
        for record in capture.records:
            source.pipe_input("1", json.dumps(record.value).encode())
        sink = driver.create_output_topic("rows", Serdes.string(), rows)
        first, second = (row for _, row in sink.read_key_values_to_list())
    assert len(first["big"]) > 2000
    assert second == {**first, "n": 1}


def test_a_new_column_is_there_from_the_next_change_on(postgres_server: PostgresServer, database: str) -> None:
    capture = Capture(postgres_server, database)
    with postgres_server.connect(database) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
        capture.until_snapshot_is_done()
        connection.execute("INSERT INTO t VALUES (1)")
        connection.execute("ALTER TABLE t ADD COLUMN name text")
        connection.execute("INSERT INTO t VALUES (2, 'x')")
        capture.until(2)
    assert [value["after"] for value in values(capture.records)] == [{"id": 1}, {"id": 2, "name": "x"}]


def test_truncate_is_left_out_unless_it_is_asked_for(postgres_server: PostgresServer, database: str) -> None:
    capture = Capture(postgres_server, database, skipped_operations="none")
    with postgres_server.connect(database) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
        capture.until_snapshot_is_done()
        connection.execute("TRUNCATE t")
        connection.execute("INSERT INTO t VALUES (1)")
        capture.until(2)
    assert ops(capture.records) == [("t", None), ("c", 1)]


def test_tables_and_columns_are_filtered(postgres_server: PostgresServer, database: str) -> None:
    capture = Capture(
        postgres_server, database, table_include_list="public[.]a.*", column_exclude_list="public[.]a1[.]secret"
    )
    with postgres_server.connect(database) as connection:
        connection.execute("CREATE TABLE a1 (id int PRIMARY KEY, secret text)")
        connection.execute("CREATE TABLE b1 (id int PRIMARY KEY)")
        capture.until_snapshot_is_done()
        connection.execute("INSERT INTO b1 VALUES (1)")
        connection.execute("INSERT INTO a1 VALUES (1, 'x')")
        capture.until(1)
    assert [value["after"] for value in values(capture.records)] == [{"id": 1}]


@pytest.mark.postgres_since(15)
def test_column_lists_and_row_filters_of_a_publication_hold_for_the_snapshot_too(
    postgres_server: PostgresServer, database: str
) -> None:
    capture = Capture(postgres_server, database, publication_autocreate_mode="disabled")
    with postgres_server.connect(database) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, n int, secret text)")
        connection.execute("INSERT INTO t VALUES (1, 1, 'x'), (2, -1, 'y')")
        connection.execute("CREATE PUBLICATION dbz_publication FOR TABLE t (id, n) WHERE (id <> 2)")
        capture.until_snapshot_is_done()
        connection.execute("INSERT INTO t VALUES (3, 2, 'z')")
        capture.until(2)
    assert [value["after"] for value in values(capture.records)] == [{"id": 1, "n": 1}, {"id": 3, "n": 2}]


def test_partitions_and_heirs_are_each_read_once(postgres_server: PostgresServer, database: str) -> None:
    capture = Capture(postgres_server, database)
    with postgres_server.connect(database) as connection:
        connection.execute("CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id)")
        connection.execute("CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)")
        connection.execute("CREATE TABLE parent (id int PRIMARY KEY)")
        connection.execute("CREATE TABLE child (PRIMARY KEY (id)) INHERITS (parent)")
        connection.execute("INSERT INTO p VALUES (1)")
        connection.execute("INSERT INTO parent VALUES (1)")
        connection.execute("INSERT INTO child VALUES (2)")
        capture.until_snapshot_is_done()
    topics = sorted((record.topic, record.key["id"]) for record in capture.records)  # type: ignore[index]  # a struct
    assert topics == [("shop.public.child", 2), ("shop.public.p1", 1), ("shop.public.parent", 1)]


def test_a_transaction_is_gone_on_with_where_it_was_cut(postgres_server: PostgresServer, database: str) -> None:
    capture = Capture(postgres_server, database, max_batch_size="10")
    with postgres_server.connect(database) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
        capture.until_snapshot_is_done()
        connection.execute("INSERT INTO t SELECT generate_series(1, 95)")
        while len(capture.records) < 95:
            capture.step(crash="after" if len(capture.records) % 30 == 20 else "")
        connection.execute("INSERT INTO t VALUES (100)")
        capture.until(96)
    assert [record.key["id"] for record in capture.records] == [*range(1, 96), 100]  # type: ignore[index]  # a struct


def test_the_server_may_forget_its_log_while_only_others_write(postgres_server: PostgresServer, database: str) -> None:
    capture = Capture(postgres_server, database, status_update_interval_ms="100", table_include_list="public[.]t")
    with postgres_server.connect(database) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
        connection.execute("CREATE TABLE other (id int PRIMARY KEY)")
        capture.until_snapshot_is_done()
        connection.execute("INSERT INTO other SELECT generate_series(1, 1000)")
        ((end,),) = connection.execute("SELECT pg_current_wal_lsn() - '0/0'").fetchall()
        for _ in range(200):
            capture.step()
            ((confirmed,),) = connection.execute(
                "SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE slot_name = %s",
                (capture.config["slot.name"],),
            ).fetchall()
            if confirmed >= end:
                break
        assert confirmed >= end
    assert not capture.records


class TestWhatIsLost:
    def test_a_slot_that_is_gone_is_an_error_with_what_to_do(
        self, postgres_server: PostgresServer, database: str
    ) -> None:
        capture = Capture(postgres_server, database)
        with postgres_server.connect(database) as connection:
            connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
            capture.until_snapshot_is_done()
            capture.crash()
            end_backends(connection, STREAMS)
            connection.execute("SELECT pg_drop_replication_slot(%s)", (capture.config["slot.name"],))
            with pytest.raises(ConnectError, match="SLOT_LOST") as raised:
                capture.step()
            assert raised.value.condition == "SLOT_LOST"

    def test_when_needed_reads_the_tables_again(self, postgres_server: PostgresServer, database: str) -> None:
        capture = Capture(postgres_server, database, snapshot_mode="when_needed")
        with postgres_server.connect(database) as connection:
            connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
            connection.execute("INSERT INTO t VALUES (1)")
            capture.until_snapshot_is_done()
            capture.crash()
            end_backends(connection, STREAMS)
            connection.execute("SELECT pg_drop_replication_slot(%s)", (capture.config["slot.name"],))
            connection.execute("INSERT INTO t VALUES (2)")
            capture.step()
            capture.until_snapshot_is_done()
        assert ops(capture.records) == [("r", 1), ("r", 1), ("r", 2)]

    def test_a_position_that_another_client_confirmed_is_an_error(
        self, postgres_server: PostgresServer, database: str
    ) -> None:
        capture = Capture(postgres_server, database)
        with postgres_server.connect(database) as connection:
            connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
            capture.until_snapshot_is_done()
            capture.crash()
            end_backends(connection, STREAMS)
            connection.execute("INSERT INTO t VALUES (1)")
            connection.execute(
                "SELECT pg_replication_slot_advance(%s, pg_current_wal_lsn())", (capture.config["slot.name"],)
            )
            with pytest.raises(ConnectError, match="confirmed by another client"):
                capture.step()

    @pytest.mark.parametrize("history", [{"timeline": 7}, {"system_id": "7000000000000000001"}])
    def test_an_offset_of_another_cluster_or_timeline_is_an_error(
        self, postgres_server: PostgresServer, database: str, history: dict[str, object]
    ) -> None:
        capture = Capture(postgres_server, database)
        with postgres_server.connect(database) as connection:
            connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
            connection.execute("INSERT INTO t VALUES (1)")
        capture.until_snapshot_is_done()
        capture.crash()
        ((partition, offset),) = [each for each in capture.offsets.items() if "system_id" in each[1]]
        capture.offsets[partition] = {**offset, **history}
        with pytest.raises(ConnectError, match=r"timeline|another cluster") as raised:
            capture.step()
        assert raised.value.condition == "SLOT_LOST"
        capture.crash()
        capture.config["snapshot.mode"] = "when_needed"
        capture.step()
        capture.until_snapshot_is_done()
        assert ops(capture.records) == [("r", 1), ("r", 1)]

    def test_a_snapshot_that_another_timeline_interrupted_begins_again(
        self, postgres_server: PostgresServer, database: str
    ) -> None:
        capture = Capture(postgres_server, database, snapshot_fetch_size="1")
        with postgres_server.connect(database) as connection:
            connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
            connection.execute("INSERT INTO t VALUES (1), (2)")
        capture.until(1)
        capture.crash()
        before = len(capture.records)
        for partition, offset in capture.offsets.items():
            if "timeline" in offset:
                assert offset["snapshot"]
                capture.offsets[partition] = {**offset, "timeline": 7}
        capture.until_snapshot_is_done()
        assert ops(capture.records[before:]) == [("r", 1), ("r", 2)]


def test_metrics_say_how_far_a_snapshot_is_and_how_far_behind_the_changes_are(
    postgres_server: PostgresServer, database: str
) -> None:
    capture = Capture(postgres_server, database, snapshot_fetch_size="2")
    with postgres_server.connect(database) as connection:
        for table in ("t", "u"):
            connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY)")
            connection.execute(f"INSERT INTO {table} SELECT generate_series(1, 5)")
        capture.until(2)
        assert capture.context is not None
        metrics = capture.context.metrics
        assert (metrics["TotalTableCount"], metrics["RemainingTableCount"]) == (2, 1)
        assert (metrics["SnapshotRunning"], metrics["SnapshotCompleted"]) == (1, 0)
        assert 2 <= metrics["TotalNumberOfEventsSeen"] < 10
        capture.until_snapshot_is_done()
        assert (metrics["RemainingTableCount"], metrics["TotalNumberOfEventsSeen"]) == (0, 10)
        assert (metrics["SnapshotRunning"], metrics["SnapshotCompleted"]) == (0, 1)
        connection.execute("INSERT INTO t VALUES (6)")
        capture.until(11)
        assert 0 <= metrics["MilliSecondsBehindSource"] < 60_000


def test_the_stream_of_another_client_is_refused(postgres_server: PostgresServer, database: str) -> None:
    with postgres_server.connect(database) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
    first = Capture(postgres_server, database, topic_prefix="first")
    first.until_snapshot_is_done()
    first.step()
    with pytest.raises(ConnectError, match="is in use by 'hayase-capture:first'"):
        Capture(postgres_server, database, topic_prefix="second").step()
    first.crash()


def test_an_own_stream_that_is_left_is_ended(postgres_server: PostgresServer, database: str) -> None:
    first = Capture(postgres_server, database)
    with postgres_server.connect(database) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
        first.until_snapshot_is_done()
        first.step()
        second = Capture(postgres_server, database)
        second.offsets = dict(first.offsets)
        connection.execute("INSERT INTO t VALUES (1)")
        second.until(1)
    second.crash()
    first.crash()


def test_a_task_that_is_to_be_exactly_once_does_not_read_a_table_without_a_key(
    postgres_server: PostgresServer, database: str
) -> None:
    capture = Capture(postgres_server, database, exactly_once_support="required")
    with postgres_server.connect(database) as connection:
        connection.execute("CREATE TABLE logs (line text)")
        connection.execute("ALTER TABLE logs REPLICA IDENTITY FULL")
        with pytest.raises(ConnectError, match="could come twice"):
            capture.until_snapshot_is_done()
        assert not capture.records


class TestValidation:
    def errors(self, config: dict[str, str]) -> dict[str, list[str]]:
        return {value.name: value.errors for value in PostgresConnector().validate(config) if value.errors}

    def test_a_table_without_a_key_is_refused_with_the_statement_that_mends_it(
        self, postgres_server: PostgresServer, database: str
    ) -> None:
        with postgres_server.connect(database) as connection:
            connection.execute("CREATE TABLE logs (line text)")
            connection.execute("CREATE PUBLICATION dbz_publication FOR ALL TABLES")
            config = Capture(postgres_server, database).config
            (error,) = self.errors(config)["table.include.list"]
            assert 'ALTER TABLE "public"."logs" REPLICA IDENTITY FULL' in error
            connection.execute("ALTER TABLE logs REPLICA IDENTITY FULL")
            assert not self.errors(config)

    def test_rows_that_could_come_twice_are_refused_where_exactly_once_is_required(
        self, postgres_server: PostgresServer, database: str
    ) -> None:
        with postgres_server.connect(database) as connection:
            connection.execute("CREATE TABLE logs (line text)")
            connection.execute("ALTER TABLE logs REPLICA IDENTITY FULL")
            connection.execute("CREATE PUBLICATION dbz_publication FOR ALL TABLES")
            config = {**Capture(postgres_server, database).config, "exactly.once.support": "required"}
            (error,) = self.errors(config)["snapshot.mode"]
            assert not self.errors({**config, "snapshot.mode": "no_data"})
            assert not self.errors({**config, "exactly.once.support": "requested"})
            statement = 'ALTER TABLE "public"."logs" ADD COLUMN id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY'
            assert statement in error
            connection.execute(statement)
            assert not self.errors(config)

    def test_a_user_that_may_not_replicate_is_refused(self, postgres_server: PostgresServer, database: str) -> None:
        with postgres_server.connect(database) as connection:
            connection.execute(f"CREATE ROLE plain_{database} LOGIN PASSWORD 'x'")
        config = {**Capture(postgres_server, database).config, "database.user": f"plain_{database}"}
        (error,) = self.errors({**config, "database.password": "x"})["database.user"]
        assert f'ALTER ROLE "plain_{database}" REPLICATION' in error

    def test_a_wrong_password_is_an_error_without_the_password(
        self, postgres_server: PostgresServer, database: str
    ) -> None:
        config = {**Capture(postgres_server, database).config, "database.password": "s3cret-one"}
        (error,) = self.errors(config)["database.hostname"]
        assert "password authentication failed" in error
        assert "s3cret-one" not in error


def test_rows_without_a_key_are_captured_with_the_whole_row(postgres_server: PostgresServer, database: str) -> None:
    capture = Capture(postgres_server, database)
    with postgres_server.connect(database) as connection:
        connection.execute("CREATE TABLE logs (line text)")
        connection.execute("ALTER TABLE logs REPLICA IDENTITY FULL")
        connection.execute("INSERT INTO logs VALUES ('a'), ('b')")
        capture.until_snapshot_is_done()
        connection.execute("UPDATE logs SET line = 'c' WHERE line = 'a'")
        capture.until(3)
    assert [(value["op"], value["after"]["line"]) for value in values(capture.records)] == [
        ("r", "a"), ("r", "b"), ("u", "c"),
    ]  # fmt: skip
    assert all(record.key is None for record in capture.records)


def test_a_connector_goes_on_where_debezium_stopped(postgres_server: PostgresServer, database: str) -> None:
    capture = Capture(postgres_server, database)
    with postgres_server.connect(database) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
        connection.execute("CREATE PUBLICATION dbz_publication FOR ALL TABLES")
        slot = f"debezium_{database}"
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,))
        capture.until_snapshot_is_done()
        connection.execute("INSERT INTO t VALUES (0)")
        connection.execute("INSERT INTO t SELECT generate_series(1, 4)")
        events = values(capture.until(5))
        capture.crash()
        # What Debezium stores behind the second change of the second transaction.
        source = events[2]["source"]
        before = int(json.loads(source["sequence"])[0])
        taken_over = Capture(postgres_server, database, slot_name=slot)
        taken_over.config["slot.name"] = slot
        taken_over.offsets[(("server", "shop"),)] = {
            "lsn": source["lsn"], "lsn_proc": before, "lsn_commit": before, "txId": source["txId"],
            "ts_usec": source["ts_us"], "messageType": "INSERT", "transaction_id": None,
        }  # fmt: skip
        taken_over.until(2)
    assert ops(taken_over.records) == [("c", 3), ("c", 4)]


def test_changes_can_be_captured_without_what_was_there(postgres_server: PostgresServer, database: str) -> None:
    capture = Capture(postgres_server, database, snapshot_mode="no_data")
    with postgres_server.connect(database) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
        connection.execute("INSERT INTO t VALUES (1)")
        capture.step()
        connection.execute("INSERT INTO t VALUES (2)")
        capture.until(1)
    assert ops(capture.records) == [("c", 2)]


def test_heartbeats_are_written_while_nothing_happens(postgres_server: PostgresServer, database: str) -> None:
    capture = Capture(postgres_server, database, heartbeat_interval_ms="50")
    with postgres_server.connect(database) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
    capture.until(2)
    assert {record.topic for record in capture.records} == {"__debezium-heartbeat.shop"}


def test_what_was_read_when_the_connection_broke_is_read_again(
    postgres_server: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = Capture(postgres_server, database)
    with postgres_server.connect(database) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
        capture.until_snapshot_is_done()
        connection.execute("INSERT INTO t VALUES (0)")
        capture.until(1)
        receive, received = ReplicationConnection.receive, []

        def breaks_once(stream: ReplicationConnection) -> Any:
            message = receive(stream)
            if message is not None:
                received.append(message)
                if len(received) == 5:
                    raise RetriableError("DATABASE_UNREACHABLE", "the connection broke")
            return message

        monkeypatch.setattr(ReplicationConnection, "receive", breaks_once)
        connection.execute("INSERT INTO t SELECT generate_series(1, 5)")
        capture.until(6)
    assert ops(capture.records) == [("c", number) for number in range(6)]


def test_a_position_is_confirmed_only_after_it_is_durable(
    postgres_server: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = Capture(postgres_server, database, status_update_interval_ms="100")
    too_early, send = [], ReplicationConnection.send_status

    def checked(stream: ReplicationConnection) -> None:
        durable = capture.offsets.get((("server", "shop"),), {}).get("lsn_commit", 0)
        if stream.confirmed > durable:
            too_early.append((stream.confirmed, durable))
        send(stream)

    monkeypatch.setattr(ReplicationConnection, "send_status", checked)
    with postgres_server.connect(database) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
        connection.execute("CREATE TABLE other (id int PRIMARY KEY)")
        connection.execute("CREATE PUBLICATION dbz_publication FOR TABLE t")
        for number in range(40):
            connection.execute("INSERT INTO t VALUES (%s)", (number,))
            connection.execute("INSERT INTO other VALUES (%s)", (number,))  # idle positions are confirmed as well
            capture.step(crash=("", "", "", "before", "", "after")[number % 6])
        capture.until(40)
        task, _ = capture._running()
        for _ in range(10):
            capture.step()
        assert task._session is not None
        assert task._session.replication.confirmed > 0
    assert too_early == []
