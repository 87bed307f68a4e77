"""Servers that cannot be captured, or have lost what was to be captured, each with a configuration of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.postgres.capture import Capture

from hayase.connect.exceptions import ConnectError
from hayase.testing.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres


def data_folder(server: PostgresServer) -> Path:
    with server.connect() as connection:
        row = connection.execute("SHOW data_directory").fetchone()
    assert row is not None
    return Path(str(row[0]))


def signal_file(folder: Path, name: str) -> Path:
    """A file that has the server recover when it starts; of the user that the server runs as."""
    path, owner = folder / name, folder.stat()
    path.touch()
    os.chown(path, owner.st_uid, owner.st_gid)
    return path


def test_a_server_without_logical_decoding_is_refused_with_the_statement_that_mends_it() -> None:
    with PostgresServer(settings={"wal_level": "replica"}) as server:
        with pytest.raises(ConnectError, match="ALTER SYSTEM SET wal_level = 'logical'") as raised:
            Capture(server).step()
        assert raised.value.condition == "WAL_LEVEL"


def test_a_standby_is_refused_and_what_was_promoted_has_another_history() -> None:
    settings = {"restore_command": "/bin/false"}
    with PostgresServer(settings=settings) as server:
        capture = Capture(server)
        with server.connect() as connection:
            connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
        capture.until_snapshot_is_done()
        capture.crash()
        folder = data_folder(server)
        server.pause()
        standby = signal_file(folder, "standby.signal")
        server.start()
        with pytest.raises(ConnectError) as raised:
            capture.step()
        assert raised.value.condition == "STANDBY"
        capture.crash()
        server.pause()
        standby.unlink()
        signal_file(folder, "recovery.signal")  # recovers to the end of its log, and begins timeline 2
        server.start()
        with pytest.raises(ConnectError, match="is on timeline 2, and not on 1") as raised:
            capture.step()
        assert raised.value.condition == "SLOT_LOST"


def test_log_that_the_server_has_removed_is_an_error() -> None:
    settings = {"max_slot_wal_keep_size": "16MB", "min_wal_size": "32MB", "max_wal_size": "32MB"}
    with PostgresServer(settings=settings) as server:
        capture = Capture(server)
        with server.connect() as connection:
            connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
            capture.until_snapshot_is_done()
            capture.crash()
            for number in range(8):
                connection.execute("INSERT INTO t VALUES (%s)", (number,))
                connection.execute("SELECT pg_switch_wal()")
                connection.execute("CHECKPOINT")
            with pytest.raises(ConnectError, match="the server has removed log that the slot") as raised:
                capture.step()
        assert raised.value.condition == "SLOT_LOST"
