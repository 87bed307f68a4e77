"""The host of queries on Spark, before Spark is there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.server.command_servers import execute, server_in

from hayase.app import reset
from hayase.core.time import SystemClock
from hayase.server.hosts.spark import SparkHost


def test_a_query_that_is_dropped_before_spark_is_there_loses_the_state_of_an_earlier_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten: list[str] = []
    monkeypatch.setattr(reset, "reset_application", lambda config, log: forgotten.append(config.application_id))
    with server_in(tmp_path) as context:
        execute(
            context, "CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON', partitions=1);"
        )
        execute(context, "CREATE STREAM c AS SELECT * FROM s;")
        query = context.engine.query("CSAS_C_0")
        settings = {"application.id": "early", "log.dir": str(tmp_path / "log"), "state.dir": str(tmp_path / "state")}
        host = SparkHost(
            settings, context.log, SystemClock().now_ms, retry_initial_ms=1, retry_max_ms=1, stop_timeout_s=1
        )
        host.run(query, {})
        host.stop(query.id)
        host._runtime = cast("Any", SimpleNamespace(topologies={}))
        while not host._work.empty():
            work = host._work.get()
            assert work is not None
            work()
    assert forgotten == ["early-CSAS_C_0"]
