"""What every benchmark needs on the machine: a folder, a Java runtime, a broker, logs."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from bench.embedded_topics import EmbeddedTopics
from bench.kafka_topics import KafkaTopics
from bench.processes import become_subreaper, cpu_s_of
from hayase.core.java import JavaHome, find_java
from hayase.testing.kafka_broker import KafkaBroker

BROKER_HEAP_MB = 1024
BROKER_CONFIG = {"broker.session.timeout.ms": "60000"}  # a machine at its limit must not lose its only broker
BROKER_START_TIMEOUT_S = 300.0


class Machine:
    """Started when they are first asked for: the broker, the logs. Use as a context manager; takes all away at the end.

    Attributes:
        folder: temporary; of this benchmark.
        java: runs the broker and Java programs.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hayase-bench-"))
        self.java: JavaHome = find_java()
        self._broker = KafkaBroker(
            self.folder / "kafka",
            heap_mb=BROKER_HEAP_MB,
            jvm_options=(),
            extra_config=BROKER_CONFIG,
            start_timeout_s=BROKER_START_TIMEOUT_S,
            java=self.java,
        )
        self._kafka: KafkaTopics | None = None
        self._embedded: EmbeddedTopics | None = None

    def __enter__(self) -> Machine:
        become_subreaper()
        return self

    def __exit__(self, *_: object) -> None:
        if self._embedded is not None:
            self._embedded.close()
        self._broker.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def kafka(self) -> KafkaTopics:
        """Topics of the broker."""
        if self._kafka is None:
            self._broker.start()
            self._kafka = KafkaTopics(self._broker.bootstrap_servers)
        return self._kafka

    def broker_cpu_s(self) -> float:
        """CPU seconds that the broker has taken so far."""
        pid = self._broker.pid
        return cpu_s_of(pid) if pid is not None else 0.0

    @property
    def embedded(self) -> EmbeddedTopics:
        """Topics of an embedded log."""
        if self._embedded is None:
            self._embedded = EmbeddedTopics(self.folder / "log")
        return self._embedded
