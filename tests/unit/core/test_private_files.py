"""What is made on disk is for its user alone."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hayase.core.errors import StateError
from hayase.core.private_files import (
    allow_group_access,
    make_folder,
    make_predictable,
    make_root,
    open_file,
    write_file,
)
from hayase.state.bundle import BundleState
from hayase.storage.posix_blobs import PosixBlobs

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
NOBODY = 65534


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True, params=[0o022, 0o000], ids=["umask 022", "umask 000"])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)
    allow_group_access(False)


def everything(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): mode(path) for path in folder.rglob("*")}


def test_folders_are_0700_and_files_0600_whatever_the_umask(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b")
    write_file(tmp_path / "a" / "file", b"x")
    os.close(open_file(tmp_path / "a" / "lock", os.O_RDWR | os.O_CREAT))
    assert everything(tmp_path) == {"a": 0o700, "a/b": 0o700, "a/file": 0o600, "a/lock": 0o600}


def test_group_access_is_a_setting(tmp_path: Path) -> None:
    allow_group_access(True)
    make_root(tmp_path / "a")
    write_file(tmp_path / "a" / "file", b"x")
    assert everything(tmp_path) == {"a": 0o770, "a/file": 0o660}


def test_a_checkpoint_and_a_state_are_private(tmp_path: Path) -> None:
    PosixBlobs(tmp_path / "checkpoint", fsync=False).put_if_absent("epochs/0", b"x")
    BundleState(tmp_path / "state" / "0-0", application_id="app", lineage="L", bundle="0-0").close()
    for path, found in everything(tmp_path).items():
        assert found == (0o700 if (tmp_path / path).is_dir() else 0o600), path


def test_a_folder_of_ours_that_is_open_to_others_is_closed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o755)
    make_root(tmp_path / "state")
    assert mode(tmp_path / "state") == 0o700
    assert "0o755" in caplog.text


def test_a_folder_where_all_may_write_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    make_root(tmp_path / "shared")
    assert mode(tmp_path / "shared") == 0o1777


def test_a_predictable_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir()
    (tmp_path / "hayase-0").symlink_to(tmp_path / "victim")
    with pytest.raises(StateError) as refused:
        make_predictable(tmp_path / "hayase-0")
    assert refused.value.condition == "FOLDER_NOT_PRIVATE"


def test_a_predictable_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "hayase-0").mkdir()
    (tmp_path / "hayase-0").chmod(0o777)
    with pytest.raises(StateError, match="other users may write to it"):
        make_predictable(tmp_path / "hayase-0")


@AS_ROOT
def test_a_predictable_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "hayase-0").mkdir()
    os.chown(tmp_path / "hayase-0", NOBODY, NOBODY)
    with pytest.raises(StateError, match="it belongs to user"):
        make_predictable(tmp_path / "hayase-0")


def test_a_link_where_a_lock_should_be_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "lock").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic links"):
        open_file(tmp_path / "lock", os.O_RDWR | os.O_CREAT)


_READ_ALL = """
import os, sys
os.setgid(65534), os.setuid(65534)
found = []
for parent, folders, files in os.walk(sys.argv[1]):
    for name in files:
        try:
            open(os.path.join(parent, name), "rb").read(1)
            found.append(name)
        except OSError:
            pass
print(len(found))
"""


@AS_ROOT
def test_another_user_reads_nothing(tmp_path: Path) -> None:
    for parent in (tmp_path, *tmp_path.parents):
        if parent.stat().st_uid == 0 and parent != Path(parent.anchor):
            parent.chmod(mode(parent) | 0o055)
    PosixBlobs(tmp_path / "checkpoint", fsync=False).put_if_absent("epochs/0", b"x")
    BundleState(tmp_path / "state" / "0-0", application_id="app", lineage="L", bundle="0-0").close()
    (tmp_path / "open").write_text("to prove that the folders above are no obstacle")
    done = subprocess.run([sys.executable, "-c", _READ_ALL, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"
