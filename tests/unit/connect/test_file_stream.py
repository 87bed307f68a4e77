"""Lines of files as records and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from hayase.connect.exceptions import ConnectError
from hayase.log.protocol import Log
from hayase.testing.connect import ConnectorTestDriver

STRINGS = {"value.converter": "StringConverter"}


def source(log: Log, file: Path) -> ConnectorTestDriver:
    return ConnectorTestDriver(
        {"connector.class": "FileStreamSource", "file": str(file), "topic": "lines", **STRINGS}, log=log
    )


@pytest.mark.long
def test_a_line_counts_when_it_is_complete(log: Log, tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("one\ntw")
    with source(log, file) as connector:
        connector.run_to_end()
        assert [record.value for record in connector.records("lines")] == [b"one"]
        with file.open("a") as more:
            more.write("o\r\n")
        connector.run_to_end()
        assert [record.value for record in connector.records("lines")] == [b"one", b"two"]
        assert connector.offsets() == [{"partition": {"filename": str(file)}, "offset": {"position": 9}}]


@pytest.mark.long
def test_a_file_that_became_shorter_is_an_error(log: Log, tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("one\ntwo\n")
    with source(log, file) as connector:
        connector.run_to_end()
        connector.kill()
        file.write_text("1\n")
        with pytest.raises(ConnectError, match="it was replaced"):
            connector.run_to_end()


@pytest.mark.long
@pytest.mark.parametrize("way", ["truncated", "renamed"])
def test_a_file_that_becomes_shorter_while_it_is_read_is_an_error(log: Log, tmp_path: Path, way: str) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("one\ntwo\n")
    with source(log, file) as connector:
        connector.run_to_end()
        if way == "renamed":
            file.rename(tmp_path / "lines.txt.1")
        file.write_text("1\n")
        with pytest.raises(ConnectError, match="it was replaced"):
            connector.run_to_end()


@pytest.mark.long
def test_a_file_that_is_replaced_by_a_longer_one_is_gone_on_with(log: Log, tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("one\ntwo\nth")
    with source(log, file) as connector:
        connector.run_to_end()
        (tmp_path / "edited").write_text("one\ntwo\nthree\n")
        (tmp_path / "edited").rename(file)
        connector.run_to_end()
        assert [record.value for record in connector.records("lines")] == [b"one", b"two", b"three"]


@pytest.mark.long
def test_a_file_that_does_not_exist_yet_is_waited_for(log: Log, tmp_path: Path) -> None:
    with source(log, tmp_path / "later.txt") as connector:
        connector.step()
        (tmp_path / "later.txt").write_text("now\n")
        connector.run_to_end()
        assert [record.value for record in connector.records("lines")] == [b"now"]


def test_values_are_appended_as_lines(log: Log, tmp_path: Path) -> None:
    file = tmp_path / "out.txt"
    props = {"connector.class": "FileStreamSink", "file": str(file), "topics": "words", **STRINGS}
    with ConnectorTestDriver({**props, "key.converter": "StringConverter"}, log=log) as connector:
        connector.produce("words", None, b"one")
        connector.produce("words", None, None)
        connector.run_to_end()
        connector.stop()
    assert file.read_text() == "one\nnull\n"


def test_lines_are_in_the_file_before_offsets_are_committed(log: Log, tmp_path: Path) -> None:
    file = tmp_path / "out.txt"
    props = {"connector.class": "FileStreamSink", "file": str(file), "topics": "words", **STRINGS}
    with ConnectorTestDriver({**props, "key.converter": "StringConverter"}, log=log) as connector:
        connector.produce("words", None, b"one")
        connector.step()
        assert file.read_text() == "one\n"
        assert connector.offsets() == []
