"""A shared runtime where spans are impossible: each Spark job runs one round of all topologies that are ready."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.spark.place import Place
from tests.spark.test_shared_runtime import (
    OF_TOPOLOGIES,
    _workers,
    expected_rests,
    rests,
    runtime_of,
    topics,
    wait,
)
from tests.spark.topologies import amounts, expected, totals

from hayase import State, StreamsApp, StreamsRuntime
from hayase.app.run_status import RUNS


def runtime_with(place: Place, **settings: object) -> StreamsRuntime:
    runtime = runtime_of(place, **settings)
    runtime.add_topology("totals", totals(), OF_TOPOLOGIES)
    runtime.add_topology("rests", rests("in", "rests"), OF_TOPOLOGIES)
    return runtime


def expect_results(place: Place, runtime: StreamsRuntime, first: int, last: int) -> None:
    """Of records that are written now."""
    place.put("in", amounts(first, last))
    wait(lambda: place.last("out") == expected(last) and place.last("rests") == expected_rests(last), runtime)


def test_rounds_have_the_results_of_spans_survive_workers_and_end_when_nothing_waits(place: Place) -> None:
    topics(place, "in", "out", "rests")
    with runtime_with(place, epoch_span_max_ms=0) as runtime:
        runtime.start()
        for first in range(0, 60, 20):
            expect_results(place, runtime, first, first + 20)
            for worker in _workers():
                with suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
        assert {app.state for app in runtime.topologies.values()} == {State.RUNNING}
        runs = runtime.config.state_dir / runtime.config.application_id / RUNS
        jobs: list[Path] = []

        def no_more_jobs() -> bool:
            before, jobs[:] = list(jobs), sorted(runs.glob("*/spark-*/offsets/*"))
            time.sleep(1)
            return bool(jobs) and jobs == before

        wait(no_more_jobs, runtime)  # a query whose workers were killed may be replaced meanwhile


@pytest.mark.slow
def test_a_runtime_beside_an_application_in_one_session_holds_up_neither(place: Place) -> None:
    topics(place, "in", "out", "rests", "alone")
    runtime, app = runtime_with(place), StreamsApp(rests("in", "alone"), place.settings(application_id="alone"))
    with runtime, app:
        runtime.start()
        app.start()
        for first in range(0, 60, 20):
            expect_results(place, runtime, first, first + 20)
            wait(lambda last=first + 20: place.last("alone") == expected_rests(last), runtime)  # type: ignore[misc]
        app.close()
        expect_results(place, runtime, 60, 80)


@pytest.mark.slow
def test_a_runtime_with_fewer_cores_than_slots_works_on_all_of_them(place: Place) -> None:
    topics(place, "in", "out", "rests")
    with runtime_with(place, spark_master="local[1,4]", num_stream_threads=2) as runtime:
        runtime.start()
        for first in range(0, 60, 20):
            expect_results(place, runtime, first, first + 20)
