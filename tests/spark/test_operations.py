"""What an operator does to a running application, and what it does about failures by itself."""

from __future__ import annotations

import json
import logging
import math
import os
import re
import shutil
import signal
import threading
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.spark import place as places
from tests.spark.place import Place, store_rows
from tests.spark.topologies import JSON, TEXT, WRITTEN, amounts, expected, totals

from hayase import (
    Consumed,
    HayaseError,
    Materialized,
    State,
    StreamsApp,
    StreamsBuilder,
    StreamThreadExceptionResponse,
    Topology,
)
from hayase.app.run_status import RUNS, application_status
from hayase.cli.main import run_cli
from hayase.core.errors import ProcessingError, StreamsStoppedError

pytestmark = pytest.mark.timeout(600)
PROGRAM = f"{Path(__file__).with_name('topologies.py')}:totals"
until = partial(places.until, seconds=240)  # time for the start of an application on a busy machine


def run_folder(place: Place) -> Path:
    (folder,) = (place.folder / "state" / place.application_id / RUNS).iterdir()
    return folder


def command(place: Place, name: str) -> list[str]:
    pairs = [part for key, value in place.settings().items() for part in ("-c", f"{key}={value}")]
    return ["app", name, PROGRAM, *pairs]


def _told_state(app: StreamsApp) -> str:
    run = application_status(app.config).run
    return run.state if run is not None else ""


def test_a_paused_application_reads_nothing_until_it_is_resumed(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.topic("in"), place.topic("out")
    place.put("in", amounts(0, 10))
    with place.app(totals()) as app:
        assert run_cli(command(place, "pause")) == 1
        assert "is not running on this machine" in capsys.readouterr().err
        app.start()
        until(lambda: place.last("out") == expected(10), app)
        until(lambda: _told_state(app) == State.RUNNING.value, app)  # a run tells its state a little later
        assert run_cli(command(place, "pause")) == 0
        assert "is paused\n" in capsys.readouterr().out
        assert app.is_paused
        place.put("in", amounts(10, 30))
        assert run_cli(command(place, "status")) == 0
        told = capsys.readouterr().out
        assert f"is RUNNING, pid {os.getpid()} on " in told
        assert ", paused\n" in told
        assert app.state is State.RUNNING
        assert store_rows(app, "totals") == expected(10)
        assert run_cli(command(place, "resume")) == 0
        until(lambda: place.last("out") == expected(30), app)
        app.pause()
        until(lambda: application_status(app.config).holding, app)
        assert app.progress().paused
    assert app.state is State.NOT_RUNNING  # closed while it was paused
    assert run_cli(command(place, "status")) == 3
    assert "is not running" in capsys.readouterr().out


def test_a_run_to_the_end_that_is_paused_waits_and_then_reads_to_the_end(place: Place) -> None:
    place.topic("in"), place.topic("out")
    place.put("in", amounts(0, 30))
    app = place.app(totals())
    app.pause()  # before start
    runner = threading.Thread(target=app.run_to_end)
    runner.start()
    until(lambda: application_status(app.config).holding, app)
    assert place.rows("out") == []
    app.resume()
    runner.join(120)
    assert place.last("out") == expected(30)


def failing_until(flag: Path) -> Topology:
    def fail(value: dict[str, int]) -> dict[str, int]:
        if value["amount"] == 13 and not flag.exists():
            raise RuntimeError("not yet")
        return value

    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(TEXT, JSON)).map_values(fail)
    stream.to("mapped", WRITTEN)
    table = stream.group_by_key().aggregate(
        lambda: {"n": 0, "total": 0},
        lambda _, value, row: {"n": row["n"] + 1, "total": row["total"] + value["amount"]},
        Materialized.as_("totals"),
    )
    table.to_stream().to("out", WRITTEN)
    return builder.build()


def test_a_failure_that_the_handler_answers_with_replace_thread_goes_on_with_the_open_epoch(
    place: Place, tmp_path: Path
) -> None:
    place.topic("in"), place.topic("mapped"), place.topic("out")
    place.put("in", amounts(0, 30))
    flag, seen = tmp_path / "flag", []
    app = place.app(failing_until(flag), max_records_per_epoch=10, statestore_cache_max_bytes=0)
    states: list[State] = []
    app.set_state_listener(lambda new, _: states.append(new))

    def handler(error: HayaseError) -> StreamThreadExceptionResponse:
        seen.append(error)
        flag.touch()
        return StreamThreadExceptionResponse.REPLACE_THREAD

    app.set_uncaught_exception_handler(handler)
    with app:
        app.start()
        with pytest.raises(StreamsStoppedError):
            app.set_uncaught_exception_handler(handler)
        until(lambda: app.progress().lag_records == 0 and len(place.rows("mapped")) == 30, app)
    assert [type(error) for error in seen] == [ProcessingError]
    assert states.count(State.REBALANCING) == 2
    assert sorted(row.value["amount"] for row in place.rows("mapped")) == list(range(30))
    assert store_rows(app, "totals") == place.last("out") == expected(30)


