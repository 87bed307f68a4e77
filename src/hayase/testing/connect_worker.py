"""A worker of Kafka Connect itself on loopback: what Hayase's worker and connectors are compared with."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

import httpx2

from hayase.core.errors import LogError
from hayase.core.java import find_java
from hayase.core.private_files import write_file
from hayase.testing.kafka_broker import KAFKA_VERSION, QUICK_JVM
from hayase.testing.maven_jars import Artifact, maven_jars
from hayase.testing.servers import HOST, ServerProcess, free_ports

_GROUP = "org.apache.kafka"
_ARTIFACTS = (
    *(Artifact(_GROUP, f"connect-{name}", KAFKA_VERSION) for name in ("runtime", "json", "file", "transforms")),
    Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),  # the worker's own binding; it has the loggers
)
DEBEZIUM_POSTGRES = Artifact("io.debezium", "debezium-connector-postgres", "3.6.3.Final")
DEBEZIUM_JDBC = Artifact("io.debezium", "debezium-connector-jdbc", "3.5.0.Final")
"""The sink; of 3.6 a part that it needs is not on every mirror of Maven Central."""
_LOG_TAIL_CHARACTERS = 2000
_JSON = "org.apache.kafka.connect.json.JsonConverter"


def connect_jars(plugin: Artifact | None = None) -> Path:
    """The folder with the jars of the worker, and of a plug-in if wanted; downloads them once.

    Raises:
        MissingRequirementError: `JARS_UNAVAILABLE`, `JAVA_NOT_FOUND`.
    """
    name = f"connect-{KAFKA_VERSION}-" + ("log4j" if plugin is None else f"{plugin.name}-{plugin.version}")
    return maven_jars(name, [*_ARTIFACTS, *(() if plugin is None else (plugin,))], find_java())


class KafkaConnectWorker:
    """One distributed worker of Kafka Connect on 127.0.0.1 and a free port.

    A context manager: entering starts it and waits for its first answer, leaving ends it. It ends when the process that
    started it ends, however that happens. Not thread-safe.

    Example:
        with KafkaBroker() as broker, KafkaConnectWorker(broker.bootstrap_servers, folder) as worker:
            httpx2.get(f"{worker.url}/connectors")

    Args:
        bootstrap_servers: of its Kafka.
        folder: for its configuration and its log.
        plugin: a connector beside those of Apache Kafka.
        settings: of the worker, beside and instead of its own.
        jvm_options: of the JVM; the default starts quickly, for speed at full load give `()`.
        heap_mb: heap of the JVM in megabytes.
        start_timeout_s: how long the first answer may take, without the download.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        folder: Path,
        *,
        plugin: Artifact | None = None,
        settings: Mapping[str, str] | None = None,
        jvm_options: Sequence[str] = QUICK_JVM,
        heap_mb: int = 512,
        start_timeout_s: float = 300.0,
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._folder = folder
        self._plugin = plugin
        self._given = dict(settings or {})
        self._jvm_options = (f"-Xmx{heap_mb}m", *jvm_options)
        self._start_timeout_s = start_timeout_s
        self._process: ServerProcess | None = None
        self.url = ""

    @property
    def pid(self) -> int | None:
        """Process id of the JVM; `None` while it is stopped."""
        return None if self._process is None else self._process.pid

    def _settings(self) -> dict[str, str]:
        return {
            "bootstrap.servers": self._bootstrap_servers,
            "group.id": "kafka-connect",
            "listeners": self.url,
            "key.converter": _JSON,
            "value.converter": _JSON,
            "offset.flush.interval.ms": "500",
            "exactly.once.source.support": "enabled",
            **{f"{each}.storage.topic": f"connect-{each}" for each in ("config", "offset", "status")},
            **{f"{each}.storage.replication.factor": "1" for each in ("config", "offset", "status")},
            **self._given,
        }

    def __enter__(self) -> KafkaConnectWorker:
        java, jars = find_java(), connect_jars(self._plugin)
        ports = free_ports(1, skip=31)
        if ports is None:
            raise LogError("KAFKA_CONNECT_FAILED", f"There is no free port on {HOST}: stop what uses them.")
        self.url = f"http://{HOST}:{ports[0]}"
        properties = self._folder / "worker.properties"
        write_file(properties, "".join(f"{key}={value}\n" for key, value in self._settings().items()).encode())
        command = [str(java.executable), *self._jvm_options, "-cp", f"{jars}/*"]
        command += ["org.apache.kafka.connect.cli.ConnectDistributed", str(properties)]
        self._process = ServerProcess(command, self._folder / "worker.log", dict(os.environ))
        try:
            self._wait_for_answer(self._process)
        except BaseException:
            self._process.end(by_force=True)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.end(by_force=True)
            self._process = None

    def _wait_for_answer(self, process: ServerProcess) -> None:
        deadline = time.monotonic() + self._start_timeout_s
        with httpx2.Client(base_url=self.url, timeout=30) as client:
            while time.monotonic() < deadline and process.pid is not None:
                try:
                    if client.get("/health").status_code == 200:
                        return
                except httpx2.HTTPError:
                    pass
                time.sleep(0.2)
        log = (self._folder / "worker.log").read_text(errors="replace")[-_LOG_TAIL_CHARACTERS:]
        raise LogError("KAFKA_CONNECT_FAILED", f"The worker of Kafka Connect did not answer on {self.url}: {log}")
