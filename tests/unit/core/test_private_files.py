"""Folders that are closed, and those that are left as they are."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

import pytest
from tests.other_user import NOBODY, needs_root, open_below

from hayase.core import config_table
from hayase.core.errors import FolderError
from hayase.core.private_files import is_own_folder, open_file, private_folder, write_file


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_an_open_folder_is_closed_with_everything_in_it_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "state"
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "file").write_text("x")
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)
    with caplog.at_level(logging.WARNING):
        private_folder(folder)
    assert open_below(folder) == []
    assert str(folder) in caplog.text
    assert "0777" in caplog.text
    caplog.clear()
    private_folder(folder)
    assert caplog.text == ""


def test_a_folder_that_holds_files_of_the_user_is_not_touched_and_what_is_hayases_in_it_is_closed(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "project"
    (folder / "lease").parent.mkdir(0o755)
    for name in ("lease", "thesis.txt"):
        (folder / name).write_text("x")
        (folder / name).chmod(0o644)
    private_folder(folder, contents=("lease",))
    assert (mode(folder), mode(folder / "lease"), mode(folder / "thesis.txt")) == (0o755, 0o600, 0o644)


@pytest.mark.parametrize("which", ["home", "sticky"])
def test_a_home_and_a_place_for_all_users_are_never_closed(
    tmp_path: Path, which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "place"
    folder.mkdir()
    folder.chmod(0o1777 if which == "sticky" else 0o755)
    if which == "home":
        monkeypatch.setenv("HOME", str(folder))
    before = mode(folder)
    private_folder(folder)
    assert mode(folder) == before


def test_a_link_of_the_users_own_is_followed_unless_its_place_is_open_to_all(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir(0o700)
    (tmp_path / "state").symlink_to(tmp_path / "disk")
    private_folder(tmp_path / "state")
    with pytest.raises(FolderError, match="symbolic link") as error:
        private_folder(tmp_path / "state", predictable=True)
    assert error.value.condition == "FOLDER_NOT_PRIVATE"
    assert not is_own_folder(tmp_path / "state")


@needs_root
def test_files_that_another_user_planted_while_a_folder_was_open_are_found(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    folder.chmod(0o777)
    (folder / "planted").write_text("x")
    os.chown(folder / "planted", NOBODY, NOBODY)
    with pytest.raises(FolderError, match=r"planted.*nobody"):
        private_folder(folder)


@needs_root
def test_a_group_that_another_user_opened_a_predictable_folder_to_is_no_reason_to_use_it(tmp_path: Path) -> None:
    folder = tmp_path / "hayase-0"
    folder.mkdir()
    os.chown(folder, NOBODY, os.getegid())
    folder.chmod(0o2770)
    private_folder(folder)  # named by the user, shared by its owner with a group that the user is in
    with pytest.raises(FolderError, match="belongs to nobody"):
        private_folder(folder, predictable=True)


def test_a_file_is_emptied_only_when_it_is_known_to_be_ours(tmp_path: Path) -> None:
    write_file(tmp_path / "file", b"first, and longer")
    write_file(tmp_path / "file", b"second")
    assert (tmp_path / "file").read_bytes() == b"second"
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with pytest.raises(FolderError) as error:
        open_file(tmp_path / "link", os.O_WRONLY | os.O_TRUNC)
    assert error.value.condition == "FILE_NOT_PRIVATE"
    assert (tmp_path / "file").read_bytes() == b"second"


def test_a_second_name_is_allowed_where_only_the_user_could_have_given_it(tmp_path: Path) -> None:
    """Backups are made of hard links."""
    write_file(tmp_path / "file", b"")
    os.link(tmp_path / "file", tmp_path / "backup")
    os.close(open_file(tmp_path / "file", os.O_RDWR))


def test_what_could_be_run_by_its_user_can_still_be_when_its_folder_was_closed(tmp_path: Path) -> None:
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "script").touch()
    (folder / "script").chmod(0o755)
    folder.chmod(0o755)
    private_folder(folder)
    assert mode(folder / "script") == 0o700


def test_a_file_with_a_second_name_in_a_folder_that_others_could_write_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    (tmp_path / "precious").write_text("x")
    os.link(tmp_path / "precious", folder / "data.mdb")
    folder.chmod(0o777)
    with pytest.raises(FolderError, match="hard link") as caught:
        private_folder(folder, contents=("data.mdb",))
    assert caught.value.condition == "FILE_NOT_PRIVATE"


def test_an_open_folder_that_cannot_be_closed_is_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "thesis.txt").write_text("x")
    for given, warned in ((0o755, False), (0o777, True)):
        folder.chmod(given)
        private_folder(folder, contents=("lease",))
        assert ("thesis.txt" in caplog.text and "0777" in caplog.text) is warned
        assert mode(folder) == given


def test_stores_in_memory_are_on_disk_where_another_user_has_taken_the_folder_in_shared_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config_table, "SHARED_MEMORY", tmp_path)
    own = tmp_path / f"hayase-{os.getuid()}"
    assert config_table.memory_dir(tmp_path / "state") == own
    own.symlink_to(tmp_path)
    assert config_table.memory_dir(tmp_path / "state") == tmp_path / "state" / "memory"
