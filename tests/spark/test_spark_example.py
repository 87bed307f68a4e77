"""The example with files at both ends does what it says, run after run."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from hayase.cli.load import load_file
from hayase.serde import Serdes
from hayase.testing import TopologyTestDriver

EXAMPLE = Path(__file__).parents[2] / "examples" / "spark_files.py"


def counted(folder: Path) -> dict[str, int]:
    """The last count of each page, by the numbers of the folders."""
    found: dict[str, int] = {}
    for number in range(len(list((folder / "counts").glob("n=*")))):
        for file in sorted((folder / f"counts/n={number}").glob("*.parquet")):
            found |= dict(pl.read_parquet(file).select("key", "views").rows())
    return found


def test_files_that_are_new_are_counted_and_written(
    spark: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example = load_file(EXAMPLE)
    (tmp_path / "views").mkdir()
    (tmp_path / "views/0.json").write_text('{"page": "/", "user": "ada"}\n{"page": "/about", "user": "ada"}\n')
    example.main(tmp_path)
    assert sorted(capsys.readouterr().out.splitlines()) == ["/ 1", "/about 1"]
    (tmp_path / "views/1.json").write_text('{"page": "/", "user": "ben"}\n')
    example.main(tmp_path)
    assert sorted(capsys.readouterr().out.splitlines()) == ["/ 2", "/about 1"]
    assert counted(tmp_path) == {"/": 2, "/about": 1}


def test_its_topology_runs_in_the_test_driver(tmp_path: Path) -> None:
    with TopologyTestDriver(load_file(EXAMPLE).build(tmp_path)) as driver:
        views = driver.create_input_topic("views", Serdes.string(), Serdes.json())
        counts = driver.create_output_topic("counts", Serdes.string(), Serdes.json())
        for page in ("/", "/about", "/"):
            views.pipe_input(page, {"user": "ada"})
        assert counts.read_key_values_to_map() == {"/": {"views": 2}, "/about": {"views": 1}}
