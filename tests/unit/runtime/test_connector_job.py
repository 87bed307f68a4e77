"""The Spark job of a worker of connectors, before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from hayase.cli.main import run_cli
from hayase.core.errors import ConfigError
from hayase.runtime.driver.connector_job import ConnectorJob


def test_a_worker_on_a_cluster_that_is_to_encrypt_is_refused(tmp_path: Path) -> None:
    settings = {"spark.master": "spark://nowhere:7077", "spark.network.crypto.enabled": "true"}
    with pytest.raises(ConfigError, match="with passwords, unencrypted by TCP") as raised:
        ConnectorJob("w", tmp_path, settings, 2, log_level="INFO")
    assert raised.value.condition == "ENCRYPTION_NOT_KEPT"


@pytest.mark.long
def test_a_master_says_how_many_slots_there_are_and_an_option_says_others(tmp_path: Path) -> None:
    for slots, expected in ((None, 3), (5, 5)):
        job = ConnectorJob("w", tmp_path, {"spark.master": "local[3]"}, slots, log_level="INFO")
        assert job.pool.size == expected
        job.close()


def test_slots_without_a_master_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["connect", "--slots", "2"]) == 1
    assert "give --master as well" in capsys.readouterr().err


def test_tasks_in_process_and_a_master_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["connect", "--in-process", "--master", "local[2]"]) == 1
    assert "leave out --master and --slots, or it" in capsys.readouterr().err
