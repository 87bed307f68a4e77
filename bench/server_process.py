"""A SQL server in a process of its own, to be measured from outside."""

from __future__ import annotations

import re
import socket
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bench.machine import Machine
from bench.measure import running, wait_until
from bench.processes import ProcessGroup
from hayase.client.sync_client import SqlClient
from hayase.core.errors import HayaseError
from hayase.log.protocol import LogConfig

_ROOT = Path(__file__).parent.parent
START_S = 300.0
"""How long a start may take, or an answer."""
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
        self._unwatched = threading.Event()

    @contextmanager
    def running(self) -> Iterator[SqlClient]:
        """The server from its first answer on; it is stopped as Ctrl-C stops it."""
        self.begin_s = time.monotonic()
        watched = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(watched,), daemon=True)
        with (
            running(self._command, self._log_file, _ROOT, stop_grace_s=_STOP_GRACE_S) as self.group,
            SqlClient(self.url, timeout_s=START_S) as client,
        ):
            try:
                wait_until(lambda: self._answers(client), "the server answers", START_S, self.group)
                self.info_s = time.monotonic() - self.begin_s
                watcher.start()
                yield client
            finally:
                watched.set()

    @contextmanager
    def unwatched(self) -> Iterator[None]:
        """No looks at memory meanwhile: each goes through the pages of all processes, at the priority of the server."""
        self._unwatched.set()
        try:
            yield
        finally:
            self._unwatched.clear()

    def consumed(self) -> float:
        """Records that the queries have read, all together."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=START_S) as answer:
            return sum(map(float, _CONSUMED.findall(answer.read().decode())))

    def _answers(self, client: SqlClient) -> bool:
        with suppress(HayaseError):
            return bool(client.info())
        return False

    def _watch(self, ended: threading.Event) -> None:
        while not ended.wait(1.0):
            if not self._unwatched.is_set():
                self.group.sample_memory()
            self.peak_pss_mb = max(self.peak_pss_mb, self.group.peak_pss_mb)
