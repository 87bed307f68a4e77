"""A real Kafka broker on loopback, for tests, the benchmark and `hayase dev kafka`."""

from __future__ import annotations

import base64
import logging
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from hayase.core.errors import LogError
from hayase.core.java import JavaHome, find_java
from hayase.core.private_files import make_folder, write_file
from hayase.testing.kafka_listeners import SecureListener, listener_properties
from hayase.testing.maven_jars import Artifact, maven_jars
from hayase.testing.servers import HOST, ServerProcess, free_ports

KAFKA_VERSION = "4.3.1"
_ARTIFACTS = (
    Artifact("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    # Kafka's own distribution adds this binding; without it the broker logs nothing.
    Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
)
_START_ATTEMPTS = 3
_LOG_TAIL_LINES = 25
_LOG_ERROR_LINES = 5

_CONFIG = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "num.partitions": "1",
    "auto.create.topics.enable": "false",
    # One node: internal topics cannot have three replicas. Few partitions: a start is faster.
    "default.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "broker.heartbeat.interval.ms": "500",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    # A dead producer's transaction blocks read_committed readers until it times out: look every second.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # Event times of tests and of the demo are far from today; they must neither expire nor be refused.
    "log.retention.ms": "-1",
    "log.message.timestamp.after.max.ms": str(2**63 - 1),
    "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
}
PATIENT = {"broker.session.timeout.ms": "60000"}
"""For `extra_config` on a machine that may stand still for seconds: its controller does not give the node up then.

After a crash the controller refuses the node for so long (9 s by default), so not for those that are killed and started
again.
"""
QUICK_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
"""Up in half the time and light beside others on few cores.

Of a broker at full load the optimizing compiler gets more.
"""
_LOG4J = """rootLogger.level = info
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %-5p %c{1} %m%n
"""


