"""The outbox in both forms, and the inbox, on a real server: with random transactions that commit and roll back."""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Engine, create_engine, insert, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from hayase.connect.worker import ConnectWorker
from hayase.core.errors import ConfigError, SerializationError
from hayase.core.records import SourceRecord, TopicPartition
from hayase.log.open import open_log
from hayase.log.protocol import LogConfig
from hayase.patterns import inbox, outbox
from hayase.patterns.inbox_records import create_inbox
from hayase.testing.postgres_server import PASSWORD, USER, PostgresServer

pytestmark = pytest.mark.postgres


@dataclass
class Captured:
    cents: int


class Base(DeclarativeBase):
    pass


class Payment(Base):
    __tablename__ = "payments"
    id: Mapped[str] = mapped_column(primary_key=True)
    cents: Mapped[int]


def engine_of(server: PostgresServer, database: str) -> Engine:
    return create_engine(f"postgresql+psycopg://{USER}:{PASSWORD}@{server.host}:{server.port}/{database}")


def read(log: LogConfig, topic: str) -> list[SourceRecord]:
    opened = open_log(log)
    try:
        info = opened.describe([topic]).get(topic)
        if info is None:
            return []
        places = [TopicPartition(topic, number) for number in range(info.partitions)]
        found: list[SourceRecord] = []
        reader = opened.reader()
        for place, end in opened.end_offsets(places).items():
            for batch in reader.fetch(place, 0, end) if end else ():
                found += [batch.record(row) for row in range(len(batch))]
        reader.close()
        return found
    finally:
        opened.close()


Publish = Callable[..., str]
Connector = Callable[[Mapping[str, str]], dict[str, str]]


@contextlib.contextmanager
def capturing(connector: Connector, server: PostgresServer, database: str, log: LogConfig) -> Iterator[ConnectWorker]:
    """The worker of a connector that has begun to capture the outbox."""
    config = connector(
        {
            **server.connector_config(database),
            "topic.prefix": "pay",
            "slot.name": f"slot_{database}",
            "exactly.once.support": "required",
        }
    )
    with server.connect(database) as connection:
        outbox.create_table(connection)
        outbox.create_publication(connection)
    with ConnectWorker(log, {"listeners": "http://127.0.0.1:0"}) as worker:
        worker.herder.put_config("outbox", config)
        deadline = time.monotonic() + 60
        with server.connect(database) as connection:
            while not connection.execute(
                "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND active", (f"slot_{database}",)
            ).fetchone():
                assert time.monotonic() < deadline, worker.herder.status("outbox")
                time.sleep(0.1)
        yield worker


both_forms = pytest.mark.parametrize(
    ("publish", "connector"),
    [(outbox.publish, outbox.table_connector), (outbox.emit, outbox.message_connector)],
    ids=["table", "messages"],
)


@both_forms
def test_committed_events_come_once_in_the_order_of_commits_of_their_key(
    publish: Publish, connector: Connector, postgres_server: PostgresServer, database: str, tmp_path: Path
) -> None:
    log = LogConfig("embedded", str(tmp_path / "log"))
    with postgres_server.connect(database) as connection:
        connection.execute("CREATE TABLE audit (place bigserial, key text, number int)")
    with capturing(connector, postgres_server, database, log) as worker:
        threads = [
            threading.Thread(target=_write, args=(postgres_server, database, publish, seed)) for seed in range(3)
        ]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        worker.herder.restart("outbox", include_tasks=True, only_failed=False)
        for thread in threads:
            thread.join()
        with postgres_server.connect(database) as connection:
            rows = connection.execute("SELECT key, number FROM audit ORDER BY place").fetchall()
            assert connection.execute("SELECT count(*) FROM outbox").fetchone() == (0,)
        deadline = time.monotonic() + 60
        while len(read(log, "payments")) < len(rows) and time.monotonic() < deadline:
            time.sleep(0.2)
        time.sleep(0.5)
    records = read(log, "payments")
    assert {dict(record.headers)["ce_type"] for record in records} == {b"Captured"}
    for record in records:
        headers = dict(record.headers)
        assert headers["ce_id"] == headers["id"] and headers["ce_subject"] == record.key
        assert headers["ce_correlationid"] == b"visit"
        assert headers["ce_causationid"] == b"c%d" % json.loads(record.value or b"")["cents"]
    for key in "abc":
        wanted = [number for each, number in rows if each == key]
        there = [json.loads(record.value or b"")["cents"] for record in records if record.key == key.encode()]
        assert there == wanted


def _write(server: PostgresServer, database: str, publish: Publish, seed: int) -> None:
    chosen = random.Random(seed)
    with server.connect(database, autocommit=False) as connection:
        for step in range(30):
            key = chosen.choice("abc")
            # The lock makes the order of the audit that of the commits.
            connection.execute("SELECT pg_advisory_xact_lock(1)")
            for part in range(chosen.randint(1, 3)):
                number = 10_000 * seed + 10 * step + part
                publish(
                    connection, "payments", key, Captured(number), correlation_id="visit", causation_id=f"c{number}"
                )
                connection.execute("INSERT INTO audit (key, number) VALUES (%s, %s)", (key, number))
            if chosen.random() < 0.3:
                connection.rollback()
            else:
                connection.commit()


