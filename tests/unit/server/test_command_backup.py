"""The copy of the command topic in a file."""

from __future__ import annotations

import logging
import os
import shutil
import stat
from pathlib import Path

import pytest
from tests.unit.server.command_servers import execute, server_in, settings_in

from hayase.core.errors import ConfigError, FolderError
from hayase.server.commands.backup import CommandBackup

TYPES = [f"CREATE TYPE t{number} AS INT;" for number in range(4)]


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_its_user_may_read_a_backup(tmp_path: Path) -> None:
    folder, before = tmp_path / "data" / "backup", os.umask(0)
    try:
        with server_in(tmp_path, ksql_metastore_backup_location=folder) as context:
            execute(context, TYPES[0])
    finally:
        os.umask(before)
    assert _mode(folder) == 0o700
    assert [_mode(file) for file in folder.iterdir()] == [0o600]


def test_a_backup_that_cannot_be_written_fails_no_command(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "backup"
    with server_in(tmp_path, ksql_metastore_backup_location=folder) as context:
        execute(context, TYPES[0])
        file = folder / f"{context.settings.command_topic}.jsonl"
        whole = file.read_bytes()
        shutil.rmtree(folder)
        folder.write_text("in the way")
        with caplog.at_level(logging.ERROR):
            execute(context, TYPES[1])
        assert "could not be copied" in caplog.text
        folder.unlink()
        folder.mkdir()
        file.write_bytes(whole)
        execute(context, TYPES[2])
        assert len(file.read_bytes().splitlines()) == 6
    with server_in(tmp_path, ksql_metastore_backup_location=folder) as context:
        assert context.status == "RUNNING"
        assert list(context.engine.catalog.types) == ["T0", "T1", "T2"]


def test_a_line_of_which_a_part_was_written_is_written_again(tmp_path: Path) -> None:
    file = tmp_path / "c.jsonl"
    backup = CommandBackup(file, lambda: 7)
    backup.complete([b"one"])
    with file.open("ab") as torn:
        torn.write(b"tw")
    backup.append(b"two")
    assert file.read_bytes() == b"one\ntwo\n"


def test_a_line_that_was_cut_by_a_crash_is_completed_at_the_start(tmp_path: Path) -> None:
    file = tmp_path / "c.jsonl"
    file.write_bytes(b"one\ntw")
    CommandBackup(file, lambda: 7).complete([b"one", b"two", b"three"])
    assert file.read_bytes() == b"one\ntwo\nthree\n"


def test_a_backup_of_other_commands_is_put_aside(tmp_path: Path) -> None:
    file = tmp_path / "c.jsonl"
    file.write_bytes(b"other\n")
    CommandBackup(file, lambda: 7).complete([b"one"])
    assert file.read_bytes() == b"one\n"
    assert (tmp_path / "c.7.jsonl").read_bytes() == b"other\n"


def test_a_server_whose_backup_cannot_be_written_says_so_at_its_start(tmp_path: Path) -> None:
    (tmp_path / "backup").write_text("in the way")
    with (
        pytest.raises(ConfigError, match=r"ksql\.metastore\.backup\.location"),
        server_in(tmp_path, ksql_metastore_backup_location=tmp_path / "backup"),
    ):
        pass


def test_a_link_in_the_place_of_a_backup_is_not_followed(tmp_path: Path) -> None:
    folder, other = tmp_path / "backup", tmp_path / "other"
    folder.mkdir()
    other.write_bytes(b"")
    (folder / f"{settings_in(tmp_path).command_topic}.jsonl").symlink_to(other)
    with pytest.raises(FolderError), server_in(tmp_path, ksql_metastore_backup_location=folder):
        pass
