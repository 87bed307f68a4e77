"""The examples of the page about tests in SQL run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hayase.cli.main import run_cli

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "sql" / "testing.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_tests_in_sql_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (text,) = blocks("sql")
    (tmp_path / "parcels.sql").write_text(text, "utf-8")
    code = run_cli(["sql", "test", "parcels.sql"])
    assert (code, capsys.readouterr().out.splitlines()[-1]) == (0, "3 passed, 0 failed")


def test_the_program_runs() -> None:
    (program,) = blocks("python")
    exec(compile(program, "testing.md", "exec"), {})
