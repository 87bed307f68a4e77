"""`hayase server`: users and backups."""

from __future__ import annotations

import io
import sys
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


@pytest.mark.parametrize(("name", "role"), [("ada", "king"), ("a:b", "read")])
def test_what_is_wrong_with_a_user_is_said_before_the_password_is_read(
    name: str, role: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("secret\nbehind\n"))
    assert run_cli(["server", "user", name, "--role", role]) == 1
    assert sys.stdin.readline() == "secret\n"


def test_a_password_is_the_first_line_of_a_pipe_and_nothing_but_the_user_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("secret\n"))
    assert run_cli(["server", "user", "ada"]) == 0
    path = tmp_path / "users"
    path.write_text(capsys.readouterr().out)
    path.chmod(0o600)
    assert len(path.read_text().splitlines()) == 1
    assert Users(path).check("ada", "secret") is not None


def test_an_empty_password_of_a_pipe_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert run_cli(["server", "user", "ada"]) == 1
    assert "no password" in capsys.readouterr().err


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


def restored(folder: Path, file: Path) -> int:
    """The exit code of a restore."""
    where = ["--log-dir", str(folder / "log"), "-c", f"state.dir={folder / 'state'}"]
    return run_cli(["server", "restore", str(file), "--yes", *where])


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """A backup with two commands and their outcomes, of a server that has ended."""
    with server_in(tmp_path, ksql_metastore_backup_location=tmp_path / "backup") as context:
        execute(context, "CREATE TYPE a AS INT; CREATE TYPE b AS INT;")
        return tmp_path / "backup" / f"{context.settings.command_topic}.jsonl"


def types_of(folder: Path) -> list[str]:
    with server_in(folder) as context:
        assert context.status == "RUNNING"
        return list(context.engine.catalog.types)


def test_a_backup_is_not_restored_under_a_server_that_runs(
    tmp_path: Path, backup: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with server_in(tmp_path) as context:
        execute(context, "CREATE TYPE c AS INT;")
        assert restored(tmp_path, backup) == 1
        assert "stop the server" in capsys.readouterr().err.lower()
    assert types_of(tmp_path) == ["A", "B", "C"]


def test_a_line_that_a_crash_has_cut_is_left_out_of_what_is_restored(
    tmp_path: Path, backup: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    backup.write_bytes(backup.read_bytes()[:-20])
    assert restored(tmp_path, backup) == 0
    output = capsys.readouterr()
    assert "3 records restored" in output.out
    assert "cut" in output.err
    assert types_of(tmp_path) == ["A", "B"]


@pytest.mark.parametrize(
    ("number", "line", "why"),
    [(2, b"hello", "no command"), (3, b"", "no command"), (2, None, "record 2 where 1 should be")],
)
def test_a_damaged_backup_is_refused_with_its_line_and_changes_nothing(
    tmp_path: Path, backup: Path, capsys: pytest.CaptureFixture[str], number: int, line: bytes | None, why: str
) -> None:
    lines = backup.read_bytes().splitlines()
    lines[number - 1 : number] = [] if line is None else [line]
    backup.write_bytes(b"".join(each + b"\n" for each in lines))
    assert restored(tmp_path, backup) == 1
    error = " ".join(capsys.readouterr().err.split())
    assert f"line {number} of {backup}" in error.replace("- ", "-")
    assert why in error
    assert "command topic cannot be used" not in error
    assert types_of(tmp_path) == ["A", "B"]


def test_an_empty_backup_replaces_nothing(tmp_path: Path, backup: Path, capsys: pytest.CaptureFixture[str]) -> None:
    backup.write_bytes(b"")
    assert restored(tmp_path, backup) == 1
    assert "no records" in capsys.readouterr().err
    assert types_of(tmp_path) == ["A", "B"]


def test_a_backup_that_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["server", "restore", "/nowhere/backup", "--yes"]) == 1
    assert "cannot be read" in capsys.readouterr().err
