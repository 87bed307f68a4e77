"""Whatever fails while an application is watched or ended, it comes to its end and lets go of what it has."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from hayase import Serdes, State, StreamsApp, StreamsBuilder
from hayase.app.failure_recovery import Recovery, StreamThreadExceptionResponse, shut_down_client
from hayase.app.supervisor import Supervisor
from hayase.core.errors import HayaseError, ProcessingError
from hayase.runtime.driver.lease import lease_for
from hayase.runtime.driver.progress import Progress
from hayase.runtime.wire.driver_control import DriverControl
from hayase.runtime.wire.failure import spark_gone
from hayase.storage.open import open_blobs


def app_in(folder: Path) -> StreamsApp:
    builder = StreamsBuilder()
    builder.stream("in")
    settings = {
        "application.id": "app",
        "state.dir": str(folder),
        "default.key.serde": Serdes.string(),
        "default.value.serde": Serdes.string(),
    }
    return StreamsApp(builder.build(), settings)


class DeadRunner:
    """A run whose JVM is gone: every call of Spark's fails."""

    def __init__(self, folder: Path, error: Exception) -> None:
        (folder / "run").mkdir(parents=True, exist_ok=True)
        self.control = DriverControl(folder / "run")
        self.spark_log = folder / "spark.log"
        self.progress = Progress()
        self.run = self
        self.failing = error
        self.restarts = 0

    def poll(self) -> bool:
        raise self.failing

    def status(self) -> None:
        return None

    def restart(self) -> None:
        self.restarts += 1
        raise self.failing

    def stop_query(self) -> bool:
        return False

    def why_lost(self, error: Exception) -> HayaseError:
        return spark_gone(error, self.spark_log, "killed by SIGKILL")

    def close(self) -> None:
        raise self.failing


REFUSED = [ConnectionRefusedError(111, "Connection refused"), Py4JNetworkError("Answer from Java side is empty")]


@pytest.mark.parametrize("error", REFUSED)
def test_a_run_that_cannot_be_closed_ends_in_error_and_gives_its_lease_back(tmp_path: Path, error: Exception) -> None:
    app = app_in(tmp_path)
    runner: Any = DeadRunner(tmp_path, error)
    blobs = open_blobs(app.config.checkpoint_dir, fsync=False)
    app._lease = lease_for(blobs, "app")
    app._lease.__enter__()
    app._move(State.REBALANCING)
    app._run = app._runner = runner
    watcher = threading.Thread(target=app._watch, args=(runner, None, True), daemon=True)
    watcher.start()
    watcher.join(20)
    assert app.state is State.ERROR
    assert app.error is not None
    assert app.error.condition == "SPARK_DIED"
    assert "SIGKILL" in str(app.error)
    with lease_for(blobs, "app"):
        pass


@pytest.mark.long
def test_a_jvm_that_died_is_for_the_handler_to_decide_on_and_replacements_end(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    app._move(State.REBALANCING)
    runner: Any = DeadRunner(tmp_path, REFUSED[0])
    seen: list[str] = []

    def handler(error: HayaseError) -> StreamThreadExceptionResponse:
        seen.append(error.condition)
        return StreamThreadExceptionResponse("REPLACE_THREAD" if len(seen) < 3 else "SHUTDOWN_CLIENT")

    error = Supervisor(app, runner, Recovery(handler, 300)).until_end()
    assert isinstance(error, ProcessingError)
    assert seen == ["SPARK_DIED"] * 3
    assert runner.restarts == 2


def test_by_default_a_jvm_that_died_ends_the_application(tmp_path: Path) -> None:
    assert Recovery(shut_down_client, 300).delay_s(ProcessingError("SPARK_DIED", "gone"), 0) is None
