"""A running shared runtime, without Spark, is given topologies with aggregates: it makes and checks their topics."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.unit.app.query_in_process import QueryInProcess
from tests.unit.patterns.local_orders import order, topology

from hayase import Consumed, Serdes, State, StreamsBuilder, StreamsRuntime, Topology
from hayase.core.errors import ConfigError
from hayase.log.open import open_log
from hayase.log.protocol import Log, LogConfig
from hayase.runtime.driver import shared_query

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with closing(open_log(LogConfig("embedded", str(tmp_path / "log")))) as opened:
        yield opened


@pytest.fixture
def runtime(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StreamsRuntime]:
    """A running one, with a topology `copy`."""
    monkeypatch.setattr(shared_query, "SharedQuery", QueryInProcess)
    log.create_topic("in", 1)
    log.create_topic("out", 1)
    settings = {"application.id": "shop", "state.dir": str(tmp_path / "state"), "log.dir": str(tmp_path / "log")}
    with StreamsRuntime(settings) as started:
        started.add_topology("copy", copying())
        started.start()
        yield started


def copying() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(Serdes.string(), Serdes.string())).to("out")
    return builder.build()


def expect_kept(log: Log) -> None:
    assert set(order.topics) <= set(log.topics())
    assert log.topic_config(order.events_topic)["retention.ms"] == "-1"


def test_an_aggregate_that_is_added_has_topics_that_keep_events(runtime: StreamsRuntime, log: Log) -> None:
    runtime.add_topology("orders", topology)
    expect_kept(log)


def test_an_aggregate_that_takes_the_place_of_another_topology_has_topics_that_keep_events(
    runtime: StreamsRuntime, log: Log
) -> None:
    runtime.add_topology("other", copying())
    runtime.replace_topology("other", topology)
    expect_kept(log)


def test_an_aggregate_whose_events_would_expire_is_not_added(runtime: StreamsRuntime, log: Log) -> None:
    for name in order.topics:
        log.create_topic(name, 1, {"retention.ms": "1000"})
    with pytest.raises(ConfigError) as raised:
        runtime.add_topology("orders", topology)
    assert raised.value.condition == "EVENTS_WOULD_BE_LOST"
    assert set(runtime.topologies) == {"copy"}
    deadline = time.monotonic() + 60
    while runtime.topology("copy").state is not State.RUNNING:
        assert time.monotonic() < deadline
        time.sleep(0.01)
