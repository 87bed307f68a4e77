"""One PostgreSQL server for all tests of this folder; each test has a database of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from hayase.log.open import open_log
from hayase.log.protocol import Log, LogConfig
from hayase.testing.postgres_server import PostgresServer

_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def database(postgres_server: PostgresServer) -> Iterator[str]:
    name = f"test_{next(_numbers)}"
    with postgres_server.connect() as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield name
    with postgres_server.connect() as connection:
        rows = connection.execute(
            "SELECT slot_name, active_pid FROM pg_replication_slots WHERE database = %s", (name,)
        ).fetchall()
        for slot, pid in rows:
            if pid is not None:
                connection.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))
            connection.execute("SELECT pg_drop_replication_slot(%s)", (slot,))


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    opened = open_log(LogConfig("embedded", str(tmp_path / "log"), {"fsync": "false", "cleaner.interval.ms": "0"}))
    yield opened
    opened.close()
