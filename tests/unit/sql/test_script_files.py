"""Files of scripts: what editors of other systems write."""

from __future__ import annotations

from pathlib import Path

import pytest

from hayase.app.sql_program import check_script_file
from hayase.core.errors import ConfigError
from hayase.sql.errors import SqlError
from hayase.sql.grammar import script_files
from hayase.sql.grammar.script_files import script_text
from hayase.testing.sql.directives import tests_of as directed
from hayase.testing.sql.script import SqlScript

_STREAM = "CREATE STREAM s (k INT KEY, v VARCHAR) WITH (kafka_topic='s', value_format='JSON');"


def test_a_mark_of_utf_8_and_line_ends_of_windows_are_no_part_of_a_script(tmp_path: Path) -> None:
    file = tmp_path / "a.sql"
    file.write_bytes(b"\xef\xbb\xbf--@test: one\r\n" + _STREAM.encode() + b"\r\nDROP STREAM nope;\r\n")
    assert script_text(file).startswith("--@test: one\nCREATE")
    assert [test.name for test in directed(file)] == ["one"]
    with SqlScript() as script, pytest.raises(SqlError) as caught:
        script.run(check_script_file(file))
    location = caught.value.location
    assert location is not None and (location.line, location.column) == (3, 1)


def test_a_script_that_is_not_utf_8_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "latin.sql"
    file.write_bytes(b"-- one\n-- two\n-- Stra\xdfe\n" + _STREAM.encode())
    with pytest.raises(ConfigError, match=r"latin.sql, line 3: the byte 0xdf is not UTF-8"):
        check_script_file(file)
    (tmp_path / "wide.sql").write_bytes(_STREAM.encode("utf-16"))
    with SqlScript(folder=tmp_path) as script, pytest.raises(SqlError, match="line 1: the byte 0xff is not UTF-8"):
        script.run("RUN SCRIPT 'wide.sql';")


def test_a_script_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_files, "SCRIPT_BYTES_MAX", 1000)
    with SqlScript() as script, pytest.raises(SqlError, match="more than 1,000 bytes"):
        script.run("RUN SCRIPT '/dev/zero';")
