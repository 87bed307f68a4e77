"""What a program that runs an application leaves on the terminal: one line, however long it idles and is stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from hayase.log.open import open_log
from hayase.log.protocol import LogConfig

pytestmark = [pytest.mark.spark, pytest.mark.slow]

_IDLE_S = 70
"""Spark ends workers that idle for a minute; the one that looked for sources is the first."""
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


def test_an_idle_run_that_ctrl_c_stops_says_only_that_it_starts_and_ends_well(tmp_path: Path) -> None:
    with closing(open_log(LogConfig("embedded", str(tmp_path / "log")))) as log:
        log.create_topic("in", 1), log.create_topic("out", 1)
    settings = {
        "application.id": "copy",
        "log.dir": str(tmp_path / "log"),
        "state.dir": str(tmp_path / "state"),
        "default.key.serde": "string",
        "default.value.serde": "string",
    }
    program = tmp_path / "copy_in.py"
    program.write_text(PROGRAM.format(settings=settings))
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
