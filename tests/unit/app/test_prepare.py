"""What workers and the planner are told about a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from hayase import Consumed, Serdes, StreamsBuilder, StreamsConfig, count
from hayase.app.prepare import prepare
from hayase.log.config import log_config
from hayase.log.open import open_log
from hayase.runtime.wire.endpoints import RunEndpoints
from hayase.storage.open import open_blobs

CLUSTER = {"spark.master": "spark://127.0.0.1:7077"}


@pytest.mark.parametrize(
    ("spark", "span_max_ms"),
    [
        ({}, 600_000),
        (CLUSTER, 600_000),
        ({**CLUSTER, "spark.network.crypto.enabled": "true"}, 0),
        ({**CLUSTER, "spark.ssl.rpc.enabled": "true"}, 0),
        ({"spark.network.crypto.enabled": "true"}, 600_000),  # all on one machine, over Unix sockets
    ],
)
def test_what_tasks_and_planner_say_does_not_go_in_clear_where_spark_encrypts(
    tmp_path: Path, spark: dict[str, str], span_max_ms: int
) -> None:
    settings = {"application.id": "app", "state.dir": str(tmp_path / "s"), "log.dir": str(tmp_path / "log")}
    config = StreamsConfig({**settings, "num.stream.threads": 2})
    log = open_log(log_config(config))
    log.create_topic("in", 2)
    log.close()
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(Serdes.string(), Serdes.string())).group_by_key().agg(n=count())
    endpoints = RunEndpoints(str(tmp_path / "control"), str(tmp_path / "sockets"))
    blobs = open_blobs(str(tmp_path / "checkpoint"), fsync=False)
    assert prepare(builder.build(), config, blobs, endpoints, spark).span_max_ms == span_max_ms
