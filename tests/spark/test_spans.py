"""Several epochs in one Spark job: only the time that they take shows it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.place import Place, until
from tests.spark.test_shared_runtime import OF_TOPOLOGIES, runtime_of, wait
from tests.spark.test_shared_runtime import rests as counted_rests
from tests.spark.topologies import JSON, TEXT, WRITTEN, amounts, expected, totals

from hayase import Consumed, Grouped, State, StreamsApp, StreamsBuilder, Topology, count
from hayase.app.run_status import application_status
from hayase.connect.worker import ConnectWorker
from hayase.core.errors import ConfigError
from hayase.runtime.driver.connector_job import ConnectorJob
from hayase.runtime.driver.core_contention import CHECK_S, QUIET_S


def jobs() -> int:
    """Jobs of Spark's so far, the one at work included."""
    status = SparkSession.active()._jsparkSession.sparkContext().statusStore()
    return int(status.jobsList(None).size())


def by_rest() -> Topology:
    """Records counted by the rest of their amount, behind a shuffle."""
    builder = StreamsBuilder()
    orders = builder.stream("in", Consumed.with_(TEXT, JSON))
    rests = orders.group_by(lambda _, order: f"r{order['amount'] % 3}", Grouped.with_(TEXT, JSON))
    rests.agg(n=count()).to_stream().to("out", WRITTEN)
    return builder.build()


def rests(last: int) -> dict[str, dict[str, int]]:
    return {f"r{rest}": {"n": len(range(rest, last, 3))} for rest in range(3)}


def feed(
    place: Place, app: StreamsApp, steps: Iterable[tuple[int, int]], wanted: Callable[[int], dict[str, dict[str, int]]]
) -> None:
    """Put amounts in, and wait for what is wanted of them, one step after the other."""
    for first, last in steps:
        place.put("in", amounts(first, last))
        until(lambda last=last: place.last("out") == wanted(last), app)


def test_epochs_that_come_one_after_the_other_are_one_job(place: Place) -> None:
    place.topic("in"), place.topic("out")
    place.put("in", amounts(0, 10))
    with place.app(totals()) as app:
        app.start()
        until(lambda: place.last("out") == expected(10), app)
        before = jobs()
        feed(place, app, pairwise(range(10, 120, 10)), expected)
        until(lambda: app.progress().consumed == 110, app)
        assert app.progress().epochs >= 11
        assert len(app.epoch_timings()) == app.progress().epochs
        assert jobs() == before
        assert app.close()
    assert place.run(totals()).progress().consumed == 0


def test_a_run_to_the_end_of_many_epochs_is_one_job(place: Place) -> None:
    place.topic("in"), place.topic("out")
    place.put("in", amounts(0, 200))
    place.run(totals(), max_records_per_epoch=1_000)  # so that Spark is warm
    before = jobs()
    place.put("in", amounts(200, 400))
    app = place.run(totals(), max_records_per_epoch=20)
    assert (app.progress().epochs, jobs() - before) == (10, 1)
    assert place.last("out") == expected(400)


def test_without_spans_each_epoch_is_a_job(place: Place) -> None:
    place.topic("in"), place.topic("out")
    place.put("in", amounts(0, 60))
    before = jobs()
    app = place.run(totals(), max_records_per_epoch=20, epoch_span_max_ms=0)
    assert (app.progress().epochs, jobs() - before) == (3, 3)
    assert place.last("out") == expected(60)


def test_epochs_with_a_shuffle_are_one_job_too_small_and_large(place: Place) -> None:
    place.topic("in"), place.topic("out")
    place.put("in", amounts(0, 10))
    with place.app(by_rest()) as app:
        app.start()
        until(lambda: place.last("out") == rests(10), app)
        before = jobs()
        feed(place, app, pairwise(range(10, 60, 10)), rests)
        assert jobs() == before
        feed(place, app, [(50, 30_000), (30_000, 30_010)], rests)
        until(lambda: app.progress().consumed == 30_010, app)
        assert jobs() == before


def test_rows_between_levels_that_are_many_go_through_files_and_are_counted_once(place: Place) -> None:
    place.topic("in"), place.topic("out")
    padding = "x" * 4_000
    place.put("in", [(key, {**value, "padding": padding}, time_ms) for key, value, time_ms in amounts(0, 12_000)])
    before = jobs()
    app = place.run(by_rest())
    assert place.last("out") == rests(12_000)
    assert (app.progress().consumed, app.progress().epochs) == (12_000, 1)
    assert jobs() - before == 1


