"""The host of queries on Spark, before Spark is there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.server.command_servers import execute, server_in

from hayase.app import reset
from hayase.app.states import State
from hayase.core.errors import StreamsStoppedError
from hayase.core.time import SystemClock
from hayase.server.hosts.spark import SparkHost
from hayase.sql.errors import StatementError


@pytest.fixture
def forgotten(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The applications whose state was removed."""
    found: list[str] = []
    monkeypatch.setattr(reset, "reset_application", lambda config, log: found.append(config.application_id))
    return found


@contextmanager
def host_with_query(folder: Path) -> Iterator[SparkHost]:
    """A host without a runtime, which has the query CSAS_C_0."""
    with server_in(folder) as context:
        execute(
            context, "CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON', partitions=1);"
        )
        execute(context, "CREATE STREAM c AS SELECT * FROM s;")
        settings = {"application.id": "early", "log.dir": str(folder / "log"), "state.dir": str(folder / "state")}
        host = SparkHost(
            settings, context.log, SystemClock().now_ms, retry_initial_ms=1, retry_max_ms=1, stop_timeout_s=1
        )
        host.run(context.engine.query("CSAS_C_0"), {})
        yield host


def work_off(host: SparkHost) -> None:
    """Do what the thread of the host would do."""
    while not host._work.empty():
        work = host._work.get()
        assert work is not None
        work()


def test_a_query_that_is_dropped_before_spark_is_there_loses_the_state_of_an_earlier_run(
    tmp_path: Path, forgotten: list[str]
) -> None:
    with host_with_query(tmp_path) as host:
        host.stop("CSAS_C_0")
        host._runtime = cast("Any", SimpleNamespace(topologies={}, state=State.RUNNING))
        work_off(host)
    assert forgotten == ["early-CSAS_C_0"]


def test_a_query_that_is_read_while_spark_starts_says_so(tmp_path: Path) -> None:
    with host_with_query(tmp_path) as host:
        host._starting = cast("Any", object())
        with pytest.raises(StatementError, match="query CSAS_C_0 does not run yet: Spark is starting"):
            host.open_store("CSAS_C_0", "store")


@pytest.mark.parametrize("is_paused", [True, False])
def test_a_paused_query_is_added_to_the_runtime_as_one_that_is_paused(tmp_path: Path, is_paused: bool) -> None:
    added: dict[str, bool | None] = {}

    def add(name: str, topology: object, settings: object, *, paused: bool | None = None) -> None:
        added[name] = paused

    with host_with_query(tmp_path) as host:
        if is_paused:
            host.pause("CSAS_C_0")
        host._runtime = cast(
            "Any", SimpleNamespace(state=State.RUNNING, add_topology=add, pause=lambda name: None, topologies={})
        )
        work_off(host)
    assert added == {"CSAS_C_0": is_paused}


@pytest.mark.parametrize("state", [State.ERROR, State.RUNNING])
def test_a_query_that_is_dropped_while_the_runtimes_process_is_gone_loses_its_state(
    tmp_path: Path, forgotten: list[str], state: State
) -> None:
    def gone(name: str, **options: object) -> None:
        raise StreamsStoppedError("RUNTIME_GONE", "the process has ended")

    with host_with_query(tmp_path) as host:
        host._runtime = cast("Any", SimpleNamespace(state=State.CREATED))
        host.stop("CSAS_C_0")
        host._runtime = cast(
            "Any", SimpleNamespace(topologies={"CSAS_C_0": None}, state=state, remove_topology=gone)
        )  # and is RUNNING as long as the server has not heard of its end
        work_off(host)
    assert forgotten == ["early-CSAS_C_0"]


def test_what_an_earlier_query_of_the_same_id_has_left_is_removed_without_spark(
    tmp_path: Path, forgotten: list[str]
) -> None:
    with host_with_query(tmp_path) as host:
        host.forget("CSAS_D_1")
    assert forgotten == ["early-CSAS_D_1"]
