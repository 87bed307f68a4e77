"""How the JVM is started."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from hayase.runtime.worker import jvm_gateway


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[dict[str, str], Mapping[str, Any]]]:
    calls: list[tuple[dict[str, str], Mapping[str, Any]]] = []
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(SparkContext, "_ensure_initialized", lambda gateway: None)
    monkeypatch.setattr(
        jvm_gateway, "launch_gateway", lambda conf, options: calls.append((dict(conf.getAll()), options))
    )
    monkeypatch.setenv(jvm_gateway.UMASK_VARIABLE, "of a program that started this one")
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    return calls


def test_settings_that_hold_secrets_are_not_on_the_command_line(launched: list[Any]) -> None:
    settings = {
        "spark.driver.memory": "1g",
        "spark.hadoop.fs.s3a.secret.key": "x1",
        "spark.authenticate.secret": "x2",
        "spark.ssl.keyPassword": "x3",
        "spark.jars.repositories": "https://ada:x4@repository.example",
    }
    jvm_gateway.launch_jvm(settings, 0o077)
    assert launched == [({"spark.driver.memory": "1g"}, {"umask": 0o077})]


def test_python_workers_are_told_the_umask_of_the_program(launched: list[Any]) -> None:
    before = os.umask(0o027)
    try:
        jvm_gateway.launch_jvm({}, 0o077)
    finally:
        os.umask(before)
    assert int(os.environ[jvm_gateway.UMASK_VARIABLE], 8) == 0o027


def test_a_jvm_that_is_there_is_taken_as_it_is(launched: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    jvm_gateway.launch_jvm({}, 0o077)
    assert launched == []


def test_sockets_lie_in_a_private_folder_with_a_short_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("x" * 80)
    long.mkdir()
    for place in ("/tmp", str(long)):
        monkeypatch.setattr("tempfile.tempdir", place)
        made = Path(jvm_gateway.folder_of_jvm())
        assert made.stat().st_mode & 0o777 == 0o700
        assert len(str(made)) <= 60
        made.rmdir()
    assert list(long.iterdir()) == []
