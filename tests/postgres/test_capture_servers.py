"""Servers that cannot be captured, or have lost what was to be captured, each with a configuration of its own."""

from __future__ import annotations

import os
import shutil
import time
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
        with server.connect() as connection:
            while connection.execute("SELECT pg_is_in_recovery()").fetchone() == (True,):
                time.sleep(0.05)
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


def copied(folder: Path, target: Path) -> None:
    """Copy the data of a server that does not run."""
    shutil.copytree(folder, target, symlinks=True)
    for path in (target, *target.rglob("*")):
        os.chown(path, folder.stat().st_uid, folder.stat().st_gid)


def test_a_server_that_was_restored_from_an_older_copy_is_not_gone_on_with(tmp_path: Path) -> None:
    with PostgresServer() as server:
        capture = Capture(server)
        with server.connect() as connection:
            connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
        capture.until_snapshot_is_done()
        capture.crash()
        folder = data_folder(server)
        server.pause()
        copied(folder, tmp_path / "copy")
        server.start()
        with server.connect() as connection:
            connection.execute("INSERT INTO t SELECT i FROM generate_series(1, 1000) i")
        capture.until(1000)
        capture.crash()
        server.pause()
        shutil.rmtree(folder)
        copied(tmp_path / "copy", folder)
        folder.chmod(0o700)
        server.start()
        with server.connect() as connection:
            connection.execute("INSERT INTO t VALUES (2000)")
        with pytest.raises(ConnectError, match="restored from an older copy") as raised:
            capture.step()
        assert raised.value.condition == "SLOT_LOST"


@pytest.mark.parametrize("when", ["stopped", "streaming"])
@pytest.mark.parametrize("again", [False, True], ids=["gone", "made again"])
def test_a_publication_that_was_dropped_loses_changes(
    postgres_server: PostgresServer, database: str, when: str, again: bool
) -> None:
    capture = Capture(postgres_server, database, status_update_interval_ms="100")
    with postgres_server.connect(database) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
        capture.until_snapshot_is_done()
        connection.execute("INSERT INTO t VALUES (1)")
        capture.until(1)
        if when == "stopped":
            capture.crash()
        connection.execute("DROP PUBLICATION dbz_publication")
        connection.execute("INSERT INTO t VALUES (2)")
        if again:
            connection.execute("CREATE PUBLICATION dbz_publication FOR ALL TABLES")
        with pytest.raises(ConnectError, match="the publication 'dbz_publication' was dropped") as raised:
            capture.until(2)
        assert raised.value.condition == "SLOT_LOST"
        capture.config["snapshot.mode"] = "when_needed"
        capture.crash()
        capture.until(3)
    assert [record.key for record in capture.records] == [{"id": 1}, {"id": 1}, {"id": 2}]


def test_tables_that_the_publication_lacks_are_named_with_the_statement_that_adds_them(
    postgres_server: PostgresServer, database: str
) -> None:
    with postgres_server.connect(database) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
        connection.execute("CREATE TABLE u (id int PRIMARY KEY)")
        connection.execute("CREATE PUBLICATION dbz_publication FOR TABLE t")
        capture = Capture(postgres_server, database, table_include_list="public.u")
        with pytest.raises(ConnectError) as raised:
            capture.step()
        assert raised.value.condition == "NO_TABLES"
        statement = 'ALTER PUBLICATION "dbz_publication" ADD TABLE "public"."u"'
        assert statement in raised.value.message
        connection.execute(statement)
        connection.execute("INSERT INTO u VALUES (1)")
        capture.until(1)