class KafkaBroker:
    """One Kafka node (broker and controller in one process, KRaft) on 127.0.0.1 and free ports.

    A context manager: entering starts it, leaving stops it. The node ends when the process that started it
    ends, however that happens. Topics are not created automatically; internal topics have one replica;
    records never expire and may have any timestamp (change it with `extra_config` or per topic).

    Not thread-safe. The data folder must not be used by two brokers at a time.

    Example:
        with KafkaBroker() as broker:
            producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

    Args:
        data_folder: where logs, configuration and `broker.log` live; kept on stop, and a later broker with the
            same folder continues with its topics. None: a temporary folder, removed by `stop`.
        heap_mb: heap of the JVM in megabytes (`-Xms` and `-Xmx`).
        jvm_options: of the JVM besides that; the default starts quickly, for speed at full load give `()`.
        extra_config: properties of the broker (`server.properties`) that are added to or replace the defaults.
        port: port of the broker's listener; None: a free one, chosen at the first start and then kept.
        secure: listeners that ask for TLS or a password, besides the one that asks for nothing (`address_of`).
        start_timeout_s: how long `start` and `restart` wait for the first answer, without the download.
        java: the runtime; None: `find_java()`.
        monotonic: the clock for timeouts, in seconds.
        sleep: waits that many seconds between two looks at the process.
    """

    def __init__(
        self,
        data_folder: Path | str | None = None,
        *,
        heap_mb: int = 512,
        jvm_options: Sequence[str] = QUICK_JVM,
        extra_config: Mapping[str, str] | None = None,
        port: int | None = None,
        secure: Sequence[SecureListener] = (),
        start_timeout_s: float = 60.0,
        java: JavaHome | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._given_folder = None if data_folder is None else Path(data_folder).absolute()
        self._folder: Path | None = self._given_folder
        self._heap_mb = heap_mb
        self._jvm_options = tuple(jvm_options)
        self._extra_config = dict(extra_config or {})
        self._wanted_port = port
        self._secure = tuple(secure)
        self._ports: tuple[int, ...] | None = None  # of the listener, the controller, the secure listeners
        self._start_timeout_s = start_timeout_s
        self._java = java
        self._monotonic = monotonic
        self._sleep = sleep
        self._process: ServerProcess | None = None
        self._log_start = 0

    @property
    def bootstrap_servers(self) -> str:
        """`127.0.0.1:<port>`; known from the first start on and the same after every restart.

        Raises:
            LogError: `KAFKA_BROKER_NOT_STARTED` before the first start.
        """
        if self._ports is None:
            raise LogError("KAFKA_BROKER_NOT_STARTED", "The broker has no address yet: call start() first.")
        return f"{HOST}:{self._ports[0]}"

    def address_of(self, name: str) -> str:
        """`127.0.0.1:<port>` of a secure listener; kept over restarts as `bootstrap_servers` is.

        Raises:
            KeyError: there is no listener of that name.
            LogError: `KAFKA_BROKER_NOT_STARTED` before the first start.
        """
        if self._ports is None:
            raise LogError("KAFKA_BROKER_NOT_STARTED", "The broker has no address yet: call start() first.")
        ports = dict(zip((each.name for each in self._secure), self._ports[2:], strict=True))
        return f"{HOST}:{ports[name]}"

    @property
    def data_folder(self) -> Path:
        """The data folder. A temporary one exists from `start` until `stop`.

        Raises:
            LogError: `KAFKA_BROKER_NOT_STARTED` if the folder is temporary and not made yet, or removed.
        """
        if self._folder is None:
            raise LogError("KAFKA_BROKER_NOT_STARTED", "The broker has no folder yet: call start() first.")
        return self._folder

    @property
    def log_file(self) -> Path:
        """What the broker logs, over all its starts: `<data_folder>/broker.log`."""
        return self.data_folder / "broker.log"

    @property
    def pid(self) -> int | None:
        """Process id of the running broker; None if it does not run."""
        return self._process.pid if self._process is not None else None

    def start(self) -> KafkaBroker:
        """Start the broker and return once a client gets an answer from it. Does nothing if it runs.

        The first start on a machine downloads Kafka's jars (see `maven_jars`).

        Raises:
            LogError: `KAFKA_BROKER_FAILED` with the last lines of the log, if the broker ended or gave no
                answer in time.
            MissingRequirementError: `JAVA_NOT_FOUND` or `JARS_UNAVAILABLE`.
        """
        if self.pid is not None:
            return self
        java = self._java = self._java or find_java()
        jars = maven_jars(f"kafka-{KAFKA_VERSION}", _ARTIFACTS, java)
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="hayase-kafka-"))
        attempts = 1 if self._ports or self._wanted_port else _START_ATTEMPTS
        failure: str | None = None
        for attempt in range(attempts):
            if self._ports is None or attempts > 1:  # not a restart
                self._ports = self._choose_ports(skip=attempt)
            failure = self._try_to_start(java, jars)
            if failure is None:
                return self
            if "Address already in use" not in self._log_since_launch():
                break
        self._forget_temporary_folder()
        raise LogError("KAFKA_BROKER_FAILED", failure or "The Kafka broker did not start.")

    def stop(self) -> None:
        """End the broker in good order, or by force after 20 s, and remove a temporary folder.

        Does nothing if it does not run. No process is left when it returns.
        """
        self._end()
        self._forget_temporary_folder()

    def kill(self) -> None:
        """End the broker at once (SIGKILL), as a crash of its process would. Data is kept.

        Not guaranteed: that a transaction committed in the last moment becomes visible. Kafka 4.3 as a single
        node can drop the commit markers it still has to write after such a start ("Couldn't find leader
        endpoint" in its log); `read_committed` readers then wait at that transaction forever.
        """
        self._end(by_force=True)

    def restart(self) -> None:
        """Stop the broker if it runs and start it again on the same port with the same data.

        Raises:
            LogError, MissingRequirementError: as `start`.
        """
        self._end()
        self.start()

    def __enter__(self) -> KafkaBroker:
        return self.start()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _try_to_start(self, java: JavaHome, jars: Path) -> str | None:
        """Start the process on the chosen ports; what went wrong, or None. Then no process is left."""
        config = self._write_config()
        self._log_start = self.log_file.stat().st_size if self.log_file.exists() else 0
        if not (self.data_folder / "log" / "meta.properties").exists():
            self._format(java, jars, config)
        self._process = self._launch(java, jars, config)
        failure = self._wait_for_answer(self._process)
        if failure is not None:
            self.kill()
        return failure

    def _choose_ports(self, skip: int) -> tuple[int, ...]:
        """As many free ports as are needed."""
        ports = free_ports(2 + len(self._secure), skip, self._wanted_port)
        if ports is None:
            raise LogError("KAFKA_BROKER_FAILED", f"There are not enough free ports on {HOST}: stop what uses them.")
        return ports

    def _write_config(self) -> Path:
        folder = self.data_folder
        make_folder(folder)
        broker, controller, *secure = self._ports or (0, 0)
        config = {
            **_CONFIG,
            "controller.quorum.voters": f"1@{HOST}:{controller}",
            **listener_properties(broker, controller, list(zip(self._secure, secure, strict=True))),
            "log.dirs": str(folder / "log"),
            **self._extra_config,
        }
        path = folder / "server.properties"
        write_file(path, "".join(f"{name}={value}\n" for name, value in config.items()).encode())
        write_file(folder / "log4j2.properties", _LOG4J.encode())
        return path

    def _format(self, java: JavaHome, jars: Path, config: Path) -> None:
        """Give the empty data folder a cluster id, as Kafka wants before the first start."""
        # An id that begins with "-" would be taken for an option.
        cluster_id = base64.urlsafe_b64encode(b"H" + uuid.uuid4().bytes[1:]).decode().rstrip("=")
        options = [*QUICK_JVM, "-Xmx256m"]
        main = ["kafka.tools.StorageTool", "format", "--cluster-id", cluster_id, "--config", str(config)]
        main += [option for each in self._secure for option in each.format_options()]
        with self.log_file.open("ab") as log:
            done = subprocess.run(
                self._java_command(java, jars, options) + main,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if done.returncode != 0:
            raise LogError("KAFKA_BROKER_FAILED", f"The data folder could not be formatted. {self._log_tail()}")

    def _java_command(self, java: JavaHome, jars: Path, options: list[str]) -> list[str]:
        log4j = f"-Dlog4j2.configurationFile={self.data_folder / 'log4j2.properties'}"
        return [str(java.executable), *options, log4j, "-cp", f"{jars}/*"]

    def _launch(self, java: JavaHome, jars: Path, config: Path) -> ServerProcess:
        options = [
            f"-Xms{self._heap_mb}m",
            f"-Xmx{self._heap_mb}m",
            "-Djava.awt.headless=true",
            *self._jvm_options,
        ]
        command = [*self._java_command(java, jars, options), "kafka.Kafka", str(config)]
        return ServerProcess(command, self.log_file)

    def _wait_for_answer(self, process: ServerProcess) -> str | None:
        """Wait until a client lists the topics; what went wrong, or None."""
        quiet = logging.Logger("hayase.testing.kafka_broker", level=logging.CRITICAL)
        admin = AdminClient(
            {"bootstrap.servers": self.bootstrap_servers, "reconnect.backoff.max.ms": 200}, logger=quiet
        )
        deadline = self._monotonic() + self._start_timeout_s
        while self._monotonic() < deadline:
            if (status := process.status) is not None:
                return f"The Kafka broker ended with status {status} while starting. {self._log_tail()}"
            try:
                if admin.list_topics(timeout=1).brokers:
                    return None
            except KafkaException:
                self._sleep(0.05)
        return f"The Kafka broker gave no answer within {self._start_timeout_s:g} s. {self._log_tail()}"

    def _log_tail(self) -> str:
        """The first errors of this start, which the shutdown that follows may have moved far up, and the end."""
        lines = self._log_since_launch().splitlines()
        errors = [line for line in lines[:-_LOG_TAIL_LINES] if " ERROR " in line or " FATAL " in line]
        shown = errors[:_LOG_ERROR_LINES] + lines[-_LOG_TAIL_LINES:]
        return f"From {self.log_file}:\n" + "\n".join(shown)

    def _log_since_launch(self) -> str:
        with self.log_file.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def _end(self, *, by_force: bool = False) -> None:
        if self._process is not None:
            self._process.end(by_force=by_force)
            self._process = None

    def _forget_temporary_folder(self) -> None:
        if self._given_folder is None and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
