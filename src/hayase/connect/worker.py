"""`ConnectWorker`: connectors and their REST interface in this process."""

from __future__ import annotations

import importlib.metadata
import logging
import threading
from collections.abc import Mapping

from hayase.connect.config.references import ReferencePolicy
from hayase.connect.config.worker_config import WorkerConfig
from hayase.connect.herder.environment import WorkerEnvironment
from hayase.connect.herder.herder import Herder
from hayase.connect.herder.task_host import TaskHost
from hayase.connect.plugins import Plugins
from hayase.connect.rest.server import RestServer, check_tls, rest_app
from hayase.core.time import Clock, SystemClock
from hayase.log.open import open_log
from hayase.log.protocol import LogConfig

_LOG = logging.getLogger(__name__)


class ConnectWorker:
    """Runs connectors and answers Kafka Connect's REST interface; tasks in threads of this process, without Spark.

    Args:
        log_config: the log that connectors read and write.
        props: settings of the worker, under Kafka Connect's names.
        clock: wall clock.
        host: runs the tasks; default: threads of this process. The caller closes it after the worker.

    Example:
        A worker beside a local log:

            with ConnectWorker(LogConfig("embedded", "topics"), {"group.id": "shop"}) as worker:
                worker.herder.create({"name": "lines", "connector.class": "FileStreamSource", ...})
    """

    def __init__(
        self,
        log_config: LogConfig,
        props: Mapping[str, str],
        *,
        clock: Clock | None = None,
        host: TaskHost | None = None,
    ) -> None:
        self.config = WorkerConfig(props)
        check_tls(self.config)
        self._server = RestServer(self.config)
        self.urls = self._server.urls
        """Where the REST interface answers."""
        self._log = open_log(log_config)
        plugins = Plugins(self.config.plugin_folders)
        self.herder = Herder(
            WorkerEnvironment(
                self.config,
                plugins,
                ReferencePolicy.from_worker(props),
                log_config,
                self._log,
                self._worker_id(),
                clock or SystemClock(),
            ),
            host,
        )
        self._cluster = f"{log_config.kind}:{log_config.location}"
        self._closed = threading.Event()

    def _worker_id(self) -> str:
        address = self.urls[0].partition("://")[2] if self.urls else "127.0.0.1:0"
        host, _, port = address.rpartition(":")
        advertised = self.config.optional_string("rest.advertised.host.name")
        given_port = self.config["rest.advertised.port"]
        return f"{advertised or host}:{given_port or port}"

    def _root(self) -> dict[str, object]:
        return {
            "version": importlib.metadata.version("hayase"),
            "commit": "unknown",
            "kafka_cluster_id": self._cluster,
        }

    def start(self) -> None:
        """Start the connectors that the topic of configurations holds, and answer requests."""
        self.herder.start()
        self._server.start(rest_app(self.herder, self.config, self._root))
        _LOG.info("worker %s answers at %s", self.config.group, ", ".join(self.urls))

    def close(self) -> None:
        """Stop answering, stop all connectors, let go of the log; calling again does nothing."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._server.close()
        self.herder.close()
        self._log.close()

    def __enter__(self) -> ConnectWorker:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