@both_forms
def test_of_transactions_of_sqlalchemy_the_committed_ones_are_seen(
    publish: Publish, connector: Connector, postgres_server: PostgresServer, database: str, tmp_path: Path
) -> None:
    log = LogConfig("embedded", str(tmp_path / "log"))
    engine = engine_of(postgres_server, database)
    with capturing(connector, postgres_server, database, log), engine.connect() as connection:
        Payment.metadata.create_all(engine)
        for number in range(4):
            with connection.begin() as transaction:
                connection.execute(insert(Payment).values(id=f"c{number}", cents=number))
                publish(connection, "payments", "a", Captured(number))
                if not number % 2:
                    transaction.rollback()
        for number in range(4, 8):
            with Session(engine) as session:
                session.add(Payment(id=f"s{number}", cents=number))
                publish(session, "payments", "a", Captured(number), causation_id="c")
                (session.commit if number % 2 else session.rollback)()
        deadline = time.monotonic() + 60
        while len(found := read(log, "payments")) < 4:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    assert [json.loads(record.value or b"")["cents"] for record in found] == [1, 3, 5, 7]
    with Session(engine) as session:
        assert sorted(session.scalars(select(Payment.cents))) == [1, 3, 5, 7]
    engine.dispose()


def test_engines_of_sqlalchemy_that_commit_each_statement_are_refused(
    postgres_server: PostgresServer, database: str
) -> None:
    engine = engine_of(postgres_server, database)
    each_by_itself = engine.execution_options(isolation_level="AUTOCOMMIT")
    with engine.begin() as connection:
        outbox.create_table(connection)
        create_inbox(connection)
    for opened in (each_by_itself.connect(), Session(each_by_itself)):
        with opened as connection:
            with pytest.raises(ConfigError, match="NO_TRANSACTION"):
                outbox.publish(connection, "payments", "a", Captured(1))
            with (
                pytest.raises(ConfigError, match="NO_TRANSACTION"),
                inbox(connection, SourceRecord("t", 0, 7, 1, b"k", b"v", ())),
            ):
                pass
    engine.dispose()


def test_a_record_counts_once_in_sessions_of_sqlalchemy(postgres_server: PostgresServer, database: str) -> None:
    record, engine = SourceRecord("t", 0, 7, 1, b"k", b"v", ()), engine_of(postgres_server, database)
    with engine.begin() as connection:
        create_inbox(connection)
    found = []
    for end in ("rollback", "commit", "commit"):
        with Session(engine) as session:
            with inbox(session, record) as new:
                found.append(new)
            getattr(session, end)()
    assert found == [True, True, False]
    engine.dispose()


@pytest.mark.parametrize("publish", [outbox.publish, outbox.emit])
def test_a_connection_that_commits_each_statement_is_refused(
    publish: Publish, postgres_server: PostgresServer, database: str
) -> None:
    with postgres_server.connect(database) as connection:
        outbox.create_table(connection)
        with pytest.raises(ConfigError, match="NO_TRANSACTION"):
            publish(connection, "payments", "a", Captured(1))
        with connection.transaction():
            publish(connection, "payments", "a", Captured(1))


@pytest.mark.parametrize(
    ("topic", "key", "event"),
    [("", "a", Captured(1)), ("t", "", Captured(1)), ("t", "a", 7), ("t", "a", {"x": object()})],
)
def test_what_is_no_event_is_refused_before_anything_is_written(
    topic: str, key: str, event: object, postgres_server: PostgresServer, database: str
) -> None:
    with (
        postgres_server.connect(database, autocommit=False) as connection,
        pytest.raises(SerializationError, match="INVALID_EVENT"),
    ):
        outbox.publish(connection, topic, key, event)


def test_a_record_counts_once_and_again_after_a_rollback(postgres_server: PostgresServer, database: str) -> None:
    record = SourceRecord("t", 0, 7, 1, b"k", b"v", ())
    with postgres_server.connect(database, autocommit=False) as connection:
        create_inbox(connection)
        connection.commit()
        with inbox(connection, record) as new:
            assert new
        connection.rollback()
        for expected in (True, False):
            with inbox(connection, record) as new:
                assert new is expected
            connection.commit()
        with inbox(connection, record, receiver="other") as new:
            assert new


def test_of_two_processes_with_one_record_the_second_waits_and_finds_it_noted(
    postgres_server: PostgresServer, database: str
) -> None:
    record = SourceRecord("t", 0, 7, 1, b"k", b"v", (("ce_id", b"17/1"), ("ce_source", b"/order")))
    found: list[bool] = []

    def second() -> None:
        with psycopg.connect(postgres_server.dsn(database)) as connection, inbox(connection, record) as new:
            found.append(new)

    with postgres_server.connect(database, autocommit=False) as connection:
        create_inbox(connection)
        connection.commit()
        with inbox(connection, record) as new:
            assert new
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.3)
        assert not found
        connection.commit()
        thread.join(10)
    assert found == [False]


def test_an_older_table_of_debezium_gets_the_columns_and_one_without_them_will_do(
    postgres_server: PostgresServer, database: str
) -> None:
    columns = "id uuid PRIMARY KEY, aggregatetype text, aggregateid text, type text, payload text"
    with postgres_server.connect(database, autocommit=False) as connection:
        connection.execute(f"CREATE TABLE outbox ({columns})")
        outbox.publish(connection, "payments", "a", Captured(1))
        outbox.create_table(connection)
        outbox.publish(connection, "payments", "a", Captured(1), causation_id="c")
