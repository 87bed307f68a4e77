"""A worker of connectors is killed at any time: each line comes once into the topic and once into the database."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.budget import examples
from tests.crash.spark_cluster import SparkCluster

from hayase.core.records import TopicPartition
from hayase.log.open import open_log
from hayase.log.protocol import LogConfig

_KILLS = 4


@contextlib.contextmanager
def worker(folder: Path, slots: int = 0, **spark: str) -> Iterator[subprocess.Popen[str]]:
    settings = json.dumps({key.replace("_", "."): value for key, value in spark.items()})
    command = [sys.executable, "-m", "tests.crash.connect_under_test", str(folder), str(slots), settings]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()


def rows(folder: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(folder / "lines.db")) as database:
        try:
            return [line for (line,) in database.execute("SELECT line FROM lines ORDER BY rowid")]
        except sqlite3.OperationalError:
            return []


def published(folder: Path) -> list[str]:
    log = open_log(LogConfig("embedded", str(folder / "log")))
    where = TopicPartition("lines", 0)
    end = log.end_offsets([where])[where]
    values = [value for batch in log.reader().fetch(where, 0, end) for value in batch.values]
    log.close()
    return [(value or b"").decode() for value in values]


@pytest.mark.crash
@pytest.mark.parametrize("seed", range(max(1, examples(2))))
def test_each_line_comes_once_whenever_the_worker_is_killed(tmp_path: Path, seed: int) -> None:
    chosen = random.Random(seed)
    written = 0
    for _ in range(_KILLS):
        with worker(tmp_path):
            for _ in range(chosen.randint(5, 20)):
                with (tmp_path / "lines.txt").open("a") as file:
                    file.writelines(f"line {number}\n" for number in range(written, written + 10))
                written += 10
                time.sleep(chosen.random() * 0.1)
    wanted = [f"line {number}" for number in range(written)]
    with worker(tmp_path):
        deadline = time.monotonic() + 90
        while len(rows(tmp_path)) < written and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(0.5)
        assert rows(tmp_path) == wanted
    assert published(tmp_path) == wanted


def processes_of_spark(worker: int) -> tuple[int, list[int]]:
    """The JVM of a worker, and the processes of its slots; waits for them where Spark starts again."""
    deadline = time.monotonic() + 300
    while True:
        with contextlib.suppress(psutil.NoSuchProcess):
            for jvm in psutil.Process(worker).children():
                if "java" in jvm.name() and jvm.status() != psutil.STATUS_ZOMBIE:
                    # The script that becomes the JVM may leave it a dead child, which has no command line.
                    alive = [each for each in jvm.children() if each.status() != psutil.STATUS_ZOMBIE]
                    daemons = [each for each in alive if "hayase.runtime.worker.daemon" in each.cmdline()]
                    slots = [slot.pid for daemon in daemons for slot in daemon.children()]
                    if slots:
                        return jvm.pid, slots
        assert time.monotonic() < deadline, "no slot of Spark"
        time.sleep(0.1)


def kill_process(pid: int) -> None:
    """Kill a process and wait for its end: until then it is listed, with its children."""
    process = psutil.Process(pid)
    process.kill()
    with contextlib.suppress(psutil.NoSuchProcess):
        while process.status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)


class Lines:
    """Lines of the file that the worker reads, and the rows that come of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.written = 0

    def write(self, lines: int) -> None:
        with (self.folder / "lines.txt").open("a") as file:
            file.writelines(f"line {number}\n" for number in range(self.written, self.written + lines))
        self.written += lines

    def wait_for_rows(self) -> None:
        deadline = time.monotonic() + 180
        while len(rows(self.folder)) < self.written:
            assert time.monotonic() < deadline, f"{len(rows(self.folder))} of {self.written} rows"
            time.sleep(0.1)

    def check(self) -> None:
        wanted = [f"line {number}" for number in range(self.written)]
        assert rows(self.folder) == wanted
        assert published(self.folder) == wanted


@pytest.mark.crash
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_each_line_comes_once_whenever_slots_of_spark_or_its_jvm_are_killed(tmp_path: Path) -> None:
    chosen = random.Random(5)
    lines = Lines(tmp_path)
    with worker(tmp_path, slots=2) as process:
        for kill in range(8):
            lines.write(10)
            lines.wait_for_rows()
            jvm, slots = processes_of_spark(process.pid)
            for _ in range(chosen.randint(1, 10)):
                lines.write(3)
                time.sleep(chosen.random() * 0.05)
            kill_process(jvm if kill == 4 else chosen.choice(slots))
        lines.wait_for_rows()
        time.sleep(1)
    lines.check()


@pytest.mark.crash
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_each_line_comes_once_when_machines_of_a_cluster_are_lost_one_after_the_other(tmp_path: Path) -> None:
    lines = Lines(tmp_path)
    with SparkCluster(tmp_path / "cluster", 2) as cluster:
        settings = {"spark_master": cluster.master, "spark_executor_memory": "512m"}
        with worker(tmp_path, slots=2, **settings):
            for machine in list(cluster.machines):
                lines.write(10)
                lines.wait_for_rows()
                lines.write(10)
                machine.lose()
                cluster.add()
            lines.wait_for_rows()
            time.sleep(1)
    lines.check()
