"""What a program that runs an application leaves on the terminal: one line, whenever it is stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from hayase.log.open import open_log
from hayase.log.protocol import LogConfig

pytestmark = [pytest.mark.spark, pytest.mark.slow]

_IDLE_S = 70
"""Spark ends workers that idle for a minute; the one that looked for sources is the first."""
_SOURCE = "pyspark.sql.streaming.python_streaming_source_runner"
PROGRAM = """
import sys
from hayase import State, StreamsApp, StreamsBuilder

builder = StreamsBuilder()
builder.stream("in").to("out")
app = StreamsApp(builder.build(), {settings!r})
app.set_state_listener(lambda new, old: print(new.value, flush=True))
if __name__ == "__main__":
    app.run()
    print("after run", app.state.value, flush=True)
"""


def _copy(folder: Path) -> Path:
    """The program, with its topics."""
    with closing(open_log(LogConfig("embedded", str(folder / "log")))) as log:
        log.create_topic("in", 1), log.create_topic("out", 1)
    settings = {
        "application.id": "copy",
        "log.dir": str(folder / "log"),
        "state.dir": str(folder / "state"),
        "default.key.serde": "string",
        "default.value.serde": "string",
    }
    program = folder / "copy_in.py"
    program.write_text(PROGRAM.format(settings=settings))
    return program


def test_a_run_that_is_stopped_while_spark_starts_its_query_leaves_no_trace(tmp_path: Path) -> None:
    program = _copy(tmp_path)
    with subprocess.Popen(
        [sys.executable, program],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        started = psutil.Process(process.pid)
        while not any(map(_plans_source, started.children(recursive=True))):
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)
        said, complaints = process.communicate(timeout=100)
    assert said.split()[-3:] == ["after", "run", "NOT_RUNNING"]
    assert complaints == "application copy, in columns: Spark is starting; Ctrl-C stops it\n"


def _plans_source(process: psutil.Process) -> bool:
    try:
        return _SOURCE in process.cmdline()
    except psutil.Error:  # it has ended
        return False


def test_an_idle_run_that_ctrl_c_stops_says_only_that_it_starts_and_ends_well(tmp_path: Path) -> None:
    program = _copy(tmp_path)
    with subprocess.Popen(
        [sys.executable, program],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None and process.stderr is not None
        while (line := process.stdout.readline()) and line.strip() != "RUNNING":
            pass
        assert line, process.stderr.read()
        time.sleep(_IDLE_S)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        said, complaints = process.communicate(timeout=100)
    assert said.split() == ["PENDING_SHUTDOWN", "NOT_RUNNING", "after", "run", "NOT_RUNNING"]
    assert complaints == "application copy, in columns: Spark is starting; Ctrl-C stops it\n"
    assert process.returncode == 0
