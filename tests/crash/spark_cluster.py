"""A Spark standalone cluster on loopback.

A master, and workers that stand for machines, each with an address and a state folder.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import psutil
from tests.crash.scene import kill, wait_for

from hayase.core.java import find_java, spark_java_home
from hayase.core.spark_home import light_spark_home
from hayase.testing.servers import HOST, ServerProcess, free_ports

START_S = 120.0
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_REGISTERED = "Successfully registered with driver"
_HOST = re.compile(r"Registering worker ([\d.]+):")
_SMALL = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
ENCRYPTED = {
    "spark.authenticate": "true",
    "spark.authenticate.secret": "shared-by-all",
    "spark.network.crypto.enabled": "true",
}
"""Settings with which Spark's processes encrypt what they send to each other."""


class Machine:
    """A Spark worker with one core. Its address and its state folder are its own, as if it were a machine."""

    def __init__(self, number: int, folder: Path, master: str, settings: Mapping[str, str]) -> None:
        self.host = f"127.0.0.{number}"
        self.state = folder / "state"
        self.log = folder / "worker.log"
        self._work = folder / "work"
        folder.mkdir(parents=True)
        options = ["--host", self.host, "--cores", "1", "--memory", "1g", "--work-dir", str(self._work)]
        command = ["org.apache.spark.deploy.worker.Worker", *options, "--webui-port", "0", master]
        environment = {"SPARK_LOCAL_IP": self.host, "HAYASE_STATE_DIR": str(self.state)}
        self._server = _start(command, self.log, environment, settings)

    def processes(self) -> list[psutil.Process]:
        """The worker, its executors and their Python processes."""
        pid = self._server.pid
        if pid is None:
            return []
        worker = psutil.Process(pid)
        return [worker, *worker.children(recursive=True)]

    def executors(self) -> list[psutil.Process]:
        """The JVMs that run tasks."""
        return [each for each in self.processes() if _EXECUTOR in _command(each)]

    def runs_tasks(self) -> bool:
        """Whether an executor of it has been in touch with the driver."""
        return any(_REGISTERED in path.read_text() for path in self._work.glob("app-*/*/stderr"))

    def has(self, pid: int) -> bool:
        """Whether a process is one of this machine's."""
        return any(each.pid == pid for each in self.processes())

    def bundles(self) -> set[str]:
        """The bundles of which it has a state."""
        return {path.parent.name for path in self.state.glob("*/state/*/data.mdb")}

    def lose(self) -> None:
        """SIGKILL to everything on it at once."""
        kill(self.processes())
        self._server.end(by_force=True)

    def end(self) -> None:
        """Stop it, if it runs."""
        if self._server.pid is not None:
            self.lose()


class SparkCluster:
    """A master and its machines; all of it ends with the `with`.

    Args:
        folder: for logs, work and states.
        machines: how many to begin with.
        settings: `spark.*` of master and workers.
    """

    def __init__(self, folder: Path, machines: int, settings: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self.settings = settings or {}
        self._count = 0
        folder.mkdir(parents=True)
        ports = free_ports(1)
        assert ports is not None
        self.master = f"spark://{HOST}:{ports[0]}"
        self._log = folder / "master.log"
        command = ["org.apache.spark.deploy.master.Master", "--host", HOST, "--port", str(ports[0])]
        self._server = _start([*command, "--webui-port", "0"], self._log, {"SPARK_LOCAL_IP": HOST}, self.settings)
        self.machines: list[Machine] = []
        for _ in range(machines):
            self.add()

    def __enter__(self) -> SparkCluster:
        """Wait until all machines are registered."""
        self.wait_for_machines(len(self.machines))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for machine in self.machines:
            machine.end()
        self._server.end(by_force=True)

    def add(self) -> Machine:
        """Start another machine; it joins by itself."""
        self._count += 1
        folder = self._folder / f"machine-{self._count}"
        self.machines.append(Machine(self._count, folder, self.master, self.settings))
        return self.machines[-1]

    def wait_for_machines(self, count: int) -> None:
        """Until so many have been registered since the beginning."""
        wait_for(lambda: len(set(_HOST.findall(self._log.read_text()))) >= count, START_S, f"{count} machines")

    def machine_of(self, pid: int) -> Machine:
        """The machine on which a process is."""
        return next(machine for machine in self.machines if machine.has(pid))


def _start(command: list[str], log: Path, environment: dict[str, str], settings: Mapping[str, str]) -> ServerProcess:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    java = {
        "JAVA_HOME": str(spark_java_home(find_java())),
        "SPARK_DAEMON_JAVA_OPTS": " ".join([_SMALL, *(shlex.quote(f"-D{k}={v}") for k, v in settings.items())]),
        "SPARK_DAEMON_MEMORY": "256m",
    }
    home = light_spark_home()
    assert home is not None
    spark = {"SPARK_HOME": str(home), "SPARK_LAUNCHER_OPTS": _SMALL}
    return ServerProcess(
        [str(home / "bin" / "spark-class"), *command], log, {**inherited, **java, **spark, **environment}
    )


def _command(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.NoSuchProcess:
        return []
