"""An application on a broker that asks for a password, and where the password is not."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.secured import PASSWORD, Secured
from tests.spark.place import Place, error_of, store_rows, until
from tests.spark.topologies import totals

from hayase import State
from hayase.cli.main import run_cli
from hayase.log.protocol import LogConfig

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]


@pytest.fixture
def secured_place(spark: None, tmp_path: Path, secured: Secured) -> Iterator[Place]:
    """On the listener with TLS and passwords."""
    config = LogConfig("kafka", secured.address("SASL"), secured.password_settings("SCRAM-SHA-512"))
    with Place(tmp_path, config, prefix=f"{tmp_path.name}-") as made:
        yield made


def holds(folder: Path, text: str) -> list[Path]:
    """Files in which the text occurs."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    return [path for path in files if text.encode() in path.read_bytes()]


def test_a_password_given_in_clear_reaches_the_workers_and_no_file_log_or_answer(
    secured_place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    place = secured_place
    source, sink = place.topic("in"), place.topic("out")
    place.put("in", [(f"k{i % 3}", {"amount": i}, i) for i in range(30)])
    topology = totals(source, sink)
    app = place.app(topology, log_level="DEBUG")
    with caplog.at_level(logging.DEBUG):
        app.start()
        until(lambda: app.progress().consumed == 30, app, seconds=600)
        assert not holds(tmp_path, PASSWORD), "while it runs"
        told = f"{app.config!r} {app.progress()!r} {app.metrics()} {topology.describe()}"
        assert app.close()
    assert place.last("out") == store_rows(app, "totals")
    assert not holds(tmp_path, PASSWORD)
    assert list((tmp_path / "state").rglob("programs/*")), "it was looked for in what workers were sent"
    assert PASSWORD not in told
    assert PASSWORD not in caplog.text
    assert PASSWORD not in Path(f"/proc/{os.getpid()}/cmdline").read_text()
    assert PASSWORD not in str(SparkSession.active().sparkContext.getConf().getAll())
    script = tmp_path / "app.py"
    script.write_text(f"from tests.spark.topologies import totals\ntopology = totals({source!r}, {sink!r})\n")
    settings = [f"--config={key}={value}" for key, value in place.settings().items()]
    assert run_cli(["app", "status", str(script), *settings]) == 3
    assert run_cli(["describe", str(script), *settings]) == 0
    shown = capsys.readouterr()
    assert PASSWORD not in shown.out + shown.err


def test_a_wrong_password_ends_the_start_with_one_line(secured_place: Place) -> None:
    source, sink = secured_place.topic("in"), secured_place.topic("out")
    app = secured_place.app(totals(source, sink), sasl_password="not-the-password")
    error = error_of(app.run_to_end)
    assert error.condition == "AUTHENTICATION_FAILED"
    assert app.state is State.ERROR
    assert "\n" not in str(error) and "not-the-password" not in str(error)
