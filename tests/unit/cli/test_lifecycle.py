"""A stop that is asked for while an application or a runtime starts."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest

from hayase.app.report import ProgressReport
from hayase.app.states import State
from hayase.app.stop_request import StopRequest
from hayase.cli.lifecycle import run_app, run_runtime_to_end

SAID = "stops as soon as Spark is up"


class SlowStart:
    """Starts until a stop was asked for several times, as Spark does not look at it before it is up."""

    error = None
    state = State.REBALANCING

    def __init__(self) -> None:
        self._asked = threading.Semaphore(0)

    def start(self) -> None:
        for _ in range(3):
            assert self._asked.acquire(timeout=10)
        self.state = State.NOT_RUNNING

    def close(self, *_: object) -> bool:
        self._asked.release()
        return True

    def wait(self, *_: object) -> bool:
        return self.state is State.NOT_RUNNING

    def progress(self) -> ProgressReport:
        return ProgressReport(self.state, 0, -1, 0, 0, 0, 0, 0, None)


@pytest.fixture
def stop() -> StopRequest:
    asked = StopRequest()
    asked.ask()
    return asked


def test_of_an_application_it_is_confirmed_once(stop: StopRequest, capsys: pytest.CaptureFixture[str]) -> None:
    app: Any = SlowStart()
    run_app(app, stop, to_end=False, close_timeout=timedelta(0), on_tick=lambda _: None)
    assert capsys.readouterr().err.count(SAID) == 1


def test_of_a_runtime_that_runs_to_the_end_it_is_confirmed_once(
    stop: StopRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    runtime: Any = SlowStart()

    def run() -> dict[str, ProgressReport]:
        runtime.start()
        return {}

    run_runtime_to_end(run, runtime, stop)
    assert capsys.readouterr().err.count(SAID) == 1
