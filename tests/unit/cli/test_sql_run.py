"""`hayase sql run`: what it says before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from hayase.cli.main import run_cli


def test_an_error_of_a_script_names_its_file_line_and_column(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "shop.sql"
    script.write_text(
        "CREATE STREAM a (id INT KEY, v INT) WITH (kafka_topic='a', partitions=1, value_format='JSON');\n"
        "CREATE STREAM b AS SELECT id, v + nope AS x FROM a;\n"
    )
    assert run_cli(["sql", "run", str(script), "-c", f"state.dir={tmp_path / 'state'}"]) == 1
    assert f"(file {script}, line 2, column 35) [UNKNOWN_COLUMN]" in capsys.readouterr().err
