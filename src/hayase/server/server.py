"""Making a server's parts of its settings."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from hayase.app.sql_settings import logged_query_settings, registry_of
from hayase.connect.worker_lease import WorkerLease
from hayase.core.config import StreamsConfig
from hayase.core.errors import LeaseHeldError
from hayase.core.time import SystemClock
from hayase.log.config import log_config
from hayase.log.open import open_log
from hayase.log.protocol import Log
from hayase.runtime.driver.lease import lease_for, lease_holder
from hayase.serde.registry import SchemaRegistry
from hayase.server.children.pool import ChildPool
from hayase.server.children.python_calls import PythonCalls
from hayase.server.children.row_calls import RowCalls
from hayase.server.commands.early_log import open_early
from hayase.server.commands.executor import CommandExecutor
from hayase.server.commands.log import CommandLog
from hayase.server.connectors.embedded import EmbeddedConnect
from hayase.server.connectors.protocol import ConnectService
from hayase.server.connectors.remote import RemoteConnect, read_credentials
from hayase.server.context import ServerContext
from hayase.server.hosts.protocol import QueryHost
from hayase.server.hosts.spark import SparkHost
from hayase.server.inserts import RecordInserts
from hayase.server.limits import PullLimits
from hayase.server.local_run.tails import LogTails
from hayase.server.push.running import PushQueries
from hayase.server.query_times import QueryTimes
from hayase.server.security.users import Users
from hayase.server.settings import ServerSettings
from hayase.server.topics import LogTopics
from hayase.sql.ast.statements import CreateSource
from hayase.sql.engine import SqlEngine
from hayase.sql.functions.registry import FunctionRegistry, default_registry
from hayase.sql.grammar.parser import parse_statement
from hayase.sql.statements.processing_log import processing_log_stream
from hayase.storage.posix_blobs import PosixBlobs

_ADHOC_AT_MOST = 2
_ADHOC_BYTES_MAX = 64 << 20
"""Of 1,000 rows of an answer."""


def open_server(
    settings: ServerSettings,
    functions: FunctionRegistry | None = None,
    *,
    log: Log | None = None,
    registry: SchemaRegistry | None = None,
    start_queries: bool = True,
) -> ServerContext:
    """A server that has replayed its commands and begun to run its queries; `close` ends it.

    Args:
        settings: of the server.
        functions: all functions; by default those of ksqlDB.
        log: instead of that of the settings; closed with the server, or if that does not start.
        registry: instead of that of the settings.
        start_queries: begin to run queries; else `ServerContext.start_queries` does, when the server answers already.

    Raises:
        LeaseHeldError: a server of the same service id runs with that state folder, or that log.
        HayaseError: the log cannot be opened.
    """
    config = StreamsConfig(settings.runtime)
    with ExitStack() as opened:
        if log is not None:
            opened.callback(log.close)
        users = None if settings.users_file is None else Users(settings.users_file)
        held = opened.enter_context(ExitStack())
        try:
            held.enter_context(lease_for(PosixBlobs(settings.state_folder), f"{config.application_id} (SQL server)"))
        except LeaseHeldError as error:
            raise _running_already(settings) from error
        if log is None:
            log = open_early(config, settings.command_topic)
            opened.callback(log.close)
        url = settings.registry_url or config.schema_registry.get("url")
        schemas = registry or registry_of(None if url is None else str(url), config)
        context: ServerContext | None = None

        def give_way() -> None:
            if context is not None:
                context.give_way()

        in_log = _take_lease_in_log(settings, config, held, give_way)
        context = _opened(settings, config, functions, log, schemas, users)
        context.held = held
        if in_log.lost is not None:  # while commands were replayed
            context.give_way()
        if start_queries:
            context.start_queries()
        opened.pop_all()
    return context


def _take_lease_in_log(
    settings: ServerSettings, config: StreamsConfig, held: ExitStack, on_lost: Callable[[], None]
) -> WorkerLease:
    """Of two servers with different state folders, one runs the queries of a log; raises LeaseHeldError."""
    log = open_log(log_config(config))
    held.callback(log.close)
    lease = WorkerLease(log, f"{settings.command_topic}-server", on_lost)
    try:
        return held.enter_context(lease)
    except LeaseHeldError as error:
        raise LeaseHeldError(
            "LEASE_HELD",
            f"another server with ksql.service.id={settings.service_id} runs the queries of this log "
            f"({lease.holder() or 'holder unknown'}); stop it first, or give this one another ksql.service.id",
        ) from error


def _running_already(settings: ServerSettings) -> LeaseHeldError:
    holder = lease_holder(PosixBlobs(settings.state_folder)) or "holder unknown"
    return LeaseHeldError(
        "LEASE_HELD",
        f"a server with ksql.service.id={settings.service_id} is running already ({holder}); stop it first, or give "
        "this one another ksql.service.id",
    )


def _opened(
    settings: ServerSettings,
    config: StreamsConfig,
    functions: FunctionRegistry | None,
    log: Log,
    registry: SchemaRegistry,
    users: Users | None,
) -> ServerContext:
    now_ms = SystemClock().now_ms
    connect = _connect(settings, config)
    secret = [connect.config_topic] if isinstance(connect, EmbeddedConnect) else []
    topics = LogTopics(log, settings.hidden_topics, settings.readonly_topics, secret)
    python_calls = PythonCalls(settings.function_timeout_ms / 1000)
    row_calls = RowCalls(settings.function_timeout_ms / 1000)
    functions = (default_registry() if functions is None else functions).calling_by(python_calls, row_calls)
    engine = SqlEngine(settings.sql, functions, registry, topics)
    tails = LogTails(log)
    host = _host(settings, log, tails)
    command_log = CommandLog(log, settings.command_topic, now_ms, settings.backup_folder)

    def settings_of_query(given: Mapping[str, object]) -> Mapping[str, object]:
        return logged_query_settings(given, settings.topologies, topics)

    def fenced(why: str) -> None:  # in a thread: a command holds the lock of commands
        threading.Thread(target=context.give_way, args=(why,), name="hayase-give-way", daemon=True).start()

    times = QueryTimes()
    commands = CommandExecutor(engine, command_log, topics, host, registry, settings_of_query, fenced)
    context = ServerContext(
        settings=settings,
        log=log,
        topics=topics,
        registry=registry,
        engine=engine,
        tails=tails,
        host=host,
        commands=commands,
        inserts=RecordInserts(log, topics, now_ms),
        connect=connect,
        python_calls=python_calls,
        row_calls=row_calls,
        adhoc_children=ChildPool("hayase.server.children.adhoc_worker", _ADHOC_AT_MOST, _ADHOC_BYTES_MAX),
        push_queries=PushQueries(settings.max_push_queries, times.push.observe),
        pull_limits=PullLimits(settings.max_pull_at_once, settings.max_pull_per_second, took_s=times.pull.observe),
        times=times,
        users=users,
    )
    commands.recover()
    _add_processing_log(commands)
    return context


def _add_processing_log(commands: CommandExecutor) -> None:
    """Make the processing log a stream, if the settings want one and it is not there."""
    text = processing_log_stream(commands.engine.settings)
    if text is None or commands.problem is not None:
        return
    parsed = parse_statement(text)
    assert isinstance(parsed.statement, CreateSource)
    if commands.engine.catalog.find(parsed.statement.name) is None:
        commands.execute(parsed, {})


def _host(settings: ServerSettings, log: Log, tails: LogTails) -> QueryHost:
    now_ms = SystemClock().now_ms
    if settings.in_process:
        from hayase.server.hosts.in_process import InProcessHost  # what processes records is slow to import

        return InProcessHost(
            log,
            tails,
            str(settings.runtime["application.id"]),
            now_ms,
            retry_initial_ms=settings.retry_initial_ms,
            retry_max_ms=settings.retry_max_ms,
            state_bytes_max=settings.local_state_bytes,
        )
    return SparkHost(
        settings.runtime,
        log,
        now_ms,
        retry_initial_ms=settings.retry_initial_ms,
        retry_max_ms=settings.retry_max_ms,
        stop_timeout_s=settings.shutdown_timeout_ms / 1000,
        nice=settings.queries_nice,
    )


def _connect(settings: ServerSettings, config: StreamsConfig) -> ConnectService:
    if settings.connect_url is not None:
        if settings.connect_credentials is not None:
            read_credentials(settings.connect_credentials)  # raises now, and not with the first statement
        return RemoteConnect(settings.connect_url, settings.connect_timeout_ms, settings.connect_credentials)
    listener = settings.listener
    worker_id = f"{listener.host}:{listener.port}"
    return EmbeddedConnect(log_config(config), settings.service_id, worker_id, settings.connect_worker_file)
