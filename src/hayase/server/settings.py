"""The settings of a SQL server: ksqlDB's names, and Hayase's own."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hayase.app.runtime_settings import is_of_topologies
from hayase.core.config import StreamsConfig
from hayase.core.errors import ConfigError
from hayase.sql.settings import FUNCTIONS_PREFIX, SETTINGS, STREAMS_PREFIX, Use, plain_setting_name

_ID = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Listener:
    """Where the server listens, e.g. `http://127.0.0.1:8088`."""

    host: str
    port: int
    is_tls: bool = False

    @property
    def url(self) -> str:
        """As clients write it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.is_tls else 'http'}://{host}:{self.port}"


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
        function_timeout_ms: `hayase.server.function.timeout.ms`: how long a call of a statement's Python may take.
        in_process: `hayase.server.in.process`: queries run in the server's process, without Spark.
        local_state_bytes: `hayase.server.local.state.bytes`: how much state a query in the server's process may have.
        state_folder: where the server keeps what is not in the log.
        sql: settings of statements, by ksqlDB's names.
        runtime: settings of the runtime that runs the queries: `bootstrap.servers`, `log.dir`, …
        topologies: settings of Hayase for all queries.
    """

    service_id: str = "default_"
    listener: Listener = Listener("127.0.0.1", 8088)
    response_timeout_ms: int = 5000
    max_push_queries: int = 100
    max_pull_per_second: int | None = None
    max_pull_at_once: int | None = None
    healthcheck_interval_ms: int = 5000
    retry_initial_ms: int = 15_000
    retry_max_ms: int = 900_000
    shutdown_timeout_ms: int = 60_000
    hidden_topics: tuple[str, ...] = ("_hayase.*", "_confluent.*", "__confluent.*", "_schemas", "__.*")
    readonly_topics: tuple[str, ...] = ("_hayase.*", "_confluent.*", "__confluent.*", "_schemas", "__.*")
    allowed_overrides: tuple[str, ...] = ()
    denied_overrides: tuple[str, ...] = ()
    backup_folder: Path | None = None
    registry_url: str | None = None
    connect_url: str | None = None
    connect_timeout_ms: int = 5000
    connect_authentication: str = "NONE"
    connect_credentials_file: Path | None = None
    connect_worker_file: Path | None = None
    authentication: str = "NONE"
    realm: str = "hayase"
    users_file: Path | None = None
    skipped_paths: tuple[str, ...] = ()
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    max_body_bytes: int = 1 << 20
    function_timeout_ms: int = 5000
    in_process: bool = False
    local_state_bytes: int = 256 << 20
    state_folder: Path = Path()
    sql: Mapping[str, object] = field(default_factory=dict)
    runtime: Mapping[str, object] = field(default_factory=dict)
    topologies: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Mapping[str, object]) -> ServerSettings:
        """Settings by their names; all may be left out.

        Raises:
            ConfigError: a setting is unknown, or its value not allowed.
        """
        values: dict[str, Any] = {}
        sql: dict[str, object] = {}
        runtime: dict[str, object] = {}
        topologies: dict[str, object] = {}
        for name, value in given.items():
            if name in OWN_SETTINGS:
                attribute, read = OWN_SETTINGS[name]
                values[attribute] = _read(name, value, read)
            elif name in SETTINGS and SETTINGS[name].use is Use.REFUSED:
                raise ConfigError("REFUSED_SETTING", f"{name} cannot be set: {SETTINGS[name].meaning}", setting=name)
            elif name in SETTINGS or name.startswith((STREAMS_PREFIX, FUNCTIONS_PREFIX, "ksql.query.")):
                sql[plain_setting_name(name)] = value
            elif name.startswith("ksql."):
                raise ConfigError(
                    "UNKNOWN_SETTING",
                    f"{name} is no setting of this server; docs/server.md lists those of ksqlDB that it has",
                    setting=name,
                )
            elif is_of_topologies(name):
                topologies[name] = value
            else:
                runtime[name] = value
        service_id = values.setdefault("service_id", cls.service_id)
        sql["ksql.service.id"] = service_id
        runtime.setdefault("application.id", f"hayase-sql-{service_id}")
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


def _read(name: str, value: object, read: Callable[[str], Any]) -> Any:
    try:
        return read(str(value).strip())
    except ValueError as error:
        raise ConfigError("INVALID_SETTING", f"{name} is {value!r}: {error}", setting=name) from error


def _listener(text: str) -> Listener:
    if "," in text:
        raise ValueError("give one address; the server speaks HTTP/1.1, HTTP/2 and WebSocket on one port")
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port is None or parts.path not in ("", "/"):
        raise ValueError("write http://HOST:PORT or https://HOST:PORT")
    return Listener(parts.hostname, parts.port, parts.scheme == "https")


def _service_id(text: str) -> str:
    if not _ID.fullmatch(text):
        raise ValueError("letters, digits, '.', '_' and '-' are allowed, because topics are named by it")
    return text


def _natural(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError("give a number from 1 on")
    return number


def _limit(text: str) -> int | None:
    """KsqlDB's largest numbers mean no limit."""
    number = _natural(text)
    return None if number >= 2**31 - 1 else number


