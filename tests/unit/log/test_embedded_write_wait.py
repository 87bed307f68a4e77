"""A process that waits for the write lock of an embedded log says so, and which process has stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hayase.log.embedded import write_wait
from hayase.log.embedded.log import EmbeddedLog
from hayase.log.protocol import LogConfig, OutputBatch

STOPS_WHILE_IT_WRITES = """
import os, signal, sys
from hayase.log.embedded.log import EmbeddedLog
from hayase.log.protocol import LogConfig
log = EmbeddedLog(LogConfig("embedded", sys.argv[1], {"fsync": "false", "cleaner.interval.ms": "0"}))
log._store.write(lambda tables: os.kill(os.getpid(), signal.SIGSTOP))
log.close()
"""
SECOND_WORKER = """
import sys
from hayase.cli.main import app
from hayase.log.embedded import write_wait
write_wait._NOTICE_S = 0.2
app(["connect", "--log-dir", sys.argv[1], "-c", "group.id=shop", "--listen", "http://127.0.0.1:0"])
"""


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.long
def test_a_process_that_was_stopped_while_it_wrote_is_named_by_those_that_wait(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_wait, "_NOTICE_S", 0.2)
    monkeypatch.setattr(write_wait, "_watcher", None)
    log = EmbeddedLog(LogConfig("embedded", str(tmp_path), {"fsync": "false", "cleaner.interval.ms": "0"}))
    log.create_topic("t", 1)
    other = subprocess.Popen([sys.executable, "-c", STOPS_WHILE_IT_WRITES, str(tmp_path)])
    try:
        wait_until(lambda: Path(f"/proc/{other.pid}/stat").read_text().rpartition(")")[2][1] == "T")
        batch = OutputBatch("t", [None], [b"v"], [1])
        waits = threading.Thread(target=lambda: log.writer().append([batch]))
        waits.start()
        wait_until(lambda: "for the write lock of the embedded log" in caplog.text)
        assert str(tmp_path) in caplog.text and f"is stopped: pid {other.pid} of user" in caplog.text
        assert waits.is_alive()
        os.kill(other.pid, signal.SIGCONT)
        waits.join(20)
        assert not waits.is_alive() and other.wait(20) == 0
        said = caplog.text
        time.sleep(0.5)
        assert caplog.text == said
    finally:
        other.kill()
        other.wait()
        log.close()


@pytest.mark.long
def test_a_worker_of_connectors_that_cannot_open_the_log_says_which_process_was_stopped(tmp_path: Path) -> None:
    first = subprocess.Popen([sys.executable, "-c", STOPS_WHILE_IT_WRITES, str(tmp_path)])
    second: subprocess.Popen[str] | None = None
    try:
        wait_until(lambda: Path(f"/proc/{first.pid}/stat").read_text().rpartition(")")[2][1] == "T")
        second = subprocess.Popen(
            [sys.executable, "-c", SECOND_WORKER, str(tmp_path)], stderr=subprocess.PIPE, text=True
        )
        assert second.stderr is not None
        said = second.stderr.readline()
        assert "for the write lock of the embedded log" in said and f"is stopped: pid {first.pid} of user" in said
        os.kill(first.pid, signal.SIGCONT)
        assert first.wait(20) == 0
        assert "connectors run" in second.stderr.readline() + second.stderr.readline()
    finally:
        for process in (first, second):
            if process is not None:
                process.kill()
                process.wait()
