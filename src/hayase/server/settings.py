"""The settings of a SQL server: ksqlDB's names, and Hayase's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hayase.app.runtime_settings import is_of_topologies
from hayase.core.config import StreamsConfig
from hayase.core.errors import ConfigError
from hayase.sql.setting_values import Listener
from hayase.sql.settings import SETTINGS, configured_setting, plain_setting_name, setting_text

_SERVICE_ID = "ksql.service.id"


@dataclass(frozen=True)
class ServerSettings:
    """The settings of a server, checked and typed. Made by `of`.

    Attributes:
        service_id: `ksql.service.id`: what the command topic and all that belongs to the server is named by.
        listener: `listeners`: one address; loopback if not given.
        response_timeout_ms: `ksql.server.command.response.timeout.ms`: how long a request waits for a command.
        max_push_queries: `ksql.max.push.queries`.
        max_pull_per_second: `ksql.query.pull.max.qps`; `None`: any number.
        max_pull_at_once: `ksql.query.pull.max.concurrent.requests`; `None`: any number.
        healthcheck_interval_ms: `ksql.healthcheck.interval.ms`: how long an answer of /healthcheck is kept.
        retry_initial_ms: `ksql.query.retry.backoff.initial.ms`: when a failed query is tried again.
        retry_max_ms: `ksql.query.retry.backoff.max.ms`: how long that may become, doubled at each failure.
        shutdown_timeout_ms: `ksql.streams.shutdown.timeout.ms`.
        hidden_topics: `ksql.hidden.topics`: patterns of topics that LIST TOPICS leaves out.
        readonly_topics: `ksql.readonly.topics`: patterns of topics that no statement may write.
        allowed_overrides: `ksql.properties.overrides.allowlist`: what requests may set; empty: anything.
        denied_overrides: `ksql.properties.overrides.denylist`: what requests may not set.
        backup_folder: `ksql.metastore.backup.location`: where commands are copied to.
        registry_url: `ksql.schema.registry.url`; without it an embedded registry.
        connect_url: `ksql.connect.url`: of the REST interface of a Connect worker; without it connectors run here.
        connect_timeout_ms: `ksql.connect.request.timeout.ms`.
        connect_authentication: `ksql.connect.basic.auth.credentials.source`: NONE or FILE.
        connect_credentials_file: `ksql.connect.basic.auth.credentials.file`: properties `username` and `password`.
        connect_worker_file: `ksql.connect.worker.config`: settings of the worker of connectors that run here.
        authentication: `authentication.method`: NONE or BASIC.
        realm: `authentication.realm`.
        users_file: `hayase.server.users.file`: users with the hashes of their passwords, and their roles.
        skipped_paths: `authentication.skip.paths`: paths that need no authentication.
        tls_certificate: `ssl.certificate.location`: PEM.
        tls_key: `ssl.key.location`: PEM.
        tls_client_ca: `ssl.ca.location`: PEM; with it clients have to show certificates of that authority.
        allowed_hosts: `hayase.server.allowed.hosts`: names under which clients may call the server, beside its own.
        allowed_origins: `access.control.allow.origin`: web pages that may call the server.
        max_body_bytes: `hayase.server.max.body.bytes`.
        pull_timeout_ms: `hayase.server.pull.timeout.ms`: how long the rows of a pull query may be computed.
        pull_max_rows: `hayase.server.pull.max.rows`: how many rows a pull query may answer; `None`: any number.
        function_timeout_ms: `hayase.server.function.timeout.ms`: how long a call of a statement's Python may take.
        in_process: `hayase.server.in.process`: queries run in the server's process, without Spark.
        local_state_bytes: `hayase.server.local.state.bytes`: how much state a query in the server's process may have.
        queries_nice: `hayase.server.queries.nice`: how far Spark's processes give way to requests.
        state_folder: where the server keeps what is not in the log.
        sql: settings of statements, by ksqlDB's names.
        runtime: settings of the runtime that runs the queries: `bootstrap.servers`, `log.dir`, …
        topologies: settings of Hayase for all queries.
    """

    service_id: str
    listener: Listener
    response_timeout_ms: int
    max_push_queries: int
    max_pull_per_second: int | None
    max_pull_at_once: int | None
    healthcheck_interval_ms: int
    retry_initial_ms: int
    retry_max_ms: int
    shutdown_timeout_ms: int
    hidden_topics: tuple[str, ...]
    readonly_topics: tuple[str, ...]
    allowed_overrides: tuple[str, ...]
    denied_overrides: tuple[str, ...]
    backup_folder: Path | None
    registry_url: str | None
    connect_url: str | None
    connect_timeout_ms: int
    connect_authentication: str
    connect_credentials_file: Path | None
    connect_worker_file: Path | None
    authentication: str
    realm: str
    users_file: Path | None
    skipped_paths: tuple[str, ...]
    tls_certificate: Path | None
    tls_key: Path | None
    tls_client_ca: Path | None
    allowed_hosts: tuple[str, ...]
    allowed_origins: tuple[str, ...]
    max_body_bytes: int
    pull_timeout_ms: int
    pull_max_rows: int | None
    function_timeout_ms: int
    in_process: bool
    local_state_bytes: int
    queries_nice: int
    state_folder: Path
    sql: Mapping[str, object]
    runtime: Mapping[str, object]
    topologies: Mapping[str, object]

    @classmethod
    def of(cls, given: Mapping[str, object]) -> ServerSettings:
        """Settings by their names; all may be left out.

        Raises:
            ConfigError: a setting is unknown, or its value not allowed.
        """
        own: dict[str, object] = {name: SETTINGS[name].default for name in OWN_SETTINGS}
        sql: dict[str, object] = {}
        runtime: dict[str, object] = {}
        topologies: dict[str, object] = {}
        for name, value in given.items():
            setting = configured_setting(name, value)
            if name in OWN_SETTINGS:
                own[name] = value
            elif setting is not None:
                sql[plain_setting_name(name)] = value
            elif is_of_topologies(name):
                topologies[name] = value
            else:
                runtime[name] = value
        values = {attribute: _value(name, own[name]) for name, attribute in OWN_SETTINGS.items()}
        sql[_SERVICE_ID] = values["service_id"]
        runtime.setdefault("application.id", f"hayase-sql-{values['service_id']}")
        config = StreamsConfig(runtime)
        settings = cls(
            **values,
            state_folder=Path(config.state_dir) / str(runtime["application.id"]) / "server",
            sql=sql,
            runtime=runtime,
            topologies=topologies,
        )
        settings._check()
        return settings

    @property
    def command_topic(self) -> str:
        """The topic that holds the commands of this server."""
        return f"_hayase-sql-{self.service_id}_commands"

    @property
    def connect_credentials(self) -> Path | None:
        """The file with user and password for the Connect worker, if they are to be sent."""
        return self.connect_credentials_file if self.connect_authentication == "FILE" else None

    def _check(self) -> None:
        if self.listener.is_tls != (self.tls_certificate is not None):
            raise ConfigError(
                "INVALID_SETTING",
                "TLS needs both: listeners that begin with https:// and ssl.certificate.location with ssl.key.location",
                setting="listeners",
            )
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ConfigError(
                "INVALID_SETTING",
                "ssl.certificate.location and ssl.key.location belong together: give both, as PEM files",
                setting="ssl.key.location",
            )
        if self.connect_authentication == "FILE" and self.connect_credentials_file is None:
            raise ConfigError(
                "INVALID_SETTING",
                "ksql.connect.basic.auth.credentials.source=FILE needs ksql.connect.basic.auth.credentials.file: a "
                "file with the lines username=… and password=…",
                setting="ksql.connect.basic.auth.credentials.file",
            )
        if self.authentication == "BASIC" and self.users_file is None:
            raise ConfigError(
                "INVALID_SETTING",
                "authentication.method=BASIC needs hayase.server.users.file: make it with `hayase server user NAME`",
                setting="hayase.server.users.file",
            )


def _value(name: str, given: object) -> Any:
    """The typed value of a setting that was checked."""
    return None if given is None else SETTINGS[name].read(setting_text(given))


OWN_SETTINGS: Mapping[str, str] = {
    "ksql.service.id": "service_id",
    "listeners": "listener",
    "ksql.server.command.response.timeout.ms": "response_timeout_ms",
    "ksql.max.push.queries": "max_push_queries",
    "ksql.query.pull.max.qps": "max_pull_per_second",
    "ksql.query.pull.max.concurrent.requests": "max_pull_at_once",
    "ksql.healthcheck.interval.ms": "healthcheck_interval_ms",
    "ksql.query.retry.backoff.initial.ms": "retry_initial_ms",
    "ksql.query.retry.backoff.max.ms": "retry_max_ms",
    "ksql.streams.shutdown.timeout.ms": "shutdown_timeout_ms",
    "ksql.hidden.topics": "hidden_topics",
    "ksql.readonly.topics": "readonly_topics",
    "ksql.properties.overrides.allowlist": "allowed_overrides",
    "ksql.properties.overrides.denylist": "denied_overrides",
    "ksql.metastore.backup.location": "backup_folder",
    "ksql.schema.registry.url": "registry_url",
    "ksql.connect.url": "connect_url",
    "ksql.connect.request.timeout.ms": "connect_timeout_ms",
    "ksql.connect.basic.auth.credentials.source": "connect_authentication",
    "ksql.connect.basic.auth.credentials.file": "connect_credentials_file",
    "ksql.connect.worker.config": "connect_worker_file",
    "authentication.method": "authentication",
    "authentication.realm": "realm",
    "authentication.skip.paths": "skipped_paths",
    "hayase.server.users.file": "users_file",
    "ssl.certificate.location": "tls_certificate",
    "ssl.key.location": "tls_key",
    "ssl.ca.location": "tls_client_ca",
    "hayase.server.allowed.hosts": "allowed_hosts",
    "access.control.allow.origin": "allowed_origins",
    "hayase.server.max.body.bytes": "max_body_bytes",
    "hayase.server.pull.timeout.ms": "pull_timeout_ms",
    "hayase.server.pull.max.rows": "pull_max_rows",
    "hayase.server.function.timeout.ms": "function_timeout_ms",
    "hayase.server.in.process": "in_process",
    "hayase.server.local.state.bytes": "local_state_bytes",
    "hayase.server.queries.nice": "queries_nice",
}
"""Settings of the server itself: the attribute of each, by name."""
