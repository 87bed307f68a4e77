"""`hayase server`: users and backups."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.server.command_servers import execute, server_in

from hayase.cli.main import run_cli
from hayase.server.security.users import Role, Users


def test_a_line_for_the_users_file_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["server", "user", "ada", "--role", "write", "--password", "secret"]) == 0
    path = tmp_path / "users"
    path.write_text(capsys.readouterr().out)
    path.chmod(0o600)
    found = Users(path).check("ada", "secret")
    assert found is not None
    assert found.role is Role.WRITE


def test_a_role_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["server", "user", "ada", "--role", "king", "--password", "secret"]) == 1
    assert "read, write, admin" in capsys.readouterr().err


def test_a_backup_is_restored_by_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    backups = tmp_path / "backup"
    with server_in(tmp_path, ksql_metastore_backup_location=backups) as context:
        execute(context, "CREATE TYPE a AS INT;")
        topic = context.settings.command_topic
        context.log.delete_topic(topic)
    file = str(backups / f"{topic}.jsonl")
    where = ["--log-dir", str(tmp_path / "log"), "-c", f"state.dir={tmp_path / 'state'}"]
    assert run_cli(["server", "restore", file, "--yes", *where]) == 0
    assert "2 records restored" in capsys.readouterr().out
    with server_in(tmp_path) as context:
        assert list(context.engine.catalog.types) == ["A"]


def test_a_backup_that_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["server", "restore", "/nowhere/backup", "--yes"]) == 1
    assert "cannot be read" in capsys.readouterr().err
