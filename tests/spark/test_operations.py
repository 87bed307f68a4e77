"""What an operator does to a running application, and what it does about failures by itself."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.spark.place import Place, store_rows, until
from tests.spark.topologies import JSON, TEXT, WRITTEN, totals

from hayase import (
    Consumed,
    HayaseError,
    Materialized,
    State,
    StreamsBuilder,
    StreamThreadExceptionResponse,
    Topology,
)
from hayase.app.remote import RUNS, application_status
from hayase.cli.main import run_cli
from hayase.core.errors import ProcessingError, StreamsStoppedError

PROGRAM = f"{Path(__file__).with_name('topologies.py')}:totals"


def amounts(first: int, last: int, keys: int = 7) -> list[tuple[str, dict[str, int], int]]:
    return [(f"k{i % keys}", {"amount": i}, i) for i in range(first, last)]


def expected(last: int, keys: int = 7) -> dict[str, dict[str, int]]:
    found = {f"k{k}": [i for i in range(last) if i % keys == k] for k in range(keys)}
    return {key: {"n": len(given), "total": sum(given)} for key, given in found.items()}


def run_folder(place: Place) -> Path:
    (folder,) = (place.folder / "state" / place.application_id / RUNS).iterdir()
    return folder


def command(place: Place, name: str) -> list[str]:
    pairs = [part for key, value in place.settings().items() for part in ("-c", f"{key}={value}")]
    return ["app", name, PROGRAM, *pairs]


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
    assert "it failed: [PROCESSING_FAILED] processing failed: RuntimeError: not yet" in told


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
