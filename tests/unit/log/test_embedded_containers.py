"""Processes of several containers, whose ids are not unique, do not have a log open at a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.namespaces import UNSHARED, needs_namespaces

from hayase.core.errors import LogError
from hayase.core.records import TopicPartition
from hayase.log.embedded.log import EmbeddedLog
from hayase.log.protocol import LogConfig

APPENDS = """
import os, sys
from hayase import HayaseError
from hayase.log.embedded.log import EmbeddedLog
from hayase.log.protocol import LogConfig, OutputBatch
try:
    log = EmbeddedLog(LogConfig("embedded", sys.argv[1], {"fsync": "false"}))
except HayaseError as error:
    sys.exit(f"{os.getpid()} {error}")
log.writer().append([OutputBatch("t", [None], [b"v"], [1])])
print(os.getpid(), flush=True)
sys.stdin.readline()
log.close()
"""


def appending(folder: Path, *before: str) -> subprocess.Popen[str]:
    """A process that appends a record and has the log open until it gets a line."""
    command = [*before, sys.executable, "-c", APPENDS, str(folder)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )  # fmt: skip


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def open_log(folder: Path) -> EmbeddedLog:
    return EmbeddedLog(LogConfig("embedded", str(folder), {"fsync": "false", "cleaner.interval.ms": "0"}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    log = open_log(tmp_path)
    log.create_topic("t", 1)
    log.close()
    return tmp_path


def records(folder: Path) -> int:
    log, where = open_log(folder), TopicPartition("t", 0)
    try:
        return log.end_offsets([where])[where]
    finally:
        log.close()


@pytest.mark.long
@needs_namespaces
def test_a_container_is_refused_while_another_has_the_log_open_and_let_in_afterwards(folder: Path) -> None:
    first = appending(folder, *UNSHARED)
    assert said(first) == "1"
    _, refused = appending(folder, *UNSHARED).communicate("\n")
    assert refused.startswith("1 [LOG_IN_OTHER_PID_NAMESPACE]") and "--pid=container" in refused
    with pytest.raises(LogError) as error:
        open_log(folder)
    assert error.value.condition == "LOG_IN_OTHER_PID_NAMESPACE" and error.value.context["location"] == str(folder)
    first.communicate("\n")
    assert appending(folder, *UNSHARED).communicate("\n")[0].strip() == "1"
    assert records(folder) == 2


@pytest.mark.long
@needs_namespaces
def test_a_container_that_is_killed_does_not_keep_others_out(folder: Path) -> None:
    first = appending(folder, *UNSHARED)
    assert said(first) == "1"
    first.kill()
    first.communicate()
    assert appending(folder, *UNSHARED).communicate("\n")[0].strip() == "1"
    assert records(folder) == 2


@pytest.mark.long
def test_processes_of_one_container_have_it_open_together(folder: Path) -> None:
    log = open_log(folder)
    several = [appending(folder) for _ in range(3)]
    assert all(said(process) for process in several)
    for process in several:
        process.communicate("\n")
    log.close()
    assert records(folder) == 3
