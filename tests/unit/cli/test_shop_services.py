"""The processes of the shop: watched, killed with what they started, and started again."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from hayase.cli.demo.shop_services import Command, Killer, ShopProcesses, commands_of_services
from hayase.core.errors import StreamsStoppedError

WITH_CHILD = (
    "import os, pathlib, subprocess, sys, time\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(100)'])\n"
    "with open(sys.argv[1], 'a') as file: file.write(f'{os.getpid()} {child.pid}\\n')\n"
    "time.sleep(100)"
)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[ShopProcesses]:
    command = Command([sys.executable, "-c", WITH_CHILD, str(tmp_path / "pids")])
    with closing(ShopProcesses({"stock": command}, tmp_path / "output")) as processes:
        processes.start()
        yield processes


def pids(file: Path, runs: int) -> list[list[int]]:
    deadline = time.monotonic() + 30
    while not file.exists() or len(file.read_text().splitlines()) < runs:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return [[int(pid) for pid in line.split()] for line in file.read_text().splitlines()]


@pytest.mark.long
def test_a_process_is_killed_with_its_children_and_started_again(started: ShopProcesses, tmp_path: Path) -> None:
    (before,) = pids(tmp_path / "pids", 1)
    started.kill("stock")
    assert not any(map(psutil.pid_exists, before))
    _, after = pids(tmp_path / "pids", 2)
    started.check()
    started.close()
    assert not psutil.pid_exists(after[0])


def test_a_process_that_ends_by_itself_is_named_with_what_it_said(tmp_path: Path) -> None:
    script = "import os, sys; print(os.environ['SAID']); sys.exit(3)"
    command = Command([sys.executable, "-c", script], {"SAID": "the disk is full"})
    with closing(ShopProcesses({"stock": command}, tmp_path / "output")) as processes:
        processes.start()
        with pytest.raises(StreamsStoppedError, match=r"stock of the shop failed.* status 3: the disk is full"):
            check_for_ever(processes)


def check_for_ever(processes: ShopProcesses) -> None:
    while True:
        processes.check()
        time.sleep(0.02)


class Killed(ShopProcesses):
    def __init__(self) -> None:
        super().__init__({"stock": Command([]), "orders": Command([])}, Path())
        self.order: list[str] = []

    def kill(self, name: str) -> None:
        self.order.append(name)


def test_processes_are_killed_as_events_come_and_not_while_nothing_happens() -> None:
    processes = Killed()
    killer = Killer(processes, orders=50, seed=1)
    for events in range(1_000):
        killer.look(events)
        killer.look(events)
    assert processes.order == killer.killed and set(killer.killed) == {"stock", "orders"}
    assert 10 <= len(killer.killed) <= 20


def test_services_run_in_one_spark_or_in_one_each() -> None:
    settings = {"log.dir": "log", "state.dir": "state"}
    (one,) = commands_of_services(settings, apart=False).values()
    assert one.arguments[3:5] == ["runtime", "run"] and "application.id=hayase-shop" in one.arguments
    apart = commands_of_services(settings, apart=True)
    assert list(apart) == ["stock", "payments", "shipping", "orders"]
    stock = apart["stock"].arguments
    assert stock[3] == "run" and "application.id=hayase-shop-stock" in stock