def _names(text: str) -> tuple[str, ...]:
    return tuple(part for part in (each.strip() for each in text.split(",")) if part)


def _patterns(text: str) -> tuple[str, ...]:
    patterns = _names(text)
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
    return patterns


def _authentication(text: str) -> str:
    if text.upper() not in ("NONE", "BASIC"):
        raise ValueError("NONE and BASIC are allowed")
    return text.upper()


def _credentials_source(text: str) -> str:
    if text.upper() not in ("NONE", "FILE"):
        raise ValueError("NONE and FILE are allowed")
    return text.upper()


def _http_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("write http://HOST:PORT or https://HOST:PORT")
    if parts.username is not None:
        raise ValueError("user and password belong into ksql.connect.basic.auth.credentials.file")
    return text


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("true and false are allowed")
    return text.lower() == "true"


OWN_SETTINGS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "ksql.service.id": ("service_id", _service_id),
    "listeners": ("listener", _listener),
    "ksql.server.command.response.timeout.ms": ("response_timeout_ms", _natural),
    "ksql.max.push.queries": ("max_push_queries", _natural),
    "ksql.query.pull.max.qps": ("max_pull_per_second", _limit),
    "ksql.query.pull.max.concurrent.requests": ("max_pull_at_once", _limit),
    "ksql.healthcheck.interval.ms": ("healthcheck_interval_ms", _natural),
    "ksql.query.retry.backoff.initial.ms": ("retry_initial_ms", _natural),
    "ksql.query.retry.backoff.max.ms": ("retry_max_ms", _natural),
    "ksql.streams.shutdown.timeout.ms": ("shutdown_timeout_ms", _natural),
    "ksql.hidden.topics": ("hidden_topics", _patterns),
    "ksql.readonly.topics": ("readonly_topics", _patterns),
    "ksql.properties.overrides.allowlist": ("allowed_overrides", _names),
    "ksql.properties.overrides.denylist": ("denied_overrides", _names),
    "ksql.metastore.backup.location": ("backup_folder", Path),
    "ksql.schema.registry.url": ("registry_url", str),
    "ksql.connect.url": ("connect_url", _http_url),
    "ksql.connect.request.timeout.ms": ("connect_timeout_ms", _natural),
    "ksql.connect.basic.auth.credentials.source": ("connect_authentication", _credentials_source),
    "ksql.connect.basic.auth.credentials.file": ("connect_credentials_file", Path),
    "ksql.connect.worker.config": ("connect_worker_file", Path),
    "authentication.method": ("authentication", _authentication),
    "authentication.realm": ("realm", str),
    "authentication.skip.paths": ("skipped_paths", _names),
    "hayase.server.users.file": ("users_file", Path),
    "ssl.certificate.location": ("tls_certificate", Path),
    "ssl.key.location": ("tls_key", Path),
    "ssl.ca.location": ("tls_client_ca", Path),
    "hayase.server.allowed.hosts": ("allowed_hosts", _names),
    "access.control.allow.origin": ("allowed_origins", _names),
    "hayase.server.max.body.bytes": ("max_body_bytes", _natural),
    "hayase.server.function.timeout.ms": ("function_timeout_ms", _natural),
    "hayase.server.in.process": ("in_process", _boolean),
    "hayase.server.local.state.bytes": ("local_state_bytes", _natural),
}
"""Settings of the server itself, by name: the attribute, and how its text is read."""