def test_after_shut_down_client_it_ends_in_error_and_status_says_why(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place.topic("in"), place.topic("mapped"), place.topic("out")
    place.put("in", amounts(0, 30))
    app = place.app(failing_until(tmp_path / "never"))
    app.set_uncaught_exception_handler(lambda _: StreamThreadExceptionResponse.SHUTDOWN_CLIENT)
    app.start()
    assert app.wait()
    assert app.state is State.ERROR
    assert app.error is not None
    assert run_cli(command(place, "status")) == 3
    told = capsys.readouterr().out
    assert re.search(
        r"it failed: \[PROCESSING_FAILED\] processing failed: \S+\.py:\d+ in \w+: RuntimeError: not yet", told
    )


def test_when_the_process_that_plans_epochs_dies_the_application_goes_on(place: Place) -> None:
    place.topic("in"), place.topic("out")
    place.put("in", amounts(0, 10))
    with place.app(totals(), statestore_cache_max_bytes=0) as app:
        app.start()
        until(lambda: app.progress().consumed == 10, app)
        os.kill(int((run_folder(place) / "ready").read_text()), signal.SIGKILL)
        place.put("in", amounts(10, 60))
        until(lambda: place.last("out") == expected(60), app)
        assert app.error is None
    updates = sorted((row.key, row.value["n"]) for row in place.rows("out"))
    assert updates == sorted((key, n) for key, row in expected(60).items() for n in range(1, row["n"] + 1))


def test_a_failure_of_spark_without_an_error_of_ours_is_one_line(place: Place) -> None:
    place.topic("in"), place.topic("mapped"), place.topic("out")
    place.put("in", amounts(0, 3))

    def end_the_process(value: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)
        return value

    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, JSON)).map_values(end_the_process).to("out", WRITTEN)
    app = place.app(builder.build(), task_timeout_ms=0)
    app.start()
    assert app.wait()
    assert app.error is not None
    assert app.error.condition in ("SPARK_FAILED", "PROCESS_NOT_STARTED")  # the latter on a machine that is busy
    assert "\n" not in str(app.error)
    assert len(str(app.error)) < 700
    assert "Spark's account is in " in app.error.message


def test_metrics_have_kafka_streams_names_and_are_served_for_prometheus_while_it_runs(place: Place) -> None:
    place.topic("in", 2), place.topic("out")
    place.put("in", [("a", {"amount": 1}, 50), ("a", {"amount": 2}, 20), ("b", {"amount": 3}, 60)])
    app = place.app(totals(), metrics_port=0, metrics_recording_level="DEBUG")
    assert app.metrics_url == ""
    with app:
        app.start()
        until(lambda: place.last("out") == {"a": {"n": 2, "total": 3}, "b": {"n": 1, "total": 3}}, app)
        until(lambda: app.progress().consumed == 3, app)
        with urllib.request.urlopen(app.metrics_url, timeout=30) as answer:
            text = answer.read().decode()
        with urllib.request.urlopen(app.metrics_url.replace("/metrics", "/ready"), timeout=30) as answer:
            assert json.loads(answer.read())["state"] == "RUNNING"
        assert application_status(app.config).running
        url = app.metrics_url
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=30)
    samples = {s.name: 0.0 for family in text_string_to_metric_families(text) for s in family.samples}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            samples[sample.name] += sample.value
    prefix = "kafka_streams_stream"
    assert samples[f"{prefix}_task_metrics_process_total"] == 3
    assert samples[f"{prefix}_thread_metrics_process_total"] == 3
    assert samples[f"{prefix}_topic_metrics_records_consumed_total"] == 3
    assert samples[f"{prefix}_topic_metrics_records_produced_total"] == 2
    assert samples[f"{prefix}_topic_metrics_bytes_consumed_total"] == 3 * len('a{"amount": 1}')
    assert samples[f"{prefix}_state_metrics_num_keys"] == 2
    assert samples[f"{prefix}_metrics_client_state"] == 2  # RUNNING
    assert samples[f"{prefix}_thread_metrics_commit_total"] >= 1
    found = app.metrics()
    lateness = [v for name, v in found.items() if name.name == "record-lateness-max" and not math.isnan(float(v))]
    assert max(float(v) for v in lateness) == 30.0
    nodes = {name.tag("processor-node-id") for name in found if name.name == "record-e2e-latency-avg"}
    assert nodes == {"KSTREAM-SOURCE-0000000000", "KSTREAM-SINK-0000000003"}


def test_state_that_had_to_be_restored_is_counted(place: Place) -> None:
    place.topic("in"), place.topic("out")
    place.put("in", amounts(0, 30))
    place.run(totals())
    shutil.rmtree(place.folder / "state" / place.application_id / "state")
    place.put("in", amounts(30, 60))
    app = place.run(totals())
    assert place.last("out") == expected(60)
    assert app._telemetry.registry.total("stream-task-metrics", "restore-total") >= 7


def test_what_user_code_logs_in_a_worker_arrives_in_the_program_with_its_place(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    place.topic("in", 1), place.topic("out")
    place.put("in", [("a", {"amount": 1}, 0), ("a", b"nonsense", 1)])

    def say(value: dict[str, int]) -> dict[str, int]:
        logging.getLogger("shop.pricing").info("priced %d", value["amount"])
        return value

    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, JSON)).map_values(say).to("out", WRITTEN)
    caplog.set_level(logging.INFO)
    place.run(builder.build(), log_level="INFO", deserialization_exception_handler="log_and_continue")
    until(lambda: {"shop.pricing", "hayase.task"} <= {record.name for record in caplog.records})
    (priced,) = [record for record in caplog.records if record.name == "shop.pricing"]
    assert priced.getMessage() == "priced 1"
    place_of_it = {"application_id": place.application_id, "epoch": 0, "bundle": "0-0", "task": "0_0"}
    assert place_of_it.items() <= vars(priced).items()
    (dropped,) = [record for record in caplog.records if record.name == "hayase.task"]
    assert {"node": "KSTREAM-SOURCE-0000000000", "topic": "in", "partition": 0, "offset": 1}.items() <= vars(
        dropped
    ).items()
