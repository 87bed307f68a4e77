"""A table is captured by a worker and written to another table by the same worker, while it is restarted."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from hayase.connect.worker import ConnectWorker
from hayase.log.protocol import LogConfig
from hayase.testing.postgres_server import PASSWORD, USER, PostgresServer

pytestmark = pytest.mark.postgres


def test_a_copy_of_a_table_equals_it_after_restarts(
    postgres_server: PostgresServer, database: str, tmp_path: Path
) -> None:
    source = {
        **postgres_server.connector_config(database),
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "topic.prefix": "shop",
        "slot.name": f"slot_{database}",
        "table.include.list": "public.users",
        "exactly.once.support": "required",
    }
    sink = {
        "connector.class": "PostgresSink",
        "topics": "shop.public.users",
        "connection.url": f"postgresql://{postgres_server.host}:{postgres_server.port}/{database}",
        "connection.username": USER,
        "connection.password": PASSWORD,
        "collection.name.format": "copied",
        "insert.mode": "upsert",
        "primary.key.mode": "record_key",
        "delete.enabled": "true",
        "auto.create": "true",
    }
    log = LogConfig("embedded", str(tmp_path / "log"))
    chosen = random.Random(1)
    with postgres_server.connect(database) as connection:
        connection.execute("CREATE TABLE users (id int PRIMARY KEY, name text NOT NULL, cents bigint)")
        connection.execute("INSERT INTO users SELECT i, 'n' || i, i FROM generate_series(1, 500) i")
        for round_number in range(3):
            with ConnectWorker(log, {"listeners": "http://127.0.0.1:0"}) as worker:
                worker.herder.put_config("capture", source)
                worker.herder.put_config("copy", sink)
                for change in range(100):
                    number = chosen.randint(1, 600)
                    connection.execute(
                        "INSERT INTO users VALUES (%s, %s, %s) "
                        "ON CONFLICT (id) DO UPDATE SET name = excluded.name, cents = excluded.cents",
                        (number, f"{round_number}/{change}", change),
                    )
                    if change % 3 == 0:
                        connection.execute("DELETE FROM users WHERE id = %s", (chosen.randint(1, 600),))
                    if change == 60:
                        worker.herder.restart("capture", include_tasks=True, only_failed=False)
                    time.sleep(0.01)
        with ConnectWorker(log, {"listeners": "http://127.0.0.1:0"}) as worker:
            wanted = connection.execute("SELECT id, name, cents FROM users ORDER BY id").fetchall()
            deadline = time.monotonic() + 60
            while True:
                tables = connection.execute("SELECT to_regclass('copied')").fetchone()
                copied = [] if tables in (None, (None,)) else connection.execute(
                    "SELECT id, name, cents FROM copied ORDER BY id"
                ).fetchall()  # fmt: skip
                if copied == wanted or time.monotonic() > deadline:
                    break
                time.sleep(0.2)
            assert copied == wanted, (worker.herder.status("capture"), worker.herder.status("copy"))
