"""docs/programs.md: the program, what it prints, and what the page says about calls and options."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from hayase import StreamsApp
from hayase.cli.load import load
from hayase.log.open import open_log
from hayase.log.protocol import LogConfig, OutputBatch
from hayase.query.stores import StoreHandle

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "programs.md").read_text("utf-8")


def block(kind: str) -> str:
    """The first one of a kind."""
    return blocks(kind)[0]


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "visits.py"
    file.write_text(block("python"))
    return file


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_the_program_prints_what_the_page_says(program: Path) -> None:
    done = subprocess.run(
        [sys.executable, program.name], cwd=program.parent, capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == block("text")
    assert done.stderr == "application visits, in columns: Spark is starting; Ctrl-C stops it\n"


def test_commands_load_the_program_without_starting_it(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(program.parent)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    loaded = load(program.name)
    assert sorted(loaded.topology.stores) == ["per-hour", "per-user"]
    assert not (program.parent / "data").exists()


def test_the_calls_that_the_page_lists_are_there() -> None:
    rows = re.findall(r"^\| ((?:`[a-z_]+\(.*?\)`(?:, )?)+) \|", PAGE, re.MULTILINE)
    calls = {name for row in rows for name in re.findall(r"`([a-z_]+)\(", row)}
    assert {"get", "range", "all", "fetch", "to_polars"} <= calls
    assert not [name for name in calls if not hasattr(StoreHandle, name)]
    assert {"as_of", "as_of_epoch"} <= StreamsApp.store.__kwdefaults__.keys()


def test_a_topic_is_read_as_the_page_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(open_log(LogConfig("embedded", "data/log"))) as log:
        log.create_topic("per-user", 2)
        with closing(log.writer()) as writer:
            writer.append([OutputBatch("per-user", [b"ada", b"ada"], [b'{"visits": 1}', b'{"visits": 2}'], [1, 2])])
    _, reading = blocks("python")
    exec(reading, {})
    lines = [line.split(" ", 1)[1] for line in capsys.readouterr().out.splitlines()]
    assert lines == ["0 ada {'visits': 1}", "1 ada {'visits': 2}"]
