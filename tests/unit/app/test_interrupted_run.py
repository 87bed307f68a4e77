"""Ctrl-C, SIGTERM and SIGHUP end `run` between epochs, and what a program wants of signals itself is kept."""

from __future__ import annotations

import logging
import os
import signal
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tests.unit.app.test_supervisor import app_in

from hayase import State, StreamsApp
from hayase.app.stop_request import StopRequest, run_until_asked
from hayase.app.streams_runtime import StreamsRuntime
from hayase.core.errors import MissingRequirementError, ProcessingError, StateError

pytestmark = pytest.mark.timeout(60)


class StartedApp:
    """Stands for what `start` makes: a query that ends when it is asked to."""

    def __init__(self, app: StreamsApp) -> None:
        self.app = app
        self.stops: list[float] = []
        self.asked = threading.Event()

    def start(self) -> None:
        self.app._move(State.REBALANCING)
        self.app._move(State.RUNNING)
        self.app._runner = self  # type: ignore[assignment] - only `stop` is asked for
        self.app._watcher = threading.Thread(target=self.watch, daemon=True)
        self.app._watcher.start()

    def stop(self, timeout_s: float) -> bool:
        self.stops.append(timeout_s)
        self.asked.set()
        return True

    def close(self) -> None:
        pass

    def watch(self) -> None:
        self.asked.wait(20)
        self.app._ended(None, None)


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StartedApp:
    made = StartedApp(app_in(tmp_path))
    monkeypatch.setattr(made.app, "start", made.start)
    return made


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def send_soon(number: int) -> None:
    threading.Timer(0.3, os.kill, (os.getpid(), number)).start()


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_closes_a_program_that_runs_and_run_returns(started: StartedApp, number: int) -> None:
    send_soon(number)
    started.app.run()
    assert started.app.state is State.NOT_RUNNING and started.app.error is None
    assert started.stops
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.long
def test_a_handler_of_the_programs_own_gets_its_signal(started: StartedApp) -> None:
    class Told(Exception):
        pass

    def tell(*_: object) -> None:
        raise Told

    signal.signal(signal.SIGINT, tell)
    send_soon(signal.SIGINT)
    with pytest.raises(Told):
        started.app.run()
    assert started.app.state is State.NOT_RUNNING


@pytest.mark.long
def test_ctrl_c_in_a_run_to_the_end_closes_it_first(started: StartedApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(started.app, "start_to_end", started.start)
    send_soon(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        started.app.run_to_end()
    assert started.app.state is State.NOT_RUNNING and started.stops


def test_the_end_of_a_terminal_stays_ignored_under_nohup() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGHUP)
        assert not stop.wait(0.2)


def test_the_handler_that_spark_sets_is_none_of_the_programs() -> None:
    def of_spark(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    of_spark.__module__ = "pyspark.core.context"
    signal.signal(signal.SIGINT, of_spark)
    with StopRequest(keep_handlers=True) as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.wait(5)


@pytest.fixture
def jvm() -> Iterator[ModuleType]:
    from hayase.runtime.driver import jvm

    jvm.expect_no_end()  # a stop in another test
    yield jvm
    jvm.expect_no_end()


def test_once_a_stop_is_asked_for_nothing_is_printed_of_a_jvm_that_the_signal_has_ended_too(
    jvm: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = socketserver.BaseServer(("localhost", 0), socketserver.BaseRequestHandler)
    spark = SimpleNamespace(_accumulatorServer=server)
    monkeypatch.setattr(jvm, "SparkContext", SimpleNamespace(_active_spark_context=spark))

    def fail(error: Exception) -> None:
        def failing() -> None:
            raise error

        thread = threading.Thread(target=failing)
        thread.start()
        thread.join()

    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(5)
    hook = threading.excepthook
    handler = logging.StreamHandler(sys.stderr)
    said = logging.getLogger("py4j.clientserver")
    said.addHandler(handler)
    try:
        fail(ConnectionRefusedError("no JVM"))
        said.error("no JVM")
        server.handle_error(socket.socket(), "no JVM")
        root = logging.makeLogRecord({"name": "root", "msg": "no JVM", "pathname": "/lib/py4j/java_gateway.py"})
        logging.getLogger().handle(root)
        assert capsys.readouterr().err == ""
        jvm.expect_no_end()
        assert threading.excepthook is not hook
        said.error("no JVM")
        assert "no JVM" in capsys.readouterr().err
    finally:
        said.removeHandler(handler)


@pytest.mark.long
def test_a_start_that_cannot_publish_its_topologies_ends_the_runtime(
    runtime: StartedRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> None:
        raise StateError("DISK_FULL", "no room")

    monkeypatch.setattr(runtime, "_publish", full)
    runtime.may_open.set()
    with pytest.raises(StateError, match="no room"):
        runtime.start()
    assert runtime.state is State.ERROR and runtime.close()


@pytest.mark.long
def test_a_start_that_fails_because_the_signal_has_ended_spark_too_is_a_stop(runtime: StartedRuntime) -> None:
    def gone(**_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.5)
        raise ProcessingError("SPARK_FAILED", "Spark did not start: [Errno 111] Connection refused")

    runtime._open = gone  # type: ignore[method-assign]
    runtime.run()
    assert (runtime.state, runtime.error) == (State.NOT_RUNNING, None)


class StartedRuntime(StreamsRuntime):
    """A runtime whose Spark takes its time to start."""

    opened = 0

    def _open(self, **_: object) -> None:
        self.opened += 1
        self.starting.set()
        self.may_open.wait(20)

    def _watch(self) -> None:
        self._stopping.wait(20)

    def __init__(self, config: dict[str, object]) -> None:
        super().__init__(config)
        self.starting, self.may_open = threading.Event(), threading.Event()


@pytest.fixture
def runtime(tmp_path: Path) -> StartedRuntime:
    where = {"state.dir": str(tmp_path / "state"), "log.dir": str(tmp_path / "log")}
    return StartedRuntime({"application.id": "shop", **where})


@pytest.mark.long
def test_a_signal_while_a_runtime_starts_ends_it_when_it_is_started(runtime: StartedRuntime) -> None:
    send_soon(signal.SIGINT)
    threading.Timer(1, runtime.may_open.set).start()
    runtime.run()
    assert runtime.state is State.NOT_RUNNING and runtime.opened == 1


def test_close_of_a_runtime_that_starts_only_asks(runtime: StartedRuntime) -> None:
    starter = threading.Thread(target=runtime.start)
    starter.start()
    assert runtime.starting.wait(10)
    assert runtime.close() and runtime.state is State.PENDING_SHUTDOWN
    runtime.may_open.set()
    starter.join(20)
    assert runtime.wait(timedelta(seconds=10)) and runtime.state is State.NOT_RUNNING


def test_a_start_that_fails_is_raised_by_run(runtime: StartedRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise MissingRequirementError("NO_JAVA", "there is no java")

    monkeypatch.setattr(runtime, "_open", fail)
    with pytest.raises(MissingRequirementError):
        runtime.run()
    assert runtime.state is State.ERROR


@pytest.mark.long
def test_a_request_to_stop_closes_what_runs_to_the_end(runtime: StartedRuntime) -> None:
    reports: dict[str, Any] = {}

    def run_to_end() -> None:
        runtime.start()
        runtime.wait()
        reports["copy"] = runtime.state

    runtime.may_open.set()
    send_soon(signal.SIGTERM)
    with StopRequest() as stop:
        run_until_asked(run_to_end, runtime.wait, runtime.close, stop)
    assert reports == {"copy": State.NOT_RUNNING}
