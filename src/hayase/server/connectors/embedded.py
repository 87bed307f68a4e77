"""Connectors of this process: a worker without a REST interface of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hayase.core.errors import ConfigError, HayaseError
from hayase.core.properties import parse_properties
from hayase.core.time import SystemClock
from hayase.log.open import open_log
from hayase.log.protocol import Log, LogConfig
from hayase.server.connectors.protocol import ConnectServiceError, Json, errors_of

if TYPE_CHECKING:  # connectors are slow to import, and most servers have none
    from hayase.connect.herder.herder import Herder

_LOG = logging.getLogger(__name__)
_SERVER_ERROR = 500
_CONVERTERS = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
"""Those that connectors without their own have: streams in JSON read what they write."""


class EmbeddedConnect:
    """A `ConnectService` whose connectors run in threads of this process.

    The worker starts with the first statement that needs it, or with the server where it has connectors already.

    Args:
        log_config: how to open the log.
        service_id: of the server; the worker and its topics are named by it.
        worker_id: `host:port` that states name.
        config_file: settings of the worker, under Kafka Connect's names; `None`: the defaults.
    """

    def __init__(self, log_config: LogConfig, service_id: str, worker_id: str, config_file: Path | None = None) -> None:
        self.props = _worker_props(service_id, config_file)
        self._log_config = log_config
        self._worker_id = worker_id
        self._lock = threading.Lock()
        self._herder: Herder | None = None
        self._log: Log | None = None
        self._closed = False
        self._starter: threading.Thread | None = None

    @property
    def config_topic(self) -> str:
        """The topic with the configurations of the connectors."""
        return self.props["config.storage.topic"]

    def resume(self, log: Log) -> None:
        """Begin to run, in a thread, the connectors that an earlier process had; returns at once.

        Args:
            log: in which to look whether there are any.
        """
        if self.config_topic in log.topics():
            self._starter = threading.Thread(target=self._start_now, name="hayase-connectors", daemon=True)
            self._starter.start()

    def names(self) -> Sequence[str]:
        """See `ConnectService.names`."""
        with self._asked() as herder:
            return herder.connectors()

    def info(self, name: str) -> Json:
        """See `ConnectService.info`."""
        with self._asked() as herder:
            return herder.info(name)

    def status(self, name: str) -> Json:
        """See `ConnectService.status`."""
        with self._asked() as herder:
            return herder.status(name)

    def topics(self, name: str) -> Sequence[str]:
        """See `ConnectService.topics`."""
        with self._asked() as herder:
            return sorted(herder.runner(name).topics)

    def errors(self, config: Mapping[str, str]) -> Sequence[str]:
        """See `ConnectService.errors`."""
        with self._asked() as herder:
            return errors_of(herder.validate(config).as_json())

    def create(self, config: Mapping[str, str]) -> Json:
        """See `ConnectService.create`."""
        with self._asked() as herder:
            return herder.create(config)

    def delete(self, name: str) -> None:
        """See `ConnectService.delete`."""
        with self._asked() as herder:
            herder.delete(name)

    def plugins(self) -> Sequence[Json]:
        """See `ConnectService.plugins`."""
        with self._asked() as herder:
            return herder.plugins()

    def close(self) -> None:
        """See `ConnectService.close`."""
        with self._lock:
            self._closed = True
            herder, self._herder = self._herder, None
            log, self._log = self._log, None
        if herder is not None:
            herder.close()
        if log is not None:
            log.close()
        if self._starter is not None:
            self._starter.join()

    @contextmanager
    def _asked(self) -> Iterator[Herder]:
        from hayase.connect.herder.states import HerderError

        try:
            yield self._running()
        except HerderError as error:
            raise ConnectServiceError(error.status, error.condition, error.message) from error

    def _running(self) -> Herder:
        with self._lock:
            if self._closed:
                raise ConnectServiceError(
                    _SERVER_ERROR, "CONNECT_STOPPED", "The server stops; its connectors go on later"
                )
            if self._herder is None:
                self._herder = self._started()
            return self._herder

    def _start_now(self) -> None:
        try:
            self._running()
        except HayaseError as error:
            _LOG.error("connectors do not run, and are tried again with the next statement about them: %s", error)

    def _started(self) -> Herder:
        from hayase.connect.config.references import ReferencePolicy
        from hayase.connect.config.worker_config import WorkerConfig
        from hayase.connect.herder.environment import WorkerEnvironment
        from hayase.connect.herder.herder import Herder
        from hayase.connect.plugins import Plugins

        config = WorkerConfig(self.props)
        plugins = Plugins(config.plugin_folders)
        references = ReferencePolicy.from_worker(self.props)
        log = open_log(self._log_config)
        try:
            environment = WorkerEnvironment(
                config, plugins, references, self._log_config, log, self._worker_id, SystemClock()
            )
            herder = Herder(environment)
            herder.start()
        except BaseException:
            log.close()
            raise
        self._log = log
        return herder


def _worker_props(service_id: str, config_file: Path | None) -> dict[str, str]:
    """The settings of the worker.

    Raises:
        ConfigError: the file cannot be read.
    """
    name = f"_hayase-sql-{service_id}_connect"
    given: dict[str, str] = {}
    if config_file is not None:
        try:
            given = parse_properties(config_file.expanduser().read_text(encoding="utf-8"), str(config_file))
        except OSError as error:
            raise ConfigError(
                "INVALID_SETTING", f"ksql.connect.worker.config: {config_file} cannot be read: {error.strerror}"
            ) from error
    topics = {f"{kind}.storage.topic": f"{name}-{kind}s" for kind in ("config", "offset")}
    own_values = "value.converter" in given  # what belongs to ours would act on it
    converters = {
        setting: value for setting, value in _CONVERTERS.items() if setting == "key.converter" or not own_values
    }
    return {"group.id": name, "status.storage.topic": f"{name}-status", **topics, **converters, **given}
