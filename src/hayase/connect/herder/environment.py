"""What connectors of a worker share: its configuration, plug-ins, the log."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from hayase.connect.config.client_overrides import ClientOverrides
from hayase.connect.config.references import ReferencePolicy
from hayase.connect.config.worker_config import WorkerConfig
from hayase.connect.plugins import Plugins
from hayase.core.time import Clock
from hayase.log.open import open_log
from hayase.log.protocol import Log, LogConfig


@dataclass(frozen=True, slots=True)
class WorkerEnvironment:
    """What connectors of a worker share.

    Attributes:
        config: of the worker.
        plugins: which classes there are.
        references: which secrets may be read.
        log_config: how to open the log.
        log: opened; for the herder, and on the embedded log for tasks as well.
        worker_id: `host:port` of the REST interface.
        clock: wall clock.
    """

    config: WorkerConfig
    plugins: Plugins
    references: ReferencePolicy
    log_config: LogConfig
    log: Log
    worker_id: str
    clock: Clock

    @property
    def durable(self) -> bool:
        """Whether what the log has acknowledged survives a power loss."""
        return self.log_config.kind != "embedded" or self.log_config.options.get("fsync", "true") == "true"

    def open_task_log(self, overrides: Mapping[str, str]) -> Log:
        """The log for one task: clients of its own on Kafka, with its overrides; the shared one on the embedded log.

        Args:
            overrides: settings of Kafka's clients, with the prefix `producer.` or `consumer.`.
        """
        if self.log_config.kind == "embedded":
            return self.log
        return open_log(dataclasses.replace(self.log_config, options={**self.log_config.options, **overrides}))

    def with_own_log(self) -> WorkerEnvironment:
        """The same with a log of its own, for one thread: clients of Kafka are not shared by threads."""
        return dataclasses.replace(self, log=self.open_task_log({}))

    def close_task_log(self, log: Log) -> None:
        """Let go of a task's log."""
        if log is not self.log:
            log.close()

    @property
    def overrides(self) -> ClientOverrides:
        """What connectors may change of Kafka's clients."""
        return ClientOverrides(self.config)
