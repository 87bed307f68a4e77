"""Files whose names come again, that cannot be put away, or that hold what no reader likes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.unit.connect.test_files import rows, source

from hayase.connect.exceptions import ConnectError
from hayase.core.errors import HayaseError
from hayase.log.protocol import Log

pytestmark = pytest.mark.long


@pytest.mark.parametrize("read", ["in part", "whole"])
def test_a_name_is_free_again_though_a_task_before_had_begun_a_file_of_that_name(
    log: Log, tmp_path: Path, read: str
) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    with source(log, tmp_path / "*.txt", batch_size="2") as connector:
        connector.step()
        if read == "whole":
            connector.run_to_end()
    with source(log, tmp_path / "*.txt", after="delete") as connector:
        connector.run_to_end()
        (tmp_path / "a.txt").write_text("ONE\nTWO\nTHREE\n")  # as long as the one before
        connector.run_to_end()
        assert rows(connector) == ["one", "two", "three", "ONE", "TWO", "THREE"]
    assert not (tmp_path / "a.txt").exists()


def test_a_file_that_cannot_be_put_away_is_not_read_again(log: Log, tmp_path: Path) -> None:
    (tmp_path / "target").write_text("no folder")
    (tmp_path / "a.txt").write_text("one\n")
    with source(log, tmp_path / "*.txt", after="move", move_path=str(tmp_path / "target")) as connector:
        for _ in range(5):
            connector.step()
        assert rows(connector) == ["one"]
        assert connector.metrics()["files-not-put-away-total"] > 0
        (tmp_path / "target").unlink()
        connector.step()
        assert (tmp_path / "target" / "a.txt").read_text() == "one\n"


def test_a_file_is_not_put_away_before_its_rows_are_published(log: Log, tmp_path: Path) -> None:
    (tmp_path / "y.txt").write_text("y\n")
    with source(log, tmp_path / "*.txt") as connector:
        connector.run_to_end()
    (tmp_path / "x.txt").write_text("x\n")
    late = {"transaction_boundary": "interval", "transaction_boundary_interval_ms": "1000000"}
    with source(log, tmp_path / "*.txt", after="delete", **late) as connector:
        for _ in range(5):
            connector.step()
        connector.kill()
        assert not (tmp_path / "y.txt").exists()
        assert (tmp_path / "x.txt").exists()


def test_a_file_that_has_the_name_of_one_that_was_read_and_not_put_away_is_an_error(log: Log, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    with source(log, tmp_path / "*.txt") as connector:
        connector.run_to_end()
    (tmp_path / "new").write_text("two\n")
    (tmp_path / "new").rename(tmp_path / "a.txt")
    with source(log, tmp_path / "*.txt", after="delete") as connector:
        with pytest.raises(ConnectError) as raised:
            connector.run_to_end()
        assert raised.value.condition == "FILE_CHANGED"
    assert (tmp_path / "a.txt").read_text() == "two\n"


def test_offsets_of_files_that_are_gone_are_forgotten(log: Log, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    with source(log, tmp_path / "*.txt") as connector:
        connector.run_to_end()
    (tmp_path / "a.txt").unlink()
    with source(log, tmp_path / "*.txt", after="delete") as connector:
        connector.run_to_end()
    (tmp_path / "a.txt").write_text("two\n")
    with source(log, tmp_path / "*.txt", after="delete") as connector:
        connector.run_to_end()
        assert rows(connector) == ["one", "two"]


def test_a_file_that_is_moved_leaves_an_older_one_of_its_name(log: Log, tmp_path: Path) -> None:
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.txt").write_text(f"{folder}\n")
    with source(log, tmp_path / "?" / "*.txt", after="move", move_path=str(tmp_path / "read")) as connector:
        connector.run_to_end()
    assert {path.name: path.read_text() for path in (tmp_path / "read").iterdir()} == {
        "a.txt": "x\n", "a-1.txt": "y\n",
    }  # fmt: skip


def test_files_are_not_moved_to_another_file_system(log: Log, tmp_path: Path) -> None:
    with pytest.raises(HayaseError, match="another one than"):
        source(log, tmp_path / "*", after="move", move_path="memory://read").start()


def test_a_file_that_is_kept_may_be_touched(log: Log, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    with source(log, tmp_path / "*.txt") as connector:
        connector.run_to_end()
    os.utime(tmp_path / "a.txt", (0, 0))
    with source(log, tmp_path / "*.txt") as connector:
        connector.run_to_end()
        assert rows(connector) == ["one"]


@pytest.mark.parametrize(
    ("kind", "data", "wanted", "skipped"),
    [
        ("csv", b"\xef\xbb\xbfid,n\r\n1,2\r\n", [{"id": "1", "n": "2"}], 0),
        ("json", b'\xef\xbb\xbf{"id":1}\r\n\r\n{"id":2}\n \n', [{"id": 1}, {"id": 2}], 0),
        ("lines", b"\xef\xbb\xbfone\r\ntwo\rthree\n", ["one", "two\rthree"], 0),
        ("lines", b"one\n\xff\nthree\n", ["one", "three"], 1),
        ("json", b"[" * 100_000 + b'\n{"id":1}\n', [{"id": 1}], 1),
        ("csv", b"id,n\n1," + b"x" * 200_000 + b"\n2,y\n", [{"id": "1", "n": "x" * 200_000}, {"id": "2", "n": "y"}], 0),
        ("csv", b"id,id\n1,2\n", [], 1),
    ],
    ids=["csv with BOM", "json with BOM", "lines with BOM", "bad bytes", "deep json", "large field", "name twice"],
)
def test_what_is_damaged_costs_no_more_than_its_row(
    log: Log, tmp_path: Path, kind: str, data: bytes, wanted: list[object], skipped: int
) -> None:
    (tmp_path / "a").write_bytes(data)
    with source(log, tmp_path / "a", format=kind, errors_tolerance="all") as connector:
        connector.run_to_end()
        assert rows(connector) == wanted
        assert connector.metrics().get("rows-skipped-total", 0) == skipped
