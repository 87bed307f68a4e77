"""The folder that Spark is started from: scripts and jars, and no zipped sources."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from hayase.core.spark_home import light_spark_home


def test_it_has_the_scripts_and_jars_of_the_installed_package(tmp_path: Path) -> None:
    home = light_spark_home(tmp_path)
    spec = find_spec("pyspark")
    assert home is not None and spec is not None and spec.origin is not None
    assert (home / "bin" / "spark-submit").samefile(Path(spec.origin).parent / "bin" / "spark-submit")
    assert list((home / "jars").glob("spark-core*.jar"))


def test_it_has_no_zipped_python_sources(tmp_path: Path) -> None:
    home = light_spark_home(tmp_path)
    assert home is not None and not (home / "python").exists()


def test_it_is_made_once(tmp_path: Path) -> None:
    assert light_spark_home(tmp_path) == light_spark_home(tmp_path)


def test_where_the_cache_cannot_be_written_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert light_spark_home(tmp_path / "file") is None


def test_without_pyspark_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hayase.core.spark_home.find_spec", lambda _: None)
    assert light_spark_home(tmp_path) is None
