"""Rows that are too many for a message."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hayase.core.errors import StateError
from hayase.runtime.wire.row_files import RowFiles, write_rows
from hayase.state.delta.journal import EdgeRow
from hayase.storage.posix_blobs import PosixBlobs

ROWS = [EdgeRow("1-0", "edge", "0-1", number, b"payload" * number) for number in range(5)]
Write = Callable[[RowFiles, Path], str]


in_file_and_blob = pytest.mark.parametrize(
    "write", [lambda files, folder: write_rows(folder, ROWS), lambda files, folder: files.write_blob(ROWS)]
)


@in_file_and_blob
def test_rows_are_read_as_they_were_written_as_often_as_needed_until_they_are_removed(
    write: Write, tmp_path: Path
) -> None:
    files = RowFiles(PosixBlobs(tmp_path / "checkpoint", fsync=False))
    name = write(files, tmp_path)
    for _ in range(2):
        assert list(files.read(name)) == ROWS
    files.remove(name)
    files.remove(name)
    with pytest.raises(StateError) as raised:
        list(files.read(name))
    assert raised.value.condition == "ROWS_MISSING"


@in_file_and_blob
def test_rows_that_are_cut_off_or_changed_anywhere_are_no_rows(write: Write, tmp_path: Path) -> None:
    files = RowFiles(PosixBlobs(tmp_path / "checkpoint", fsync=False))
    name = write(files, tmp_path)
    path = Path(name) if Path(name).is_absolute() else tmp_path / "checkpoint" / name
    whole = path.read_bytes()
    changed = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(len(whole))]
    for damaged in (*(whole[:size] for size in range(len(whole))), *changed, whole + b"\0"):
        path.write_bytes(damaged)
        with pytest.raises(StateError) as raised:
            list(files.read(name))
        assert raised.value.condition == "ROWS_MISSING"
