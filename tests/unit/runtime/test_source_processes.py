"""Processes of sources that Spark leaves behind end with the session."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from hayase.runtime.driver.source_processes import end_source_processes

JVM = """
import subprocess, sys
runner = "pyspark.sql.streaming.python_streaming_source_runner"
started = [subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()", *name], stdin=subprocess.PIPE)
           for name in ([runner], ["pyspark.daemon"])]
print("started", flush=True)
print(started[0].wait(), flush=True)
started[1].communicate()
print(started[1].returncode, flush=True)
"""


@pytest.mark.long
def test_only_the_processes_that_plan_sources_are_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", JVM], stdout=subprocess.PIPE, text=True) as jvm:
        assert jvm.stdout is not None and jvm.stdout.readline() == "started\n"
        end_source_processes(jvm.pid)
        assert jvm.communicate(timeout=60)[0].split() == [str(-signal.SIGTERM), "0"]
    end_source_processes(jvm.pid)  # of a JVM that has ended there are none