def test_other_jobs_of_the_program_get_cores_while_an_application_runs(place: Place) -> None:
    place.topic("in"), place.topic("out")
    place.put("in", amounts(0, 10))
    with place.app(totals()) as app:
        app.start()
        until(lambda: place.last("out") == expected(10), app)
        began = time.monotonic()
        assert SparkSession.active().range(10, numPartitions=2).count() == 10
        assert time.monotonic() - began < QUIET_S + 20  # it would be ten minutes
        place.put("in", amounts(10, 20))
        until(lambda: place.last("out") == expected(20), app)


@contextmanager
def lines_captured(place: Place, folder: Path) -> Iterator[Callable[[], None]]:
    """A connector in a slot on one of the session's two cores; yields a check that it works there."""
    job = ConnectorJob("connectors", folder / "connectors", {}, 1, log_level="WARNING")
    job.start()
    props = {"group.id": "w", "listeners": "http://127.0.0.1:0", "value.converter": "StringConverter"}
    try:
        with ConnectWorker(place.config, props, host=job.pool) as worker:
            (folder / "lines.txt").write_text("one\n")
            source = {"connector.class": "FileStreamSource", "file": str(folder / "lines.txt"), "topic": "lines"}
            worker.herder.create({"name": "lines", **source})

            def check() -> None:
                until(lambda: worker.herder.topics("lines")["lines"] == {"topics": ["lines"]})
                assert set(job.pool.tasks()) == {0}

            yield check
    finally:
        job.close()


@pytest.mark.slow
def test_spans_go_on_beside_slots_of_connectors_that_have_cores_of_their_own(place: Place, tmp_path: Path) -> None:
    place.topic("in"), place.topic("out")
    place.put("in", amounts(0, 10))
    with lines_captured(place, tmp_path) as check, place.app(totals(), num_stream_threads=1) as app:
        app.start()
        until(lambda: place.last("out") == expected(10), app)
        check()
        time.sleep(2 * CHECK_S)
        before = jobs()
        feed(place, app, pairwise(range(10, 80, 10)), expected)
        time.sleep(2 * CHECK_S)
        feed(place, app, [(70, 80), (80, 90)], expected)
        assert jobs() == before
        check()


@pytest.mark.slow
def test_spans_of_a_shared_runtime_go_on_beside_slots_of_connectors(place: Place, tmp_path: Path) -> None:
    place.topic("in"), place.topic("out"), place.topic("rests")
    place.put("in", amounts(0, 10))
    with lines_captured(place, tmp_path) as check, runtime_of(place, num_stream_threads=1) as runtime:
        runtime.add_topology("totals", totals(), OF_TOPOLOGIES)
        runtime.add_topology("rests", counted_rests("in", "rests"), OF_TOPOLOGIES)
        runtime.start()
        wait(lambda: place.last("out") == expected(10) and place.last("rests") == rests(10), runtime)
        check()
        time.sleep(2 * CHECK_S)
        before = jobs()
        for last in range(20, 80, 10):
            place.put("in", amounts(last - 10, last))
            wait(lambda last=last: place.last("out") == expected(last), runtime)  # type: ignore[misc]
        wait(lambda: place.last("rests") == rests(70), runtime)
        assert jobs() == before
        check()


@pytest.mark.slow
def test_slots_of_connectors_that_would_keep_all_cores_of_a_session_are_refused(place: Place, tmp_path: Path) -> None:
    job = ConnectorJob("connectors", tmp_path / "connectors", {}, 2, log_level="WARNING")
    try:
        with pytest.raises(ConfigError, match="2 slots of connectors keep a core each") as refused:
            job.start()
        assert refused.value.condition == "NO_CORES_LEFT"
    finally:
        job.close()


def test_an_application_is_paused_between_epochs_of_a_span_and_goes_on(place: Place) -> None:
    place.topic("in"), place.topic("out")
    place.put("in", amounts(0, 10))
    with place.app(totals()) as app:
        app.start()
        until(lambda: place.last("out") == expected(10), app)
        app.pause()
        until(lambda: application_status(app.config).holding, app)
        place.put("in", amounts(10, 20))
        time.sleep(0.5)
        assert place.last("out") == expected(10)
        app.resume()
        until(lambda: place.last("out") == expected(20), app)
        assert app.state is State.RUNNING


def test_more_slots_than_cores_go_on_without_spans(place: Place) -> None:
    place.topic("in", 3), place.topic("out")
    place.put("in", amounts(0, 10))
    with place.app(totals(), num_stream_threads=3) as app:  # in a session with two cores
        app.start()
        until(lambda: place.last("out") == expected(10), app, 120)
        place.put("in", amounts(10, 20))
        until(lambda: place.last("out") == expected(20), app)
        assert app.close()
