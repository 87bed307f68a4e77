"""A SQL server in a process of its own, to be measured from outside."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bench.machine import Machine
from bench.measure import RunError, log_tail, start
from bench.processes import ProcessGroup
from hayase.client.sync_client import SqlClient
from hayase.core.errors import HayaseError
from hayase.log.protocol import LogConfig

_ROOT = Path(__file__).parent.parent
_START_S = 300.0
_TICK_S = 0.05
_STOP_GRACE_S = 120.0
_CONSUMED = re.compile(r"^hayase_sql_query_consumed_records_total\{[^}]*\} (\S+)$", re.MULTILINE)


class ServerProcess:
    """A server, started and stopped as often as wanted over one log.

    Args:
        machine: for its folder and its broker.
        log: `kafka` or `embedded`.
        in_process: queries run in the server's process, without Spark.

    Attributes:
        url: where it listens.
        log: of its topics.
        begin_s: when it was started last.
        info_s: how long it took to the first answer.
        peak_pss_mb: the most memory that all its processes had.
        group: these.
    """

    def __init__(self, machine: Machine, log: str, *, in_process: bool) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        folder = machine.folder
        self._log_file = folder / "server.log"
        self._command = [sys.executable, "-m", "hayase", "server", "--listen", self.url]
        settings = {
            "state.dir": str(folder / "state"),
            "checkpoint.dir": str(folder / "checkpoint"),
            "commit.interval.ms": "100",
            "ksql.streams.auto.offset.reset": "earliest",
        }
        if log == "kafka":
            self.log = LogConfig("kafka", machine.kafka.bootstrap)
            self._command += ["-b", machine.kafka.bootstrap]
        else:
            self.log = LogConfig("embedded", str(folder / "server-log"))
            settings["log.dir"] = str(folder / "server-log")
        if in_process:
            self._command.append("--in-process")
        for name, value in settings.items():
            self._command += ["-c", f"{name}={value}"]
        self.begin_s = 0.0
        self.info_s = 0.0
        self.peak_pss_mb = 0.0
        self.group: ProcessGroup

    @contextmanager
    def running(self) -> Iterator[SqlClient]:
        """The server from its first answer on; it is stopped as Ctrl-C stops it."""
        self.begin_s = time.monotonic()
        process = start(self._command, self._log_file, _ROOT)
        self.group = ProcessGroup(process.pid)
        client = SqlClient(self.url, timeout_s=_START_S)
        watched = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(watched,), daemon=True)
        try:
            wait(lambda: self._answers(client, process), "the server answers")
            self.info_s = time.monotonic() - self.begin_s
            watcher.start()
            yield client
        finally:
            watched.set()
            client.close()
            process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_GRACE_S)
            self.group.end(_STOP_GRACE_S)

    def consumed(self) -> float:
        """Records that the queries have read, all together."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=_START_S) as answer:
            return sum(map(float, _CONSUMED.findall(answer.read().decode())))

    def _answers(self, client: SqlClient, process: subprocess.Popen[bytes]) -> bool:
        if process.poll() is not None:
            raise RunError(f"the server has ended with {process.returncode}. {log_tail(self._log_file)}")
        with suppress(HayaseError):
            return bool(client.info())
        return False

    def _watch(self, ended: threading.Event) -> None:
        while not ended.wait(1.0):
            self.group.sample_memory()
            self.peak_pss_mb = max(self.peak_pss_mb, self.group.peak_pss_mb)


def wait(holds: Callable[[], bool], what: str, every_s: float = _TICK_S) -> None:
    """Wait until something holds; raises RunError if that takes too long."""
    until_s = time.monotonic() + _START_S
    while not holds():
        if time.monotonic() > until_s:
            raise RunError(f"it took more than {_START_S:g} s until {what}")
        time.sleep(every_s)
