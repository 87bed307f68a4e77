"""One PostgreSQL server for all tests of this folder; each test has a database of its own.

Tests of a module that says `EVERY_VERSION = True` run with `--slow` on all versions that are captured, from the one on
that the marker `postgres_since` names.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.postgres.backends import end_backends

from hayase.log.open import open_log
from hayase.log.protocol import Log, LogConfig
from hayase.testing.postgres_server import POSTGRES_VERSION, POSTGRES_VERSIONS, PostgresServer

_numbers = itertools.count()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "postgres_server" not in metafunc.fixturenames or not getattr(metafunc.module, "EVERY_VERSION", False):
        return
    since = next((mark.args[0] for mark in metafunc.definition.iter_markers("postgres_since")), 0)
    versions = [
        pytest.param(version, id=f"postgres{version}", marks=[] if version == POSTGRES_VERSION else [pytest.mark.slow])
        for version in POSTGRES_VERSIONS
        if version >= since
    ]
    metafunc.parametrize("postgres_server", versions, indirect=True, scope="session")


@pytest.fixture(scope="session")
def postgres_server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    with PostgresServer(version=getattr(request, "param", POSTGRES_VERSION)) as server:
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
        end_backends(connection, "pid = ANY(%s)", [pid for _, pid in rows])
        for slot, _ in rows:
            connection.execute("SELECT pg_drop_replication_slot(%s)", (slot,))


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    opened = open_log(LogConfig("embedded", str(tmp_path / "log"), {"fsync": "false", "cleaner.interval.ms": "0"}))
    yield opened
    opened.close()
